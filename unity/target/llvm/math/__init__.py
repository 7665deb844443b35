"""Elementary functions in vectors, as LLVM IR: one file per family, `library.py` hands them out."""
