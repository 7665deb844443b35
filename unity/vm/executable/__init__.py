"""A compiled program as data: bytecode, its text and file format, entries, formulas of its memory."""
