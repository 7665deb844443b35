"""The scalar interpreter: one value at a time, Python numbers over bytes of memory."""
