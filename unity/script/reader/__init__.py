"""Script text to IR: `module.py` for modules, `relax*.py` for graph functions, `tir_*.py` for tensor programs.

Not here: the grammar and its tree (``script/parser``), the table of spellings (``script/spelling/spelling.py``).
"""
