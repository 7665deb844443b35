"""Passes that bring a graph function into a form: one operation per binding, dataflow blocks, order, nothing unused."""
