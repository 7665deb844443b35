from ..instrument import *  # noqa: F403
