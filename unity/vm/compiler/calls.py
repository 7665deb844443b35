"""Bytecode of calls: tensor programs, functions of the module, registered functions, and the VM's own operators.

One row of ``OPERATORS`` per operator the VM executes itself. Invariant: a tensor program gets typed registers and
constants only, of the dtype and rank of its signature, and sizes that were compared with it (now or at run time).
"""

from __future__ import annotations

from ...arith.formula import is_integral
from ...ffi.abi import BufferParam, Dim, KernelSignature, ScalarParam, SymbolSource, product
from ...ffi.conditions import range_fault
from ...ffi.dtype import DataType
from ...ir.expr import (
    Call,
    DataTypeImm,
    ExternFunc,
    FloatImm,
    GlobalVar,
    IntImm,
    Op,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ...ir.function import Function
from ...ir.relation import dims, tensor_dtype
from ...ir.types import Expr, PrimType, TensorType, TupleType, Type, prim_type
from ...op.common.table import R
from ...support.errors import VMError
from ..builtins.builtins import INSPECTED
from ..executable import bytecode as bc
from ..executable.verifier import sizes_to_compare
from .checks import check_and_move
from .function import FunctionCompiler, LowerCall


def compile_call(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    """Code of a call; where its result is."""
    callee = call.op
    if type(callee) is Op:
        lower = OPERATORS.get(callee.name)
        if lower is None:
            raise VMError("E623", f"{fc.name}: {callee.name} is not an operator of the VM", call.span,
                          help="the pipeline should have lowered it to a tensor program; is a legalize pass missing?")  # fmt: skip
        return lower(fc, call, var)
    if type(callee) is GlobalVar:
        member = fc.module.mod.functions.get(callee.name)
        if type(member) is Function:
            return vm_call(fc, callee.name, call, var)
        if type(member) is ExternFunc:
            return packed_call(fc, member.name, call.args, call, var)
        return kernel_on(fc, callee.name, [fc.value(a) for a in call.args], [a.ty for a in call.args], call)
    if type(callee) is ExternFunc:
        return packed_call(fc, callee.name, call.args, call, var)
    return invoke(fc, [callee, *call.args], call, var)


def vm_call(fc: FunctionCompiler, name: str, call: Call, var: Var | None) -> bc.Arg:
    """A call of a graph function; its result is checked against the type the caller counts on."""
    dst = fc.register()
    row = fc.module.row("vm", name)
    fc.code.append(bc.Call(dst.index, row, tuple([fc.value(a) for a in call.args]), fc.where))
    return check_and_move(fc, dst, call.ty, f"result of {name}", var, call.span)


def invoke(fc: FunctionCompiler, parts: list[Expr], call: Call, var: Var | None) -> bc.Arg:
    """A call of a closure or another function value."""
    reg = fc.result("invoke", *[fc.value(p) for p in parts])
    return check_and_move(fc, reg, _given(call), "result of a closure", var, call.span)


def packed_call(
    fc: FunctionCompiler, name: str, args: tuple[Expr, ...], call: Call, var: Var | None, first: tuple[bc.Arg, ...] = ()
) -> bc.Arg:
    """A call of a registered function; its result is checked against the declared type."""
    dst = fc.register()
    row = fc.module.row("packed", name)
    fc.code.append(bc.Call(dst.index, row, (*first, *[fc.value(a) for a in args]), fc.where))
    return check_and_move(fc, dst, _given(call), f"result of {name}", var, call.span)


def _given(call: Call) -> Type:
    if len(call.ty_args) == 1:
        return call.ty_args[0]
    return TupleType(call.ty_args) if call.ty_args else call.ty


# ---- tensor programs


def kernel_on(fc: FunctionCompiler, name: str, values: list[bc.Arg], types: list[Type], call: Call) -> bc.Arg:
    """A kernel instruction: one argument (of a type) per parameter, then one size per symbol."""
    signature = fc.module.program.kernels.get(name)
    if signature is None:
        raise VMError("E621", f"the module has no compiled function {name!r}", call.span)
    if len(values) != len(signature.params):
        message = f"{fc.name}: {name} takes {len(signature.params)} arguments, the call has {len(values)}"
        raise VMError("E624", message, call.span)
    shapes: list[tuple[Dim, ...]] = []
    for index, param in enumerate(signature.params):
        if isinstance(param, BufferParam):
            values[index] = typed(fc, values[index], param, name, call)
            known = tensor_type_of(fc, values[index])
            if known.dtype != param.dtype or len(known.dims) != len(param.shape):
                raise VMError("E624", f"{fc.name}: argument {index + 1} of {name} must be a {len(param.shape)}-d {param.dtype} "
                              f"tensor, got a {len(known.dims)}-d {known.dtype} one", call.span)  # fmt: skip
            if param.written:
                check_written(fc, values[index], param, name, call)
            shapes.append(known.dims)
        else:
            values[index] = number(fc, values[index], types[index], param, name, call)
            shapes.append(())
    symbols = tuple([_symbol(source, values, shapes) for source in signature.symbols])
    compare_shapes(fc, signature, shapes, symbols, call)
    dst = fc.register() if signature.result is not None else None
    arguments = (*values, *[bc.Size(s) for s in symbols])
    fc.code.append(bc.Call(-1 if dst is None else dst.index, fc.module.row("kernel", name), arguments, fc.where))
    if dst is not None and DataType(signature.result or "").is_narrow:
        return fc.result("float_of_bits", bc.Imm(signature.result), dst)
    return bc.Imm(None) if dst is None else dst


def number(fc: FunctionCompiler, arg: bc.Arg, ty: Type, param: ScalarParam, name: str, call: Call) -> bc.Arg:
    """A scalar argument as kernels take it: pointers as addresses, narrow floats as bits, values of unknown kind checked, and
    integers that the parameter's type may not hold."""
    if param.dtype == "handle":
        if isinstance(arg, bc.Const):
            message = f"{fc.name}: {name} may write through its parameter {param.name}, which is a constant here"
            raise VMError("E624", message, call.span)
        if isinstance(arg, bc.Reg) and arg.index in fc.parameter_contexts and isinstance(ty, TensorType):
            fc.writable.add(arg.index)
        return fc.result("address", arg)
    if not isinstance(ty, PrimType) or (
        isinstance(arg, bc.Size) and not _always_fits(arg.dim, ty.dtype, DataType(param.dtype))
    ):
        scalar = prim_type(param.dtype)
        ctx = fc.context(f"argument {param.name} of {name}", scalar, call.span)
        arg = fc.boxed(arg)
        fc.emit("check_scalar", arg, ctx, bc.Imm(param.dtype))
        if is_integral(scalar):
            slot = fc.unnamed_slot(param.name, f"argument {param.name} of {name}")
            fc.emit("bind_scalar", arg, bc.Bind(slot))
            return bc.Size(("sym", slot), param.dtype)
    return fc.result("float_bits", bc.Imm(param.dtype), arg) if DataType(param.dtype).is_narrow else arg


def _always_fits(dim: Dim, dtype: DataType, wanted: DataType) -> bool:
    """True if a formula of an integer type is always a value of another one."""
    if isinstance(dim, int):
        return range_fault(dim, wanted.name) is None
    return dtype is wanted or (dtype.bits < wanted.bits and (dtype.is_uint or wanted.is_int))


def _symbol(source: SymbolSource, values: list[bc.Arg], shapes: list[tuple[Dim, ...]]) -> Dim:
    shape = shapes[source.param]
    if source.field == "shape":
        return shape[source.axis]
    if source.field == "strides":
        return product(shape[source.axis + 1 :])
    value = values[source.param]
    assert isinstance(value, (bc.Size, bc.Imm)), "an integer scalar lives in a slot or is a literal"
    return bc.dim_of(value)


def tensor_type_of(fc: FunctionCompiler, arg: bc.Arg) -> bc.RegType:
    """Type of a typed register or a constant."""
    if isinstance(arg, bc.Const):
        data = fc.module.program.constants[arg.index]
        return bc.RegType("tensor", data.dtype, tuple(data.shape))
    assert isinstance(arg, bc.Reg)
    return fc.registers[arg.index]


def typed(fc: FunctionCompiler, arg: bc.Arg, param: BufferParam, name: str, call: Call) -> bc.Arg:
    """The argument in a typed register: a tensor of unknown shape is looked at first."""
    if isinstance(arg, bc.Const):
        return arg
    if not isinstance(arg, bc.Reg):
        raise VMError("E624", f"{fc.name}: parameter {param.name} of {name} takes a tensor", call.span)
    if fc.registers[arg.index].kind == "tensor":
        return arg
    ty = TensorType(None, DataType(param.dtype), len(param.shape))
    ctx = fc.context(f"argument {param.name} of {name}", ty, call.span)
    fc.emit("check_tensor", arg, ctx, bc.Imm(param.dtype), bc.Imm(len(param.shape)))
    slots = [
        fc.unnamed_slot(f"{param.name}.{axis}", f"dimension {axis} of {param.name}") for axis in range(len(param.shape))
    ]
    fc.emit("match_shape", arg, ctx, *[bc.Bind(s) for s in slots])
    moved = fc.register(bc.RegType("tensor", param.dtype, tuple([("sym", s) for s in slots])))
    fc.emit("move", arg, dst=moved)
    return moved


def check_written(fc: FunctionCompiler, arg: bc.Arg, param: BufferParam, name: str, call: Call) -> None:
    """Constants are never written; parameters only where the caller's memory allows it."""
    if isinstance(arg, bc.Const):
        raise VMError(
            "E624", f"{fc.name}: {name} writes its parameter {param.name}, which is a constant here", call.span
        )
    assert isinstance(arg, bc.Reg)
    if arg.index in fc.parameter_contexts:
        fc.writable.add(arg.index)


def compare_shapes(fc: FunctionCompiler, signature: KernelSignature, shapes: list[tuple[Dim, ...]], symbols: tuple[Dim, ...],
                   call: Call) -> None:  # fmt: skip
    """Every dimension and stride of the arguments against the kernel's declaration: now where both are numbers, or at run time."""
    for index, axis, actual, expected in sizes_to_compare(signature, shapes, symbols):
        rank, name = len(shapes[index]), signature.params[index].name
        which = f"dimension {axis}" if axis < rank else f"stride {axis - rank}"
        if isinstance(expected, int) and isinstance(actual, int):
            raise VMError("E624", f"{fc.name}: {which} of argument {name} of {signature.name} is {actual}, "
                          f"the tensor program expects {expected}", call.span)  # fmt: skip
        ctx = fc.context(f"{which} of argument {name} of {signature.name}", call.ty, call.span)
        fc.emit("check_equal", ctx, bc.Size(actual), bc.Size(expected))


# ---- operators


def argument(call: Call, index: int) -> Expr | None:
    """An operator's argument by position, else None."""
    return call.args[index] if index < len(call.args) else None


def _dtype_of(call: Call, index: int) -> object:
    """The data type given as attribute or as literal argument, else None."""
    if "dtype" in call.attrs:
        return call.attrs["dtype"]
    expr = argument(call, index)
    return expr.value if isinstance(expr, (DataTypeImm, IntImm, StringImm, FloatImm)) else None


def _dtype_name(value: object) -> str | None:
    """The name of a data type; None where none is given, which ``void`` says as well."""
    name = value.name if isinstance(value, DataType) else value
    return name if isinstance(name, str) and name != "void" else None


def _new_tensor(
    fc: FunctionCompiler, ty: Type, shape: Expr | None, dtype: object, builtin: str, *first: bc.Arg
) -> bc.Arg:
    """A tensor from the allocator: typed where all dimensions are formulas."""
    name = _dtype_name(dtype) or tensor_dtype(ty) or "float32"
    values = shape.values if isinstance(shape, ShapeExpr) else dims(ty)
    if values is None or not fc.known(values):
        assert shape is not None
        return fc.result(f"{builtin}_of", *first, bc.Imm(name), fc.value(shape))
    sizes = tuple([fc.dim(v) for v in values])
    dst = fc.register(bc.RegType("tensor", name, sizes))
    fc.emit(builtin, *first, bc.Imm(name), *[bc.Size(s) for s in sizes], dst=dst)
    return dst


def _builtin_alloc_tensor(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    return _new_tensor(fc, call.ty, call.args[0], _dtype_of(call, 1), "new_tensor")


def _alloc_storage(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    size = call.args[0]
    at = 2 if call.op_name == R.vm.alloc_storage.name else 3
    dtype = DataType(_dtype_name(_dtype_of(call, at)) or "uint8")
    values = size.values if isinstance(size, ShapeExpr) else (size,)
    total = product((dtype.itemsize, *[fc.dim(v) for v in values]))
    dst = fc.register(bc.STORAGE_REG)
    fc.emit("alloc_storage", bc.Size(total), dst=dst)
    return dst


def _alloc_tensor(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    storage = fc.value(call.args[0])
    offset = argument(call, 1)
    offset_dim = fc.dim(offset) if offset is not None else 0
    return _new_tensor(fc, call.ty, argument(call, 2), _dtype_of(call, 3), "tensor_in", storage, bc.Size(offset_dim))


def _kill(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    value = fc.value(call.args[0])
    if isinstance(value, bc.Reg):
        fc.emit("kill", value)
    return bc.Imm(None)


def _view(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    source = fc.value(call.args[0])
    shape, dtype = argument(call, 1), _dtype_of(call, 2)
    offset = argument(call, 3)
    given = call.attrs.get("relative_byte_offset")
    offset_dim: Dim = fc.dim(offset) if offset is not None else int(given) if isinstance(given, int) else 0
    if isinstance(source, bc.Const):
        source = fc.boxed(source)
    return _new_tensor(fc, call.ty, shape, dtype, "view", source, bc.Size(offset_dim))


def _same(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    return fc.value(call.args[0])


def _to_host(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    """A tensor that is to lie elsewhere: results that are wanted on the host are copied there (`module.py`)."""
    if isinstance(call.ty, TensorType) and call.ty.vdevice is not None:
        fc.module.works_on_host(call.ty.vdevice, call.span)
    return _same(fc, call, var)


def _external(callee: Expr) -> str | None:
    """The name of a registered function, where a callee is one."""
    if isinstance(callee, StringImm):
        return callee.value
    return callee.name if isinstance(callee, ExternFunc) else None


def _call_packed(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    callee, args = call.args[0], call.args[1:]
    if type(callee) is GlobalVar:
        return compile_call(fc, Call(callee, args, {}, call.ty_args, call.ty, call.span), var)
    name = _external(callee)
    if name is not None:
        return packed_call(fc, name, args, call, var)
    return invoke(fc, list(call.args), call, var)


def _call_with_ctx(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    callee, packed = call.args
    if type(packed) is not Tuple:
        count = len(packed.ty.fields) if isinstance(packed.ty, TupleType) else 0
        packed = Tuple(tuple([TupleGetItem(packed, n) for n in range(count)]), call.span)
    name = _external(callee)
    assert name is not None
    return packed_call(fc, name, packed.fields, call, var, (fc.result("vm_context"),))


def _call_py_func(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    rest = call.args[1:]
    fields = rest[0].fields if len(rest) == 1 and type(rest[0]) is Tuple else rest
    return _call_packed(fc, Call(call.op, (call.args[0], *fields), {}, call.ty_args, call.ty, call.span), var)


def _call_dps(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    """Outputs are allocated here where no pass has planned them."""
    callee, packed = call.args[0], call.args[1]
    inputs = [fc.value(f) for f in (packed.fields if type(packed) is Tuple else (packed,))]
    types = call.output_types
    extra = list(call.args[2].values) if len(call.args) > 2 and isinstance(call.args[2], ShapeExpr) else []
    outputs = [_new_tensor(fc, ty, None, None, "new_tensor") for ty in types]
    values = [*inputs, *outputs, *[fc.value(e) for e in extra]]
    if type(callee) is GlobalVar and callee.name in fc.module.program.kernels:
        known = [f.ty for f in (packed.fields if type(packed) is Tuple else (packed,))]
        kernel_on(fc, callee.name, values, [*known, *types, *[e.ty for e in extra]], call)
    else:
        assert isinstance(callee, (GlobalVar, ExternFunc))
        row = fc.module.row("vm" if isinstance(callee, GlobalVar) else "packed", callee.name)
        fc.code.append(bc.Call(-1, row, tuple(values), fc.where))
    return outputs[0] if len(outputs) == 1 else fc.result("tuple", *outputs)


def _make_closure(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    captured = call.args[1].fields if len(call.args) > 1 and type(call.args[1]) is Tuple else call.args[1:]
    return fc.result("closure", *[fc.value(e) for e in (call.args[0], *captured)])


def _invoke_closure(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    rest = call.args[1].fields if len(call.args) == 2 and type(call.args[1]) is Tuple else call.args[1:]
    return invoke(fc, [call.args[0], *rest], call, var)


def _shape_of(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
    shape = dims(call.args[0].ty)
    if shape is not None and fc.known(shape):
        return fc.result("shape", *[bc.Size(fc.dim(d)) for d in shape])
    return fc.result("shape_of", fc.value(call.args[0]))


def _builtin(name: str) -> LowerCall:
    def lower(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
        attrs = [bc.Imm(v) for v in call.attrs.values() if isinstance(v, (int, float, str))]
        reg = fc.result(name, *[fc.value(a) for a in call.args], *attrs)
        ty = call.ty
        if isinstance(ty, (TensorType, PrimType)):
            return check_and_move(fc, reg, ty, f"result of {name}", var, call.span)
        return reg

    return lower


def _inspect(field: str) -> LowerCall:
    def lower(fc: FunctionCompiler, call: Call, var: Var | None) -> bc.Arg:
        ctx = fc.context("tensor to inspect", TensorType(None, None, -1), call.span)
        source = fc.boxed(fc.value(call.args[0]))
        fc.emit("check_tensor", source, ctx, bc.Imm(None), bc.Imm(-1))
        reg = fc.result("inspect", bc.Imm(field), source, *[fc.value(a) for a in call.args[1:]])
        return check_and_move(fc, reg, call.ty, f"result of R.inspect.tensor_{field}", var, call.span)

    return lower


OPERATORS: dict[str, LowerCall] = {
    R.builtin.alloc_tensor.name: _builtin_alloc_tensor,
    R.vm.alloc_storage.name: _alloc_storage,
    R.vm.alloc_tensor.name: _alloc_tensor,
    R.vm.kill_object.name: _kill,
    R.memory.alloc_storage.name: _alloc_storage,
    R.memory.alloc_tensor.name: _alloc_tensor,
    R.memory.kill_storage.name: _kill,
    R.memory.kill_tensor.name: _kill,
    R.memory.view.name: _view,
    R.memory.ensure_zero_offset.name: _same,
    R.hint_on_device.name: _to_host,
    R.to_vdevice.name: _to_host,
    R.builtin.stop_lift_params.name: _same,
    R.call_packed.name: _call_packed,
    R.call_pure_packed.name: _call_packed,
    R.call_inplace_packed.name: _call_packed,
    R.call_py_func.name: _call_py_func,
    R.call_builtin_with_ctx.name: _call_with_ctx,
    R.call_dps.name: _call_dps,
    R.make_closure.name: _make_closure,
    R.invoke_closure.name: _invoke_closure,
    R.invoke_pure_closure.name: _invoke_closure,
    R.shape_of.name: _shape_of,
    **{operator.name: _builtin(operator.name.removeprefix("R.")) for operator in (
        R.tensor_to_shape, R.shape_to_tensor, R.print, R.assert_op, R.null_value, R.size, R.nonzero, R.unique,
        R.dynamic_strided_slice,
    )},
    **{f"R.inspect.tensor_{field}": _inspect(field) for field in INSPECTED},
}  # fmt: skip
"""Operators the VM executes itself, by name."""
