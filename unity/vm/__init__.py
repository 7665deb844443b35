"""Running programs: bytecode, its compiler, saved files, the interpreter and native execution.

Execution side (needs ``ffi`` alone): bytecode, codec, artifact, executable, entry, checks, values, builtins, kernels,
interpret, native_ir, native_body, native_driver, native_run, machine. Compiling side (needs the compiler rooms): dims,
type_text, compile, calls, build.
"""
