"""Calls across the border (tensor programs, registered functions, closures), operators on shapes, devices and tuples, and marks.

Result types of calls are given by the program in ``ty_args``; the rules here check their form. Memory and VM operators: memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import te
from ..ffi.dlpack import dlpack_type
from ..ffi.dtype import from_numpy
from ..ffi.targets.kinds import virtual_device
from ..ir.build import const
from ..ir.expr import Call, ExternFunc, GlobalVar, Op, StringImm
from ..ir.op import Param
from ..ir.relation import Answer, dims, is_subtype, tensor_type
from ..ir.types import (
    OBJECT,
    VOID_TYPE,
    Expr,
    FuncType,
    ObjectType,
    PrimType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    prim_type,
)  # fmt: skip
from .common.gradients import Rule, identity_grad, not_differentiable
from .common.table import Operator, R, attribute, optional, row
from .common.type_rules import argument, attr, fail, ints_attr, python_value, shape_arg, tensor_arg


def given_type(call: Call) -> Type:
    """The type a program gives for a call: one type, a tuple of several, R.Object when none is written."""
    if not call.ty_args:
        return OBJECT
    return call.ty_args[0] if len(call.ty_args) == 1 else TupleType(call.ty_args)


def _operands_tuple(call: Call, what: str = "argument") -> Type:
    """The type given for a call whose arguments stand in a tuple."""
    operands = argument(call, 1, "args")
    if not isinstance(operands.ty, (TupleType, ObjectType)):
        raise fail(call, "E210", f"args must be a tuple, got {operands.ty}", f"write (x,) for one {what}", operands)
    return given_type(call)


def dps_type(call: Call) -> Type:
    """Result type of a destination-passing call: the written outputs, which must be tensors."""
    callee = argument(call, 0, "func")
    if not isinstance(callee, (GlobalVar, ExternFunc, Op)) and not isinstance(callee.ty, (FuncType, ObjectType)):
        raise fail(call, "E210", f"func must be a tensor program or a registered function, got {callee.ty}", arg=callee)
    _operands_tuple(call)
    if len(call.args) > 2:
        shape_arg(call, 2, "tir_vars")
    if not call.ty_args:
        raise fail(
            call, "E216", "the result type is missing", 'write it after the arguments: R.Tensor((n, 4), "float32")'
        )
    for ty in call.output_types:
        if not isinstance(ty, TensorType) or ty.dtype is None or (dims(ty) is None and ty.shape is None):
            raise fail(call, "E216", f"an output must be a tensor of known shape and dtype, got {ty}")
    return given_type(call)


def inplace_type(call: Call) -> Type:
    """As ``dps_type``; ``inplace_indices`` says per output which argument's memory it takes (-1: new memory)."""
    result = dps_type(call)
    outputs = result.fields if isinstance(result, TupleType) else (result,)
    indices = ints_attr(call, "inplace_indices", len(outputs))
    operands = call.args[1].ty
    used = [i for i in indices if i != -1]
    if not used:
        raise fail(call, "E214", "inplace_indices names no argument", "use R.call_dps when no memory is reused")
    if len(set(used)) != len(used):
        raise fail(call, "E214", f"inplace_indices {indices} names an argument twice")
    for output, index in zip(outputs, indices):
        if index == -1 or not isinstance(operands, TupleType):
            continue
        if not 0 <= index < len(operands.fields):
            raise fail(call, "E214", f"inplace index {index} is out of range for {len(operands.fields)} arguments")
        given = operands.fields[index]
        if is_subtype(given, output) is Answer.NO:
            raise fail(call, "E213", f"argument {index} of type {given} cannot hold the output {output}")
    return result


def with_grad_type(call: Call) -> Type:
    """As ``dps_type``; ``te_grad_name`` is the name of a gradient."""
    if not isinstance(attr(call, "te_grad_name"), str):
        raise fail(call, "E214", f"te_grad_name must be a string, got {attr(call, 'te_grad_name')!r}")
    return dps_type(call)


def _packed(call: Call) -> Type:
    callee = argument(call, 0, "func")
    if not isinstance(callee, (ExternFunc, StringImm)) and not isinstance(callee.ty, (FuncType, ObjectType)):
        raise fail(call, "E210", f"func must be the name of a registered function, got {callee.ty}", arg=callee)
    return given_type(call)


def _with_context(call: Call) -> Type:
    callee, operands = argument(call, 0, "func"), argument(call, 1, "args")
    if not isinstance(callee, (ExternFunc, StringImm)):
        raise fail(call, "E210", f"func must be the name of a registered function, got {callee.ty}", arg=callee)
    if not isinstance(operands.ty, TupleType):
        raise fail(call, "E210", f"args must be a tuple, got {operands.ty}", "write (x,) for one argument", operands)
    return given_type(call)


def _inplace_packed(call: Call) -> Type:
    result = _packed(call)
    count = len(call.args) - 1
    for index in ints_attr(call, "inplace_indices"):
        if not -1 <= index < count:
            raise fail(call, "E214", f"inplace index {index} is out of range for {count} arguments")
    return result


