"""The demands of a checked entry on its arguments, as plain data.

Dimensions are formulas (``abi.Dim``: an int, ``("sym", k)``, or a nested operator tuple) or None (anything). A symbol
is defined where it first stands alone, in argument order (shape, then strides, of a tensor; a scalar; an entry of a
shape); everywhere else it must match. Invariant: a spec that passed ``validate`` defines every symbol it uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...support.errors import FFIError
from ..abi import BufferParam, Dim, KernelSignature
from ..device import CPU, Device
from ..dtype import DataType


@dataclass(slots=True, frozen=True)
class TensorArg:
    """A tensor. ``dtype`` None: any type; ``shape`` None: any rank. ``strides`` None: C-contiguous; else in elements.

    ``written``: the memory must be writeable. ``align``: bytes the address must be a multiple of (0: the element's).
    ``where`` says where the argument is declared, e.g. ``model.py:12:9``; ``device``, where the tensor must lie;
    ``copied``: tensors of the host are copied there.
    """

    name: str
    dtype: str | None
    shape: tuple[Dim | None, ...] | None
    strides: tuple[Dim | None, ...] | None = None
    written: bool = False
    align: int = 0
    where: str = ""
    device: Device = CPU
    copied: bool = False


@dataclass(slots=True, frozen=True)
class ScalarArg:
    """A number passed by value. With ``symbol`` k it also defines or must equal symbol k (integers only). ``bits``: the checker
    hands on the bits of a narrow float. For a ``handle`` it hands on the address of a tensor, 0 for None."""

    name: str
    dtype: str
    symbol: int | None = None
    where: str = ""
    bits: bool = False


@dataclass(slots=True, frozen=True)
class ShapeArg:
    """A tuple of integers. ``dims`` None: any length."""

    name: str
    dims: tuple[Dim | None, ...] | None
    where: str = ""


@dataclass(slots=True, frozen=True)
class ObjectArg:
    """Any Python object, passed as its address."""

    name: str
    where: str = ""


@dataclass(slots=True, frozen=True)
class TupleArg:
    """A tuple (or list) of arguments; its fields follow each other as if they were arguments."""

    name: str
    fields: tuple[Arg, ...]
    where: str = ""


Arg = TensorArg | ScalarArg | ShapeArg | ObjectArg | TupleArg
Leaf = TensorArg | ScalarArg | ShapeArg | ObjectArg


@dataclass(slots=True, frozen=True)
class EntrySpec:
    """A checked entry: its name in messages, its arguments, and the names of its symbols by number."""

    name: str
    args: tuple[Arg, ...]
    symbols: tuple[str, ...] = ()

    def leaves(self) -> list[Leaf]:
        """Arguments with tuples flattened: the order of the raw entry."""
        result: list[Leaf] = []
        stack: list[Arg] = list(reversed(self.args))
        while stack:
            arg = stack.pop()
            if isinstance(arg, TupleArg):
                stack.extend(reversed(arg.fields))
            else:
                result.append(arg)
        return result

    def devices(self) -> list[Device]:
        """The devices, other than the CPU, where tensors of the entry must lie."""
        found = [leaf.device for leaf in self.leaves() if isinstance(leaf, TensorArg) and leaf.device is not CPU]
        return list(dict.fromkeys(found))

    def shown_scalars(self) -> list[ScalarArg]:
        """The scalars that errors show: all but addresses."""
        return [leaf for leaf in self.leaves() if isinstance(leaf, ScalarArg) and leaf.dtype != "handle"]


def dims_of(leaf: Leaf) -> list[Dim | None]:
    """Every formula of a leaf in the order in which symbols are defined."""
    if isinstance(leaf, TensorArg):
        return [*(leaf.shape or ()), *(leaf.strides or ())]
    if isinstance(leaf, ScalarArg):
        return [] if leaf.symbol is None else [("sym", leaf.symbol)]
    if isinstance(leaf, ShapeArg):
        return list(leaf.dims or ())
    return []


def is_symbol(dim: Dim | None) -> bool:
    """True for a symbol that stands alone."""
    return isinstance(dim, tuple) and dim[0] == "sym"


def symbols_in(dim: Dim | None) -> list[int]:
    """Numbers of the symbols a formula uses."""
    if dim is None or isinstance(dim, int):
        return []
    if dim[0] == "sym":
        return [dim[1]]
    return [number for operand in dim[1:] for number in symbols_in(operand)]


def validate(spec: EntrySpec) -> None:
    """Raises FFIError E711 where the spec uses undefined symbols, impossible types or ranks that disagree."""
    leaves = spec.leaves()
    defined: set[int] = {
        dim[1] for leaf in leaves for dim in dims_of(leaf) if isinstance(dim, tuple) and dim[0] == "sym"
    }
    for leaf in leaves:
        for dim in dims_of(leaf):
            for number in symbols_in(dim):
                if not 0 <= number < len(spec.symbols) or number not in defined:
                    raise FFIError("E711", f"{spec.name}: {leaf.name} uses symbol {number}, which no argument defines")
        if isinstance(leaf, TensorArg):
            if leaf.dtype is not None:
                _ = DataType(leaf.dtype).numpy
            if leaf.strides is not None and leaf.dtype is None:
                raise FFIError("E711", f"{spec.name}: {leaf.name} has strides, in elements of no known type")
            if leaf.strides is not None and (leaf.shape is None or len(leaf.strides) != len(leaf.shape)):
                raise FFIError("E711", f"{spec.name}: {leaf.name} has strides for another rank than its shape")
            if leaf.align & (leaf.align - 1):
                raise FFIError("E711", f"{spec.name}: alignment {leaf.align} of {leaf.name} is not a power of two")
        elif isinstance(leaf, ScalarArg):
            dtype = DataType(leaf.dtype)
            plain = dtype.lanes == 1 and dtype.bits in (8, 16, 32, 64)
            if not plain or (leaf.symbol is not None and not dtype.is_integral):
                raise FFIError("E711", f"{spec.name}: {leaf.name} cannot be passed as {leaf.dtype}")
    undefined = [name for number, name in enumerate(spec.symbols) if number not in defined]
    if undefined:
        raise FFIError("E711", f"{spec.name}: no argument defines the symbols {', '.join(undefined)}")


def spec_of_kernel(signature: KernelSignature, device: Device = CPU) -> EntrySpec:
    """The checked entry of a compiled tensor program, whose tensors lie on a device."""
    args: list[Arg] = []
    scalars = {one.param: number for number, one in enumerate(signature.symbols) if one.field == "value"}
    for place, param in enumerate(signature.params):
        if isinstance(param, BufferParam):
            args.append(
                TensorArg(param.name, param.dtype, param.shape, param.strides or None, param.written, device=device)
            )
        else:
            narrow = DataType(param.dtype).is_narrow
            args.append(ScalarArg(param.name, param.dtype, scalars.get(place), bits=narrow))
    return EntrySpec(signature.name, tuple(args), tuple([symbol.name for symbol in signature.symbols]))
