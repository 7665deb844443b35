"""Calls that leave the function: C symbols, LLVM intrinsics, registered functions, other tensor programs."""

from __future__ import annotations

import re

from ...ffi.calls.kernel_calls import BRIDGE
from ...ffi.dtype import DataType
from ...ffi.machine_code.engine import process_symbol
from ...ffi.targets.processor import compile_problems
from ...ffi.targets.target import processor_in_use
from ...ir.build import dtype_of
from ...ir.expr import Call, GlobalVar, IntImm, StringImm, Var
from ...ir.types import Expr
from ...support.errors import CodegenError
from ..llvm.casts import convert, from_memory
from ..llvm.indices import index
from ..llvm.lltypes import llvm_type, memory_type, value_type
from ..llvm.memory import strides_of
from ..llvm.narrow import widen
from ..llvm.writer import UNDEFINED, FunctionWriter, ModuleWriter

_I64, _F64 = DataType("int64"), DataType("float64")
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*$")
_VARIADIC = {"printf": 1, "fprintf": 2, "dprintf": 2, "sprintf": 2, "snprintf": 3}
"""C functions with a variable tail, and their number of fixed parameters."""


def called_name(call: Call) -> str:
    """The name of the function that a call by name calls. Raises CodegenError E526."""
    first = call.args[0]
    if type(first) is not StringImm:
        raise CodegenError("E526", "the first argument of a call by name must be a string constant", call.span)
    return first.value


def _argument(w: FunctionWriter, expr: Expr) -> tuple[str, str]:
    """(type, operand) of an argument of a C function. A buffer element of a handle call stays a value."""
    if type(expr) is StringImm:
        return "ptr", w.value(expr)
    dtype = dtype_of(expr)
    if dtype.code == "void":
        raise CodegenError("E523", "an argument without value", getattr(expr, "span", None))
    return value_type(dtype), w.value(expr)


def call_extern(w: FunctionWriter, call: Call) -> str:
    """A C function, or a tensor program of the module by its name. The symbol must exist in this process."""
    name = called_name(call)
    if name in w.module.functions:
        return call_kernel(w, Call(GlobalVar(name), call.args[1:], {}, (), call.ty, call.span))
    if not _SYMBOL.match(name) or name.startswith("llvm."):
        raise CodegenError("E527", f"{name!r} is not the name of a C function", call.span)
    if name in w.module.imported:
        return _call_imported(w, call, name)
    if not process_symbol(name):
        raise CodegenError("E527", f"no C function {name!r} in this process", call.span,
                           help="load its library before compiling, or register the function and use T.call_packed")  # fmt: skip
    arguments = [_argument(w, a) for a in call.args[1:]]
    fixed = _VARIADIC.get(name)
    if fixed is not None:
        if len(arguments) < fixed:
            raise CodegenError("E526", f"{name} takes at least {fixed} arguments, got {len(arguments)}", call.span)
        arguments = [a if i < fixed else _promoted(w, a, call.args[1 + i]) for i, a in enumerate(arguments)]
    extend = {"i8": "signext ", "i16": "signext ", "i1": "zeroext "}
    result = dtype_of(call)
    ty = value_type(result)
    shown = ", ".join([f"{kind} {text}" for kind, text in arguments])
    kinds = ", ".join([kind for kind, _ in arguments[: fixed if fixed is not None else len(arguments)]])
    kinds += ", ..." if fixed is not None else ""
    w.module.externs[name] = None
    w.module.declare(f"@{name}", f"declare {extend.get(ty, '')}{ty} @{name}({kinds})\n")
    return w.call(f"{extend.get(ty, '')}{ty} ({kinds})", f"@{name}", shown)


def _call_imported(w: FunctionWriter, call: Call, name: str) -> str:
    """A function of LLVM IR that the program imports, with exactly the types it is defined with."""
    defined, params = w.module.imported[name]
    arguments = [_argument(w, a) for a in call.args[1:]]
    result = value_type(dtype_of(call))
    if tuple([kind for kind, _ in arguments]) != params or (result != defined and defined != "void"):
        given, wanted = ", ".join([kind for kind, _ in arguments]), ", ".join(params)
        raise CodegenError("E450", f"{name} is {defined} ({wanted}), called as {result} ({given})", call.span)
    w.module.declare(f"@{name}", f"declare {defined} @{name}({', '.join(params)})\n")
    shown = ", ".join([f"{kind} {text}" for kind, text in arguments])
    return w.call(defined, f"@{name}", shown)


def _promoted(w: FunctionWriter, argument: tuple[str, str], expr: Expr) -> tuple[str, str]:
    """C's default promotions in a variable tail: float to double, small integers to int."""
    kind, text = argument
    if kind == "ptr":
        return argument
    dtype = dtype_of(expr)
    if dtype.is_float:
        return "double", convert(w, text, dtype, _F64)
    if dtype.bits < 32 or dtype.is_bool:
        return "i32", convert(w, text, dtype, DataType("int32"))
    return argument


