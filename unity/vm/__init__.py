"""Running programs: bytecode, its compiler, saved files, the interpreter and native execution.

Execution side (needs ``ffi`` alone): ``executable``, ``builtins``, ``interpreter``, ``native``, the virtual machine, ``load``.
Compiling side (needs the compiler rooms): ``compiler``, ``stages``, ``build``, the caches.
"""
