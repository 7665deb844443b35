"""Running programs: bytecode, its compiler, saved files, the interpreter and native execution.

Execution side (needs ``ffi`` alone): bytecode, codec, executable, checks, values, builtins, interpret, native_run, machine.
Compiling side (needs the compiler rooms): dims, compile, calls, native_*, build.
"""
