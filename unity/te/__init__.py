"""Tensor expressions: ``placeholder``, ``compute``, reductions, and ``create_prim_func``.

>>> A = te.placeholder((n, 128), "float32", "A")
>>> B = te.compute((n, 128), lambda i, j: te.exp(A[i, j]) + 1.0, "B")
>>> func = te.create_prim_func([A, B])
"""

from ..support.arguments import gathered as _gathered
from ..support.lazy import absent_names as _absent_names
from .math import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    ceil as ceil,
    clz as clz,
    copysign as copysign,
    cos as cos,
    cosh as cosh,
    erf as erf,
    exp as exp,
    exp2 as exp2,
    exp10 as exp10,
    floor as floor,
    fmod as fmod,
    hypot as hypot,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    ldexp as ldexp,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    nearbyint as nearbyint,
    nextafter as nextafter,
    popcount as popcount,
    pow as pow,
    power as power,
    round as round,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    tan as tan,
    tanh as tanh,
    trunc as trunc,
)
from .prim_func import (
    create_prim_func as create_prim_func,
    create_prim_func_with_symbols as create_prim_func_with_symbols,
    sort_stages as sort_stages,
)
from .reduction import (
    ReduceAxis as ReduceAxis,
    comm_reducer as comm_reducer,
    highest as highest,
    lowest as lowest,
    max as max,
    min as min,
    prod as prod,
    reduce_axis as reduce_axis,
    sum as sum,
)
from .tensor import (
    Compute as Compute,
    Extern as Extern,
    Tensor as Tensor,
    compute as compute,
    extern as extern,
    placeholder as placeholder,
)
from .value import (
    Value as Value,
    all as all,
    any as any,
    const as const,
    div as div,
    floordiv as floordiv,
    floormod as floormod,
    if_then_else as if_then_else,
    infinity as infinity,
    intrinsic as intrinsic,
    max_value as max_value,
    maximum as maximum,
    min_value as min_value,
    minimum as minimum,
    select as select,
    size_var as size_var,
    to_scalar as to_scalar,
    truncdiv as truncdiv,
    truncmod as truncmod,
    unwrap as unwrap,
    var as var,
)

indexdiv, indexmod = floordiv, floormod
AXIS_SEPARATOR = ...
"""The value that divides the axes of a layout among the results of an index map."""

__all__ = _gathered(globals())
__getattr__ = _absent_names(
    __name__,
    {
        "create_schedule": "schedules are of programs: unity.tir.Schedule(te.create_prim_func([A, B]))",
        "thread_axis": "bind loops of a program: unity.tir.Schedule(func).bind(loop, 'threadIdx.x')",
        "scan": "a loop that carries a state is written in script, or with te.extern; running sums are topi.cumsum",
        "gradient": "gradients are of graph functions: unity.transform.gradient",
        "hybrid": "write the loops in script: @T.prim_func",
    },
)