_FUNC_ARGS = ("func", "args: tuple of arguments")
_FUNC_VALUES = ("func", Param("args", "exprs", doc="the arguments"))
_CLOSURE_ARGS = ("closure", "args: tuple of arguments")
_DPS = (*_FUNC_ARGS, optional("tir_vars", doc="shape value of scalar arguments passed after the outputs"))

call_dps = row(
    "call_dps",
    _DPS,
    dps_type,
    "Calls a tensor program or registered function that writes its results into memory it is given; ty_args are their types.",
)
call_inplace = row(
    "call_inplace",
    (*_DPS, attribute("inplace_indices")),
    inplace_type,
    "Calls as call_dps does, but output i takes the memory of argument inplace_indices[i], which must not be used afterwards.",
)
call_dps_with_grad = row(
    "call_dps_with_grad",
    (
        *_DPS,
        attribute("te_grad_name", doc="name of the gradient"),
        attribute("te_grad_kwargs", None, doc="keyword arguments of the gradient"),
    ),
    with_grad_type,
    "Calls a tensor program as call_dps does, and names its registered gradient.",
)
call_packed = row(
    "call_packed",
    _FUNC_VALUES,
    _packed,
    "Calls a registered function that may have effects.",
    pure=False,
)
call_pure_packed = row(
    "call_pure_packed",
    _FUNC_VALUES,
    _packed,
    "Calls a registered function that has no effects.",
)
call_inplace_packed = row(
    "call_inplace_packed",
    (*_FUNC_VALUES, attribute("inplace_indices")),
    _inplace_packed,
    "Calls a registered function that changes only the arguments at inplace_indices, which must not be used afterwards.",
)
call_py_func = row(
    "call_py_func",
    _FUNC_VALUES,
    _packed,
    "Calls a Python function of the module by name.",
    pure=False,
)
call_builtin_with_ctx = row(
    "call_builtin_with_ctx",
    _FUNC_ARGS,
    _with_context,
    "Calls a registered function that takes a handle of the VM as its first argument.",
    pure=False,
)


def _make_closure(call: Call) -> Type:
    _operands_tuple(call, "captured value")
    return OBJECT


make_closure = row("make_closure", _FUNC_ARGS, _make_closure, "Returns a function with the values it captures.")
invoke_closure = row(
    "invoke_closure",
    _CLOSURE_ARGS,
    _operands_tuple,
    "Calls a closure that may have effects.",
    pure=False,
)
invoke_pure_closure = row(
    "invoke_pure_closure",
    _CLOSURE_ARGS,
    _operands_tuple,
    "Calls a closure that has no effects.",
)
null_value = row("null_value", (), lambda call: OBJECT, "Returns the value that stands for nothing.")


def _print(call: Call) -> Type:
    if not isinstance(attr(call, "format"), str):
        raise fail(call, "E214", f"format must be text, got {call.attrs['format']!r}")
    return VOID_TYPE


def _assert(call: Call) -> Type:
    cond = argument(call, 0, "condition").ty
    ok = isinstance(cond, ObjectType)
    if isinstance(cond, PrimType):
        ok = cond.dtype.is_bool
    elif isinstance(cond, TensorType):
        ok = cond.ndim in (0, -1) and (cond.dtype is None or cond.dtype.is_bool)
    if not ok:
        raise fail(call, "E211", f"the condition must be a bool scalar, got {cond}", arg=0)
    return _print(call)


print_value = row(
    "print",
    (Param("values", "exprs", doc="the values"), attribute("format", "")),
    _print,
    "Prints values.",
    pure=False,
)
assert_op = row(
    "assert_op",
    (
        Param("condition", doc="a bool scalar"),
        Param("values", "exprs", doc="values for the message"),
        attribute("format", ""),
    ),
    _assert,
    "Stops with an error unless the condition is true.",
    pure=False,
)


def _shape_of(call: Call) -> Type:
    ty = tensor_arg(call, 0)
    known = dims(ty)
    return ShapeType(known, len(known)) if known is not None else ShapeType(None, ty.ndim)


def _shape_to_tensor(call: Call) -> Type:
    ndim = shape_arg(call, 0).ndim
    return tensor_type((const(ndim, "int64"),), "int64") if ndim >= 0 else tensor_type(None, "int64", 1)


def _tensor_to_shape(call: Call) -> Type:
    ty = tensor_arg(call, 0, rank=1)
    if ty.dtype is not None and ty.dtype.name != "int64":
        raise fail(
            call, "E211", f"expected an int64 tensor, got {ty.dtype.name}", 'cast first: R.astype(x, "int64")', 0
        )
    known = dims(ty)
    length = python_value(known[0]) if known is not None else None
    return ShapeType(None, length if isinstance(length, int) else -1)


def _size(call: Call) -> Type:
    tensor_arg(call, 0)
    return tensor_type((), "int64")


