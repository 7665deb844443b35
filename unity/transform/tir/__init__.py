"""Lowering passes on tensor programs, one file each; ``pipeline.py`` lists them in order."""
