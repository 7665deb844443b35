"""Memory of emulated devices: allocations, bytes kept apart from their addresses, maps of tensors."""