shape_of = row(
    "shape_of",
    ("expr: a tensor",),
    _shape_of,
    "Returns the shape of a tensor as a shape value.",
    ref=lambda x: tuple(x.shape),
    samples="f32[3,4]",
)
shape_to_tensor = row(
    "shape_to_tensor",
    ("expr: a shape value",),
    _shape_to_tensor,
    "Converts a shape value to an int64 tensor of rank 1.",
    ref=lambda shape: np.array(shape, np.int64),
    samples="(3,4)",
)
tensor_to_shape = row(
    "tensor_to_shape",
    ("expr: a tensor",),
    _tensor_to_shape,
    "Converts an int64 tensor of rank 1 to a shape value.",
    ref=lambda x: tuple([int(v) for v in x]),
    samples="i64([3,4])",
)
size = row(
    "size",
    ("expr: a tensor",),
    _size,
    "Returns the number of elements as an int64 scalar tensor.",
    ref=lambda x: np.array(x.size, np.int64),
    samples="f32[3,4]",
)


def _on_vdevice(name: str) -> Callable[[Call], Type]:
    """The type rule of a tensor on the device that an attribute names."""

    def rule(call: Call) -> Type:
        ty, given = tensor_arg(call, 0), python_value(call.attrs.get(name))
        device = virtual_device(given)
        if device is None:
            raise fail(call, "E214", f"{name} must be a device, got {given!r}", 'write "llvm:0" or I.vdevice("llvm")')
        return TensorType(ty.shape, ty.dtype, ty.ndim, device)

    return rule


def _device_grad(call: Call, g: Expr) -> list[Any]:
    device = getattr(call.args[0].ty, "vdevice", None)
    if device is None and call.op_name == "R.hint_on_device":
        return [g]
    if device is None:
        raise fail(call, "E218", "the gradient needs the device of the argument", "name it in its type")
    return [R.to_vdevice(g, dst_vdevice=device)]


to_vdevice = row(
    "to_vdevice",
    ("data", attribute("dst_vdevice", doc="the device")),
    _on_vdevice("dst_vdevice"),
    "Copies a tensor to a virtual device.",
    grad=_device_grad,
)
hint_on_device = row(
    "hint_on_device",
    ("data", attribute("device", doc="the device"), attribute("memory_scope", "global", doc="kind of memory")),
    _on_vdevice("device"),
    "Places a tensor on a device, with a copy if it is elsewhere.",
    grad=_device_grad,
)
stop_lift_params = row(
    "builtin.stop_lift_params",
    ("x",),
    lambda c: argument(c, 0, "x").ty,
    "Returns x and stops lift_transform_params from moving what is computed from it.",
    grad=identity_grad,
)


def _inspect(name: str, dtype: str, doc: str, ref: Callable[..., int], axis: bool = False) -> Operator:
    """An operator that says something about a tensor at run time, or about one of its axes."""

    def rule(call: Call) -> Type:
        tensor_arg(call, 0)
        if axis:
            index = argument(call, 1, "axis").ty
            if not isinstance(index, PrimType) or not (index.dtype.is_integral):
                raise fail(call, "E210", f"axis must be an integer scalar, got {index}", arg=1)
        return prim_type(dtype)

    params = ("tensor", "axis: number of the dimension, from 0") if axis else ("tensor",)
    return row(f"inspect.{name}", params, rule, doc, ref=ref, samples="f32[3,4], 1" if axis else "f32[3,4]")


_inspect("tensor_ndim", "int32", "Returns the rank of a tensor at run time.", lambda t: t.ndim)
_inspect(
    "tensor_dtype_code",
    "uint8",
    "Returns the DLPack code of the data type.",
    lambda t: dlpack_type(from_numpy(t.dtype))[0],
)
_inspect("tensor_dtype_bits", "uint8", "Returns the number of bits of an element.", lambda t: t.dtype.itemsize * 8)
_inspect("tensor_dtype_lanes", "uint16", "Returns the number of lanes of an element.", lambda t: 1)
_inspect(
    "tensor_shape_i",
    "int64",
    "Returns one dimension of a tensor at run time.",
    lambda t, axis: t.shape[axis],
    axis=True,
)
_inspect(
    "tensor_stride_i",
    "int64",
    "Returns one stride of a tensor at run time, in elements.",
    lambda t, axis: t.strides[axis] // t.itemsize,
    axis=True,
)
_inspect("tensor_byte_offset", "uint64", "Returns the offset of the first element in bytes.", lambda t: 0)
_inspect("tensor_elem_offset", "uint64", "Returns the offset of the first element in elements.", lambda t: 0)


def _mark(name: str, doc: str, grad: Rule = identity_grad) -> Operator:
    """A mark for the gradient pass: the identity."""
    return row(
        f"grad.{name}",
        ("input",),
        lambda call: tensor_arg(call, 0, "input"),
        doc,
        family="grad",
        lower=lambda call, x: te.compute(x.shape, lambda *i: x[i], name),
        ref=lambda x: x.copy(),
        grad=grad,
        samples="f32[2,3]",
    )


no_grad = _mark("no_grad", "Returns input and lets no gradient flow through it.", not_differentiable)
start_checkpoint = _mark(
    "start_checkpoint", "Returns input and begins a segment that the backward pass computes again."
)
end_checkpoint = _mark("end_checkpoint", "Returns input and ends a segment that the backward pass computes again.")
