"""How graph passes change functions: bindings rewritten in order, types deduced anew."""
