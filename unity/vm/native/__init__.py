"""The native driver: bytecode of graph functions as machine code. Not here: bytecode, kernels."""
