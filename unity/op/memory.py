"""Memory made explicit: storage, tensors in storage, views, kills (``R.memory``, ``R.builtin``, ``R.vm``).

An allocation is pure in the sense that dropping an unused one is allowed. ``R.builtin.alloc_tensor`` is memory without a plan;
the plan replaces it by ``R.memory`` operators.
"""

from __future__ import annotations

from typing import Any

from ..ir.builder import make_call
from ..ir.expr import Call, DataTypeImm, ExternFunc, GlobalVar
from ..ir.op import Param
from ..ir.relation import dims, tensor_type
from ..ir.types import OBJECT, VOID_TYPE, Expr, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from .common.table import R, optional, row
from .common.type_rules import argument, dtype_value, fail, shape_arg, tensor_arg


def _dtype(call: Call, index: int) -> str:
    found = dtype_value(call, argument(call, index, "dtype"))
    if found is None:
        raise fail(call, "E214", "dtype is missing", 'write R.dtype("float32")')
    return found.name


def _integer(call: Call, index: int, name: str) -> None:
    ty = argument(call, index, name).ty
    if not isinstance(ty, PrimType) or not ty.dtype.is_integral:
        raise fail(call, "E210", f"{name} must be an integer scalar, got {ty}", arg=index)


def _tensor_of(call: Call, shape_index: int, dtype_index: int) -> TensorType:
    shape = shape_arg(call, shape_index)
    dtype = _dtype(call, dtype_index)
    if shape.values is not None:
        return tensor_type(shape.values, dtype)
    return tensor_type(call.args[shape_index], dtype)


def _storage(call: Call) -> Type:
    in_vm = call.op_name == R.vm.alloc_storage.name
    shape_arg(call, 0, "size")
    _integer(call, 1, "runtime_device_index" if in_vm else "virtual_device_index")
    _dtype(call, 2 if in_vm else 3)
    return OBJECT


def _tensor_in_storage(call: Call) -> Type:
    if not isinstance(argument(call, 0, "storage").ty, ObjectType):
        raise fail(call, "E210", f"storage must come from alloc_storage, got {call.args[0].ty}", arg=0)
    _integer(call, 1, "offset")
    return _tensor_of(call, 2, 3)


def _kill_tensor(call: Call) -> Type:
    tensor_arg(call, 0, "tensor")
    return VOID_TYPE


def _kill(call: Call) -> Type:
    argument(call, 0, "storage")
    return VOID_TYPE


def _call_tir_dyn(call: Call) -> Type:
    callee, given = argument(call, 0, "func"), argument(call, 1, "args")
    if not isinstance(callee, (GlobalVar, ExternFunc)):
        raise fail(call, "E210", f"func must be a tensor program, got {callee.ty}", arg=callee)
    if not isinstance(given.ty, (TupleType, ShapeType)):
        raise fail(call, "E210", f"args must be a tuple, got {given.ty}", "write (x, y, R.shape([n]))", given)
    for field in given.ty.fields if isinstance(given.ty, TupleType) else ():
        if not isinstance(field, (TensorType, ShapeType, PrimType, ObjectType)):
            raise fail(call, "E210", f"an argument of a tensor program cannot be {field}", arg=given)
    return VOID_TYPE


def _view(call: Call) -> Type:
    source = tensor_arg(call, 0, "data")
    dtype = source.dtype
    if len(call.args) > 2:
        dtype = dtype_value(call, call.args[2]) or dtype
    if len(call.args) > 1 and isinstance(call.args[1].ty, ShapeType):
        known = dims(call.args[1].ty)
        return tensor_type(known if known is not None else call.args[1], dtype, vdevice=source.vdevice)
    return TensorType(source.shape, dtype, source.ndim, source.vdevice)


def _implied(name: str, data: Any) -> Any:
    """The value of an argument left out before a given one: the shape, or the data type, of the tensor."""
    ty = data.ty if isinstance(data, Expr) else None
    if not isinstance(ty, TensorType):
        return None
    return (ty.shape or make_call(R.shape_of.op, [data])) if name == "shape" else ty.dtype and DataTypeImm(ty.dtype)


builtin_alloc_tensor = row(
    "builtin.alloc_tensor",
    (Param("shape"), Param("dtype"), optional("runtime_device_index", 0), optional("storage_scope", "global")),
    lambda call: _tensor_of(call, 0, 1),
    "Allocates a tensor before memory is planned.",
)
alloc_storage = row(
    "memory.alloc_storage",
    (
        "size: the number of bytes",
        "virtual_device_index: number of the device",
        "storage_scope",
        "dtype: uint8",
    ),
    _storage,
    "Allocates memory in which tensors are placed.",
)
alloc_tensor = row(
    "memory.alloc_tensor",
    ("storage", "offset", "shape", "dtype", optional("runtime_device_index", 0)),
    _tensor_in_storage,
    "Places a tensor in a storage.",
)
kill_tensor = row("memory.kill_tensor", ("tensor",), _kill_tensor, "Marks the last use of a tensor.", pure=False)
kill_storage = row("memory.kill_storage", ("storage",), _kill, "Marks the last use of a storage.", pure=False)
view = row(
    "memory.view",
    (
        "data",
        optional("shape", doc="the new shape; None: that of data"),
        optional("dtype", doc="the new data type; None: that of data"),
        optional("relative_byte_offset", doc="start in data, in bytes; None: 0"),
    ),
    _view,
    "Returns the memory of data with another shape, data type or start, without a copy.",
    aliases=True,
    implied=_implied,
)
ensure_zero_offset = row(
    "memory.ensure_zero_offset",
    ("data",),
    lambda call: argument(call, 0, "x").ty,
    "Returns the tensor, copied if its data does not start at the beginning of its memory.",
    aliases=True,
)
vm_alloc_storage = row(
    "vm.alloc_storage",
    ("shape: the number of bytes", "runtime_device_index", "dtype", optional("storage_scope", "global")),
    _storage,
    "Allocates memory from the VM's allocator.",
)
vm_alloc_tensor = row(
    "vm.alloc_tensor",
    ("storage", "offset", "shape", "dtype", optional("runtime_device_index", 0)),
    _tensor_in_storage,
    "Places a tensor in a storage of the VM.",
)
vm_call_tir_dyn = row(
    "vm.call_tir_dyn",
    (
        Param("func"),
        Param("args", doc="tuple of tensors, outputs among them, then scalars; a shape stands for its dimensions"),
    ),
    _call_tir_dyn,
    "Calls a tensor program with its outputs among the arguments.",
    pure=False,
)
vm_kill_object = row(
    "vm.kill_object", ("obj: the object",), _kill, "Drops the VM's reference to an object.", pure=False
)
