"""PTX text to objects: types, tokens, modules, instructions, operands."""
