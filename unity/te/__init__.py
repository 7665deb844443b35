"""Tensor expressions: ``placeholder``, ``compute``, reductions, and ``create_prim_func``.

>>> A = te.placeholder((n, 128), "float32", "A")
>>> B = te.compute((n, 128), lambda i, j: te.exp(A[i, j]) + 1.0, "B")
>>> func = te.create_prim_func([A, B])
"""

from ..support.arguments import gathered as _gathered
from ..support.lazy import absent_names as _absent_names
from .math import *  # noqa: F403
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
from .value import *  # noqa: F403

indexdiv, indexmod = floordiv, floormod  # noqa: F405

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
