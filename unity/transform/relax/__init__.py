"""Passes on graph functions, one file each; ``pipeline.py`` puts them in order."""
