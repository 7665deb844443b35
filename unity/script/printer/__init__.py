"""IR to script text, one file per kind of node; `show.py` is where a module comes in.

Not here: the table of spellings (``script/spelling/spelling.py``), which the reader shares.
"""
