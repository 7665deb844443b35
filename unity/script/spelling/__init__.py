"""How each construct is written, for the reader and the printer."""
