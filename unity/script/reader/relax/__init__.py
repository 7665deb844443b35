"""Graph functions: expressions, operators and the R forms, statements, functions."""
