from .runtime import *  # noqa: F403
