"""The state of the translation of one graph: values, sizes, calls back into torch, the report."""
