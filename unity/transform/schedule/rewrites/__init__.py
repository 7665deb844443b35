"""Changes of statements by primitives: bodies, trees, places, layouts, inlining."""
