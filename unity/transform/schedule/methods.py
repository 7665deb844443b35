"""The primitives as methods: what `Schedule` inherits. Editors and type checkers read the stub beside this file, which is made of
the table of primitives."""


class Primitives:
    """Every primitive of the table is a method; they are put here once all families are imported."""
