"""Passes that compute less by the meaning of operators: common values, constants, products in another order."""