def call_llvm(w: FunctionWriter, call: Call) -> str:
    """An LLVM intrinsic by name (``llvm.`` optional, type suffix optional), which ``try_intrinsics`` tries out."""
    name = called_name(call)
    name = name if name.startswith("llvm.") else f"llvm.{name}"
    if not _SYMBOL.match(name):
        raise CodegenError("E527", f"{name!r} is not the name of an LLVM intrinsic", call.span)
    operands = without_arity(call)
    result = dtype_of(call)
    kinds = [llvm_type(dtype_of(a)) for a in operands]
    texts = [native(w, w.value(a), dtype_of(a)) for a in operands]
    ty = llvm_type(result)
    w.module.small_floats |= any([kind.endswith(("half", "bfloat", "half>", "bfloat>")) for kind in [*kinds, ty]])
    actual = [f"{k} {t}" for k, t in zip(kinds, texts)]

    def alone(least: int) -> str:
        """A module of this call. Constants of fewer bits stand in it, as an instruction may need them; others are parameters."""
        params = {i: f"{k} %a{i}" for i, (k, a) in enumerate(zip(kinds, operands))
                  if type(a) is not IntImm or a.ty.dtype.bits >= least}  # fmt: skip
        values = ", ".join([params.get(i, given) for i, given in enumerate(actual)])
        kept, result = ("", "") if ty == "void" else ("%r = ", " %r")
        return f"define {ty} @probe({', '.join(params.values())}) {{\n  {kept}call {ty} @{name}({values})\n  ret {ty}{result}\n}}\n"

    w.module.trials.setdefault(alone(65), (alone(64), f"{name} with ({', '.join(kinds)}) -> {ty}", call))
    return from_native(w, w.call(ty, f"@{name}", ", ".join(actual)), result)


def try_intrinsics(module: ModuleWriter) -> None:
    """Have LLVM compile each call of an intrinsic alone for the processor in use. Raises CodegenError E527 for one that it
    does not."""
    processor = processor_in_use()
    refused = compile_problems([general for general, _, _ in module.trials.values()], processor.cpu, processor.changes)
    with_constants = [text for text, (general, _, _) in module.trials.items() if general in refused]
    for text, problem in compile_problems(with_constants, processor.cpu, processor.changes).items():
        _, shown, call = module.trials[text]
        raise CodegenError("E527", f"{shown}: {problem}", call.span)


def without_arity(call: Call) -> list[Expr]:
    """The operands of an LLVM intrinsic, without TVM's older form: the number of arguments that pick the overload."""
    operands = list(call.args[1:])
    first = operands[0] if len(operands) > 1 else None
    counts = type(first) is IntImm and first.ty.dtype.name == "uint32" and first.value < len(operands)
    return operands[1:] if counts else operands


def native(w: FunctionWriter, text: str, dtype: DataType) -> str:
    """A value as LLVM's own type: narrow floats are integers of their bits everywhere else."""
    ty = llvm_type(dtype)
    return text if ty == value_type(dtype) else w.emit(f"bitcast {value_type(dtype)} {text} to {ty}")


def from_native(w: FunctionWriter, text: str, dtype: DataType) -> str:
    """A value of LLVM's own type as registers hold it."""
    ty = llvm_type(dtype)
    return text if ty == value_type(dtype) else w.emit(f"bitcast {ty} {text} to {value_type(dtype)}")


def call_packed(w: FunctionWriter, call: Call) -> str:
    """A registered function; see ``ffi/calls/kernel_calls.py`` for how arguments travel."""
    name = called_name(call)
    if w.inside_parallel:
        raise CodegenError("E526", "a registered function cannot be called inside a parallel loop", call.span)
    if name not in w.kernel.packed_calls:
        w.kernel.packed_calls.append(name)
    layout: list[str] = []
    words: list[tuple[str, str]] = []
    for argument in call.args[1:]:
        _pack(w, argument, layout, words)
    result = dtype_of(call)
    layout.append("v" if result.code in ("void", "handle") else "f" if result.is_float else f"i:{result.name}")
    block = w.slot("i64", 16, len(words) + 1)
    for number, (kind, text) in enumerate(words):
        w.do(f"store {kind} {text}, ptr {w.emit(f'getelementptr i64, ptr {block}, i64 {number}')}")
    last = w.emit(f"getelementptr i64, ptr {block}, i64 {len(words)}")
    w.do(f"store i64 0, ptr {last}")
    declare = w.module.declare
    declare("@PyGILState_Ensure", "declare i32 @PyGILState_Ensure()\n")
    declare("@PyGILState_Release", "declare void @PyGILState_Release(i32)\n")
    declare("@PyObject_CallFunction", "declare ptr @PyObject_CallFunction(ptr, ptr, ...)\n")
    declare("@Py_DecRef", "declare void @Py_DecRef(ptr)\n")
    declare(f"@{BRIDGE}", f"@{BRIDGE} = external global i8\n")
    w.module.externs[BRIDGE] = None
    held = w.emit("call i32 @PyGILState_Ensure()")
    answer = w.emit(
        f"call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr @{BRIDGE}, ptr {w.module.string('yyK')}, "
        f"ptr {w.module.string(name)}, ptr {w.module.string(','.join(layout))}, ptr {block})"
    )
    failed = w.emit(f"icmp eq ptr {answer}, null")
    good, bad, on = w.label("answered"), w.label("raised"), w.label("on")
    w.branch(failed, bad, good)
    w.start(bad)
    w.do(f"call void @PyGILState_Release(i32 {held})")
    w.leave("-1")
    w.start(good)
    w.do(f"call void @Py_DecRef(ptr {answer})")
    w.do(f"call void @PyGILState_Release(i32 {held})")
    w.jump(on)
    w.start(on)
    if result.code in ("void", "handle"):
        return "null"
    if result.is_float:
        return convert(w, w.emit(f"load double, ptr {last}"), _F64, result)
    return convert(w, w.emit(f"load i64, ptr {last}"), _I64, result)


