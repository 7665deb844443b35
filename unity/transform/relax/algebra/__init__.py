"""Passes that compute less by the meaning of operators: common values, constants, attention in one step."""
