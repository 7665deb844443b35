"""The primitives: decorated functions, each with what it checks and what it rewrites."""
