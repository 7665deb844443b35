"""Passes over what a function is given: weights bound or bundled, their types changed; symbolic sizes bound."""
