from ..transform import *  # noqa: F403
