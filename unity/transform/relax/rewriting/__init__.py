"""Tools of graph passes: bindings rewritten in order, types deduced anew."""
