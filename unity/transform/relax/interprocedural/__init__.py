"""Passes over functions as a whole: names, closures, inlining, signatures."""