def _pack(w: FunctionWriter, argument: Expr, layout: list[str], words: list[tuple[str, str]]) -> None:
    if type(argument) is StringImm:
        layout.append("s")
        words.append(("ptr", w.value(argument)))
        return
    dtype = dtype_of(argument)
    buffer = w.buffers.get(argument) if type(argument) is Var else None
    if buffer is not None:
        compact = not buffer.strides
        layout.append(f"t:{buffer.dtype.name}:{len(buffer.shape)}")
        if not compact or buffer.dtype.lanes != 1:
            raise CodegenError(
                "E526", f"buffer {buffer.name} is not compact: it cannot be handed to a registered function"
            )
        words.append(("ptr", w.value(argument)))
        words.extend([("i64", index(w, extent)) for extent in buffer.shape])
    elif dtype.code == "handle":
        layout.append("h")
        words.append(("ptr", w.value(argument)))
    elif dtype.lanes != 1:
        raise CodegenError(
            "E526", f"a {dtype.name} cannot be handed to a registered function", getattr(argument, "span", None)
        )
    elif dtype.is_float:
        text = w.value(argument)
        if dtype.is_narrow:
            text, dtype = widen(w, text, dtype), DataType("float32")
        layout.append("f")
        words.append(("double", convert(w, text, dtype, _F64)))
    else:
        layout.append(f"i:{dtype.name}")
        words.append(("i64", convert(w, w.value(argument), dtype, _I64)))


def call_kernel(w: FunctionWriter, call: Call) -> str:
    """Another tensor program of the module: buffers by pointer, its symbols from the shapes of the buffers given."""
    assert type(call.op) is GlobalVar
    name = call.op.name
    func = w.module.functions.get(name)
    if func is None:
        raise CodegenError("E526", f"the module has no tensor program {name!r}", call.span)
    signature = w.module.signatures[name]
    if len(call.args) != len(func.params):
        raise CodegenError("E526", f"{name} takes {len(func.params)} arguments, got {len(call.args)}", call.span)
    arguments = []
    for param, argument in zip(func.params, call.args):
        expected, actual = dtype_of(param), dtype_of(argument)
        text = w.value(argument)
        if expected.code != "handle":
            text = convert(w, text, actual, expected, call.span)
        elif actual.code != "handle":
            raise CodegenError("E523", f"{name}: {param.name} must be a pointer, got {actual.name}", call.span)
        kind = memory_type(expected)
        if expected.is_bool:
            text = w.emit(f"zext i1 {text} to i8")
        arguments.append(f"{kind} {text}")
    for symbol in signature.symbols:
        source = call.args[symbol.param]
        buffer = w.buffers.get(source) if type(source) is Var else None
        if symbol.field == "value":
            arguments.append(f"i64 {index(w, source)}")
        elif buffer is None or symbol.axis >= len(buffer.shape):
            raise CodegenError(
                "E526", f"{name}: its symbol {symbol.name} is read from an argument of unknown shape", call.span
            )
        elif symbol.field == "shape":
            arguments.append(f"i64 {index(w, buffer.shape[symbol.axis])}")
        else:
            arguments.append(f"i64 {strides_of(w, buffer)[symbol.axis]}")
    result = DataType(signature.result) if signature.result else None
    if result is not None and dtype_of(call).code != "void" and dtype_of(call) is not result:
        raise CodegenError("E523", f"{name} returns {result.name}, taken as {dtype_of(call).name}", call.span)
    slot = ""
    if result is not None:
        slot = w.slot(memory_type(result), 16)
        arguments.append(f"ptr {slot}")
    status = w.emit(f"call i32 @{w.module.symbols[name]}({', '.join(arguments)})")
    w.leave_unless(f"icmp eq i32 {status}, 0", lambda: _translated(w, status, name))
    if result is None:
        return UNDEFINED
    return from_memory(w, w.emit(f"load {memory_type(result)}, ptr {slot}"), result)


def _translated(w: FunctionWriter, status: str, name: str) -> str:
    """A callee's failure as the caller's own: a Python exception stays, a check becomes one message."""
    code = w.kernel.message(f"a check inside {name} failed")
    raised = w.emit(f"icmp slt i32 {status}, 0")
    return w.emit(f"select i1 {raised}, i32 -1, i32 {code}")
