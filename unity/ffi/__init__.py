"""Foreign side: data types, devices, tensors, packed functions, the calling convention."""
