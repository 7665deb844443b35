"""Processes that candidates are built and run in: a crash or a hang there costs one candidate."""
