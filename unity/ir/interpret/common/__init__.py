"""The meaning of tensor programs that running one thread at a time and all threads of a kernel have in common."""
