"""Parts that both levels share: the state of reading, names, expressions, types."""
