"""The table of math functions, and their definitions as LLVM IR text for any lane count.

float16 and bfloat16 are the caller's business (through float32). No function here calls libm: everything is own code or an
instruction, but that LLVM calls the C library for a fused multiply-add where the processor has none (right, and slow).
Invariant: a definition is ``define internal ... alwaysinline``, reads no memory but constant tables and has no side effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ....ffi.targets.processor import llvm_version
from ....support.errors import CodegenError
from . import (
    arc as math_arc,
    basic as math_basic,
    exp as math_exp,
    log as math_log,
    pow as math_pow,
    trig as math_trig,
)
from .lanes import FunctionText, Value, absolute, copy_sign, fma, intrinsic, suffix, type_name

FLOAT_KINDS = {"float32": "f32", "float64": "f64"}
SCALING_LLVM = 22
"""Version of LLVM from which ``llvm.ldexp`` becomes an instruction of AVX-512."""
INTEGER_KINDS = {f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


@dataclass(slots=True, frozen=True)
class MathFunction:
    """One row. ``ulp`` bounds the error against the exact result in units in the last place: (float32, float64).

    ``arguments`` counts the parameters; ``extra_integer`` adds an i32 one.
    """

    name: str
    write: Callable[..., Value]
    ulp: tuple[float, float]
    arguments: int = 1
    integer: bool = False
    predicate: bool = False
    extra_integer: bool = False


def _native(name: str) -> Callable[..., Value]:
    return lambda *operands: intrinsic(name, *operands)


MATH_FUNCTIONS: dict[str, MathFunction] = {
    row.name: row
    for row in (
        MathFunction("exp", math_exp.exp, (1.0, 1.0)),
        MathFunction("exp2", math_exp.exp2, (1.0, 1.0)),
        MathFunction("exp10", math_exp.exp10, (1.25, 1.25)),
        MathFunction("expm1", math_exp.expm1, (2.0, 2.0)),
        MathFunction("log", math_log.log, (1.0, 1.0)),
        MathFunction("log2", math_log.log2, (1.5, 1.0)),
        MathFunction("log10", math_log.log10, (1.25, 1.0)),
        MathFunction("log1p", math_log.log1p, (1.25, 1.25)),
        MathFunction("pow", math_pow.power, (0.75, 1.0), arguments=2),
        MathFunction("sin", math_trig.sin, (1.0, 1.0)),
        MathFunction("cos", math_trig.cos, (1.0, 1.0)),
        MathFunction("tan", math_trig.tan, (2.5, 2.5)),
        MathFunction("asin", math_arc.asin, (2.0, 2.0)),
        MathFunction("acos", math_arc.acos, (2.0, 2.0)),
        MathFunction("atan", math_arc.atan, (2.0, 2.0)),
        MathFunction("atan2", math_arc.atan2, (2.0, 2.0), arguments=2),
        MathFunction("sinh", math_exp.sinh, (2.5, 2.5)),
        MathFunction("cosh", math_exp.cosh, (2.0, 2.0)),
        MathFunction("tanh", math_exp.tanh, (1.5, 2.5)),
        MathFunction("asinh", math_log.asinh, (2.5, 2.5)),
        MathFunction("acosh", math_log.acosh, (2.5, 2.5)),
        MathFunction("atanh", math_log.atanh, (2.5, 2.5)),
        MathFunction("erf", math_exp.erf, (1.5, 1.5)),
        MathFunction("sigmoid", math_exp.sigmoid, (2.5, 2.5)),
        MathFunction("sqrt", _native("sqrt"), (0.5, 0.5)),
        MathFunction("rsqrt", math_basic.rsqrt, (1.5, 1.5)),
        MathFunction("floor", _native("floor"), (0.0, 0.0)),
        MathFunction("ceil", _native("ceil"), (0.0, 0.0)),
        MathFunction("trunc", _native("trunc"), (0.0, 0.0)),
        MathFunction("round", _native("roundeven"), (0.0, 0.0)),
        MathFunction("nearbyint", _native("roundeven"), (0.0, 0.0)),
        MathFunction("fabs", absolute, (0.0, 0.0)),
        MathFunction("fma", fma, (0.5, 0.5), arguments=3),
        MathFunction("fmod", math_basic.fmod, (0.0, 0.0), arguments=2),
        MathFunction("hypot", math_pow.hypot, (0.6, 1.0), arguments=2),
        MathFunction("ldexp", math_basic.ldexp, (0.5, 0.5), extra_integer=True),
        MathFunction("copysign", copy_sign, (0.0, 0.0), arguments=2),
        MathFunction("nextafter", math_basic.nextafter, (0.0, 0.0), arguments=2),
        MathFunction("isnan", math_basic.isnan, (0.0, 0.0), predicate=True),
        MathFunction("isinf", math_basic.isinf, (0.0, 0.0), predicate=True),
        MathFunction("isfinite", math_basic.isfinite, (0.0, 0.0), predicate=True),
        MathFunction("popcount", math_basic.popcount, (0.0, 0.0), integer=True),
        MathFunction("clz", math_basic.clz, (0.0, 0.0), integer=True),
    )
}

ULP: dict[str, dict[str, float]] = {
    row.name: {"float32": row.ulp[0], "float64": row.ulp[1]} for row in MATH_FUNCTIONS.values() if not row.integer
}
"""Largest error of each function in units in the last place of the exact result, tested over samples."""


def is_math_function(name: str, dtype: str) -> bool:
    """True if `math_function` has the function for elements of the dtype."""
    row = MATH_FUNCTIONS.get(name)
    return row is not None and dtype in (INTEGER_KINDS if row.integer else FLOAT_KINDS)


def scales_by_instruction(features: frozenset[str]) -> bool:
    """True for a processor with these LLVM features that multiplies by powers of two in one instruction, which LLVM writes."""
    return features >= {"avx512f", "avx512vl", "avx512dq"} and int(llvm_version().split(".")[0]) >= SCALING_LLVM


@cache
def math_function(
    name: str, dtype: str, lanes: int = 1, scales: bool = False, estimates: bool = False
) -> tuple[str, dict[str, str]]:
    """(symbol, needed texts by symbol) of a math function over `lanes` elements of a dtype.

    The texts are the definition itself, intrinsic declarations, and helper definitions and tables; join the dicts of all
    functions of a module and append every text once. Parameters and result are vectors (scalars for one lane) of the dtype;
    ``ldexp`` takes the exponent as int32, ``isnan`` and its like return i1. ``scales``: the processor multiplies by powers of two
    in one instruction (`scales_by_instruction`); the results are the same bits. ``estimates``: a device approximates reciprocals;
    results within the same bounds.

    Raises: CodegenError E570 where the table has no such function for the dtype, or lanes is below 1.
    """
    if not is_math_function(name, dtype) or lanes < 1:
        raise CodegenError(
            "E570",
            f"no math function {name!r} for {lanes} lanes of {dtype}",
            help=f"known functions: {', '.join(MATH_FUNCTIONS)}",
        )
    row = MATH_FUNCTIONS[name]
    kind = INTEGER_KINDS[dtype] if row.integer else FLOAT_KINDS[dtype]
    symbol = f"unity.{name}.{suffix(kind, lanes)}"
    function = FunctionText(scales=scales, estimates=estimates)
    kinds = [kind] * row.arguments + (["i32"] if row.extra_integer else [])
    parameters = [Value(function, f"%x{index}", k, lanes) for index, k in enumerate(kinds)]
    result = row.write(*parameters)
    result_type = type_name("i1" if row.predicate else kind, lanes)
    header = ", ".join(f"{parameter.type} {parameter.text}" for parameter in parameters)
    body = "\n".join(function.lines)
    text = (
        f"define internal {result_type} @{symbol}({header}) alwaysinline nounwind {{\nentry:\n"
        f"{body}\n  ret {result_type} {result.text}\n}}\n"
    )
    return symbol, {**function.needed, symbol: text}


def ulp_table() -> str:
    """The error bounds as a markdown table, the one in ``docs/math.md``."""
    lines = ["| function | float32 | float64 |", "|---|---|---|"]
    for name, bounds in ULP.items():
        cells = ["exact" if bounds[dtype] == 0 else f"{bounds[dtype]:g}" for dtype in FLOAT_KINDS]
        lines.append(f"| `{name}` | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"
