"""Translations of torch operators, one file per family; each fills the table of `context.py` when it is imported."""
