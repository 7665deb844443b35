"""Translations of torch operators, one file per family; each fills the table of ``frontend/torch/context`` when imported."""
