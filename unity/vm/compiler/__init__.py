"""Graph functions to bytecode; `module.py` is where a module comes in. Not here: tensor programs (``vm/kernel_cache.py``)."""
