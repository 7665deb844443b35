"""Shared by rules and nests: how decisions are said and found again, the size of a tile of registers."""
