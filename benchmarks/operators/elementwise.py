"""Elementwise: functions of one tensor, of two, comparisons, casts, and the same in other types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .case import Case, Inputs, floats, integers, of_floats

LARGE, SMALL = (1024, 1024), (32, 32)
ONE: dict[str, Callable[..., Any]] = {
    "abs": torch.abs,
    "neg": torch.neg,
    "sign": torch.sign,
    "square": torch.square,
    "reciprocal": torch.reciprocal,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "clamp": lambda x: x.clamp(-1, 1),
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": lambda x: torch.log(x.abs()),
    "log2": lambda x: torch.log2(x.abs()),
    "log10": lambda x: torch.log10(x.abs()),
    "log1p": lambda x: torch.log1p(x.abs()),
    "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs()),
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": lambda x: torch.asin(x / 8),
    "acos": lambda x: torch.acos(x / 8),
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "acosh": lambda x: torch.acosh(x.abs() + 1),
    "atanh": lambda x: torch.atanh(x / 8),
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "logsigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softsign": F.softsign,
    "tanhshrink": F.tanhshrink,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
    "nan_to_num": torch.nan_to_num,
    "pow 2": lambda x: x**2,
    "pow 3": lambda x: x**3,
    "pow 1.7": lambda x: torch.pow(x.abs(), 1.7),
}
TWO: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "pow": lambda a, b: torch.pow(a.abs(), b),
    "floor_divide": torch.floor_divide,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": torch.lt,
    "greater_equal": torch.ge,
    "xlogy": lambda a, b: torch.xlogy(a, b.abs()),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "masked_fill": lambda a, b: a.masked_fill(b > 0, -1.0),
    "lerp": lambda a, b: torch.lerp(a, b, 0.3),
    "addcmul": lambda a, b: torch.addcmul(a, a, b),
    "logaddexp": torch.logaddexp,
}
INTEGER: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "multiply": torch.mul,
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "divide by 7": lambda a, b: a // 7,
    "remainder of 7": lambda a, b: a % 7,
    "bitwise_or": torch.bitwise_or,
    "shift_left": lambda a, b: a << (b & 3),
    "maximum": torch.maximum,
    "less": torch.lt,
    "abs": lambda a, b: abs(a),
    "sum": lambda a, b: a.sum(1),
    "cumsum": lambda a, b: a.cumsum(1),
    "argmax": lambda a, b: a.argmax(1),
    "max over axis 0": lambda a, b: a.amax(0),
}
FLOAT: dict[str, Callable[..., Any]] = {
    "add": lambda a: a + a,
    "gelu": F.gelu,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sum": lambda a: a.sum(1),
    "sum over axis 0": lambda a: a.sum(0),
    "softmax": lambda a: a.softmax(-1),
    "layer_norm": lambda a: F.layer_norm(a, (a.shape[1],)),
    "cumsum": lambda a: a.cumsum(1),
    "max": lambda a: a.max(1),
}
KINDS = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
    "int64": torch.int64,
    "int32": torch.int32,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}


def _cast(source: str, target: str) -> Case:
    def made(shape: tuple[int, int]) -> Callable[[], Inputs]:
        return lambda: ((floats(*shape) * 20).abs().to(KINDS[source]),)

    return Case(f"cast {source} to {target}", "casts", lambda x: x.to(KINDS[target]), made(LARGE), made(SMALL))


def _integer(name: str, fn: Callable[..., Any], kind: str) -> Case:
    def made(shape: tuple[int, int]) -> Callable[[], Inputs]:
        return lambda: (integers(100, *shape, dtype=KINDS[kind]), integers(100, *shape, dtype=KINDS[kind]) + 1)

    return Case(f"{kind} {name}", "integers", fn, made(LARGE), made(SMALL))


def _bools(name: str, fn: Callable[..., Any], count: int) -> Case:
    def made(shape: tuple[int, int]) -> Callable[[], Inputs]:
        return lambda: tuple([floats(*shape) > 0 for _ in range(count)])

    return Case(name, "elementwise", fn, made(LARGE), made(SMALL))


CASES = [
    *[of_floats("elementwise", name, fn, [LARGE], [SMALL]) for name, fn in ONE.items()],
    *[of_floats("elementwise", name, fn, [LARGE] * 2, [SMALL] * 2) for name, fn in TWO.items()],
    of_floats("elementwise", "add a row", torch.add, [LARGE, (1024,)], [SMALL, (32,)]),
    of_floats("elementwise", "add a column", torch.add, [LARGE, (1024, 1)], [SMALL, (32, 1)]),
    _bools("logical_and", torch.logical_and, 2),
    _bools("logical_xor", torch.logical_xor, 2),
    _bools("logical_not", torch.logical_not, 1),
    *[_cast("float32", kind) for kind in KINDS if kind != "float32"],
    *[_cast(kind, "float32") for kind in KINDS if kind != "float32"],
    *[_cast("int64", kind) for kind in ("int32", "int8", "bool", "float64")],
    *[_cast(kind, "int64") for kind in ("int32", "uint8", "bool")],
    *[_integer(name, fn, kind) for kind in ("int64", "int32", "int8", "uint8") for name, fn in INTEGER.items()],
    *[
        of_floats("other floats", f"{kind} {name}", fn, [LARGE], [SMALL], KINDS[kind])
        for kind in ("float16", "bfloat16", "float64")
        for name, fn in FLOAT.items()
    ],
]
