"""How primitives change statements: bodies, trees, places, layouts."""
