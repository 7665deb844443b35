"""Small native functions that generated code and Python share: threads, memory, tensors, copies."""
