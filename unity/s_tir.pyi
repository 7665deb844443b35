from .tir import *  # noqa: F403
