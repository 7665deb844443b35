"""The bytecode run in Python, every check and instrument on."""
