"""Code for CUDA devices: kernels as PTX through LLVM, and host code that launches them."""
