"""The CUDA driver through ctypes: its functions, contexts and streams, memory, modules, launches. No tensor and no target here."""
