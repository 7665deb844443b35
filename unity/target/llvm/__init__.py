"""LLVM IR text for lowered tensor programs: what every target that goes through LLVM shares, and the math library."""
