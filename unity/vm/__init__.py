"""Running programs: bytecode, its compiler, saved files, the interpreter and native execution.

Execution side (needs ``ffi`` alone): ``executable``, ``builtins``, ``interpreter``, ``native``, the virtual machine. Compiling side
(needs the compiler rooms): ``compiler``, ``build``, the caches.
"""
