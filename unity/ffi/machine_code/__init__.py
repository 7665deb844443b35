"""Machine code in this process: LLVM, object files, linking, where objects have their fields."""
