"""From graphs of torch to bindings: contexts, control flow, sizes, checks, calls back into torch."""
