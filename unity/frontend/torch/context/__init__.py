"""What the translation of one graph knows: values, sizes, calls back into torch, the report."""
