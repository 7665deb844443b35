"""Passes over what a function is given: weights bound, lifted, bundled or fetched late; symbolic sizes bound."""
