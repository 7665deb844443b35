"""Script text to IR: `module.py` for modules, `relax*.py` for graph functions, `tir_*.py` for tensor programs.

Not here: the grammar and its tree (`tree.py`, `syntax.py`), the table of spellings (`spelling.py`).
"""
