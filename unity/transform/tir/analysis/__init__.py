"""Questions about loops and accesses that several lowering passes ask. Nothing here is a pass."""
