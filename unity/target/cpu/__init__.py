"""Code for processors: LLVM IR as text, and the math library."""
