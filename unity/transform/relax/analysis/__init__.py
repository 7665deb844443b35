"""Questions about graph functions that several passes ask. Nothing here is a pass."""
