"""Passes on loops: their order, where they are cut, which become one, which threads share."""
