"""Data types: text such as ``"float32x4"`` to and from numpy, interned so that ``is`` compares them."""

from __future__ import annotations

import re
from typing import ClassVar

import ml_dtypes
import numpy as np

from ..support.errors import FFIError, suggest

_NUMPY: dict[str, np.dtype] = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
}  # fmt: skip
_NUMPY["bfloat16"] = np.dtype(ml_dtypes.bfloat16)
_FP8 = tuple(n for n in (
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu",
) if hasattr(ml_dtypes, n))  # fmt: skip
for _name in _FP8:
    _NUMPY[_name] = np.dtype(getattr(ml_dtypes, _name))
_BY_NUMPY = {dtype: name for name, dtype in _NUMPY.items()}

_ALIASES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "boolean": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "int": "int32", "float": "float32",
    "uint": "uint32",
}  # fmt: skip
_PATTERN = re.compile(r"(float8_\w+?|bool|bfloat|float|uint|int|handle|void)(\d*)(?:x(vscalex)?(\d+))?$")


def _unknown(name: object) -> FFIError:
    near = suggest(name, [*_NUMPY, *_ALIASES]) if isinstance(name, str) else None
    return FFIError(
        "E701", f"unknown data type {name!r}", help=near or "write for example int64, float32, bool, bfloat16"
    )


class DataType:
    """An element type with a number of lanes, e.g. ``DataType("int64")``, ``DataType("float32x8")``.

    Interned: equal types are the same object; a string equals the type of that name (``ty.dtype == "float32"``). ``code`` is
    ``int``, ``uint``, ``float``, ``bfloat``, ``bool``, ``handle``, ``void`` or a ``float8_*`` name; ``bits`` is the width of one
    lane; ``scalable`` marks ``vscale`` vectors. Made of its name, or of numpy's type. Raises FFIError E701, E702.
    """

    __slots__ = (
        "bits", "code", "element", "is_bool", "is_float", "is_int", "is_integral", "is_narrow", "is_uint", "itemsize", "lanes",
        "name", "scalable",
    )  # fmt: skip
    converts: ClassVar[bool] = True
    """Arguments of this type may be what it is made of."""
    name: str
    code: str
    bits: int
    lanes: int
    scalable: bool
    element: DataType
    """The type of one lane."""
    itemsize: int
    """Bytes of one value, all lanes (sub-byte lanes are rounded up to whole bytes)."""
    is_float: bool
    """True for every floating-point type, bfloat16 and float8 included."""
    is_narrow: bool
    """True for floats below 32 bits: no processor computes with them, and scalars of them are handed on as their bits."""
    is_int: bool
    """True for signed integers."""
    is_uint: bool
    """True for unsigned integers."""
    is_integral: bool
    """True for signed and unsigned integers (not bool)."""
    is_bool: bool
    """True for bool."""
    _table: ClassVar[dict[str, DataType]] = {}

    def __new__(cls, name: str | DataType | np.dtype | type[np.generic]) -> DataType:
        if isinstance(name, DataType):
            return name
        if not isinstance(name, str):
            if isinstance(name, np.dtype) or (isinstance(name, type) and issubclass(name, np.generic)):
                return from_numpy(np.dtype(name))
            raise _unknown(name)
        known = cls._table.get(name)
        if known is not None:
            return known
        return cls._make(name)

    @classmethod
    def _make(cls, name: str) -> DataType:
        spelled = _ALIASES.get(name, name)
        match = _PATTERN.match(spelled)
        if match is None:
            raise _unknown(name)
        code, digits, scalable, lanes_text = match.groups()
        lanes = int(lanes_text) if lanes_text else 1
        if code in ("bool", "handle", "void"):
            bits = {"bool": 8, "handle": 64, "void": 0}[code]
            wrong = digits not in ("", "64") if code == "handle" else digits != ""
        elif code.startswith("float8_"):
            code, bits, wrong = code + digits, 8, False
            wrong = code not in _NUMPY
        else:
            bits = int(digits) if digits else 0
            allowed = {
                "int": (1, 2, 4, 8, 16, 32, 64), "uint": (1, 2, 4, 8, 16, 32, 64),
                "float": (16, 32, 64), "bfloat": (16,),
            }[code]  # fmt: skip
            wrong = bits not in allowed
        if wrong or lanes < 1 or lanes > 65536:
            raise _unknown(name)
        base = code if code in ("bool", "handle", "void") or code.startswith("float8") else f"{code}{bits}"
        canonical = base + (f"xvscalex{lanes}" if scalable else f"x{lanes}" if lanes > 1 else "")
        found = cls._table.get(canonical)
        if found is None:
            found = object.__new__(cls)
            found.name, found.code, found.bits = canonical, code, bits
            found.lanes, found.scalable = lanes, bool(scalable)
            found.element = found if canonical == base else DataType(base)
            found.itemsize = max(1, bits // 8) * lanes
            found.is_int, found.is_uint, found.is_bool = code == "int", code == "uint", code == "bool"
            found.is_integral, found.is_float = code in ("int", "uint"), code.startswith(("float", "bfloat"))
            found.is_narrow = found.is_float and bits < 32
            cls._table[canonical] = found
        cls._table[name] = found
        return found

    def __repr__(self) -> str:
        return f'DataType("{self.name}")'

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is str and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return DataType, (self.name,)

    def with_lanes(self, lanes: int, scalable: bool = False) -> DataType:
        """Return the element type with ``lanes`` lanes; ``scalable``: times vscale."""
        if lanes == self.lanes and self.scalable is scalable:
            return self
        base = self.element.name
        count = str(lanes)  # whatever is not a number is refused as part of the name
        return DataType(f"{base}xvscalex{count}" if scalable else f"{base}x{count}" if count != "1" else base)

    @property
    def numpy(self) -> np.dtype:
        """numpy's dtype of one lane. Raises FFIError E702 where numpy has none."""
        found = _NUMPY.get(self.element.name)
        if found is None:
            raise FFIError("E702", f"numpy has no data type for {self.name!r}")
        return found


def from_numpy(dtype: np.dtype) -> DataType:
    """DataType of a numpy dtype. Raises FFIError E702 for types without counterpart (object, complex, strings, big-endian)."""
    name = _BY_NUMPY.get(dtype)
    if name is None:
        raise FFIError("E702", f"no data type corresponds to numpy's {dtype!r}", help="convert with .astype first")
    return DataType(name)


def sortable(array: np.ndarray) -> np.ndarray:
    """An array, narrow floats as float32: numpy orders bfloat16 and float8 without regard for NaN."""
    return array.astype(np.float32) if from_numpy(array.dtype).is_narrow else array


def dtype_names() -> tuple[str, ...]:
    """Names of all scalar types that have a numpy counterpart."""
    return tuple(_NUMPY)


BOOL = DataType("bool")
INT64 = DataType("int64")
