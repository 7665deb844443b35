"""Inputs whose elements matter, beside the samples of rows: infinities, NaN, both zeros, ties, extreme and long ones.

``CASES`` for meanings, ``GRADIENT_CASES`` for gradients, in float64: (name, inputs, attributes).
"""

import numpy as np
from op_values import b, f, i

NAN, INF = np.nan, np.inf
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, 2.5, NAN, INF, -INF], "float32")
EDGES = np.array([0.0, -0.0, 1e-6, -1e-6, 0.5, 1, -1, 2.5, -3.7, 30, -2, NAN, INF, -INF], "float32")
INTS = np.array([0, 1, -1, 5, -7, 2**31 - 1, -(2**31)], "int32")
TIES = np.array([[3, 1, 3, NAN, 1], [NAN, -INF, 0, INF, 0]], "float32")
LONG = np.ascontiguousarray(np.tile(np.array([2, NAN, -1, INF, 2, 0, -INF], "float32"), (3, 20))[:, :133])
FEW = (False, True)
CASES = []

# ---- functions of one and two operands

ROUNDING = ("abs", "ceil", "floor", "negative", "round", "sign", "square", "trunc")
CASES += [
    (n, [SPECIAL], {})
    for n in (*ROUNDING, "exp", "sqrt", "tanh", "isnan", "isinf", "isfinite", "sin", "erf", "nn.relu")
]
CASES += [(n, [f(1, 7, low=-9, high=9)], {}) for n in ROUNDING]
CASES += [(n, [EDGES], {}) for n in ("log1p", "expm1", "log2", "log10", "exp2")]
CASES += [
    ("clip", [SPECIAL], {"min": -1, "max": 1}),
    ("nn.gelu", [f(9, dtype="float64") * 4], {}),
]
COMPARED = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
COMBINED = ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "floor_mod", "mod")
CASES += [(n, [SPECIAL[:, None], SPECIAL[None]], {}) for n in (*COMPARED, *COMBINED, "divide")]
CASES += [(n, [INTS[:, None], INTS[None]], {}) for n in COMBINED] + [(n, [f(3), 2], {}) for n in COMBINED]
CASES += [(n, [f(4), f(2, 3, 4)], {}) for n in COMBINED] + [(n, [f(), f(3)], {}) for n in COMBINED]
for n in ("left_shift", "right_shift"):
    CASES += [(n, [i(9), i(9, low=0, high=40)], {})]
    CASES += [(n, [i(9, dtype="uint8", low=0), i(9, dtype="uint8", low=0, high=12)], {})]
CASES += [
    ("power", [i(4, 1), i(5, low=0, high=9)], {}),
    ("power", [i(9), i(9, low=-4)], {}),
    ("power", [i(5, dtype="int8"), 7], {}),
    ("power", [i(5, dtype="uint8", low=0), i(5, dtype="uint8", low=0)], {}),
    ("power", [i(3, dtype="int64"), 2], {}),
    ("power", [np.array([1, -1, 2, 0], "int32"), -3], {}),
    ("power", [i(0, dtype="int64"), 2], {}),
    ("power", [np.array([0.0, -0.0, 1, -1.5, NAN, INF, -INF], "float32")[:, None], SPECIAL], {}),
    ("power", [np.array([0.0, 2], "float32")[:, None], np.array([2, -1, 0.75, -2.0], "float32")], {}),
    ("power", [f(4, low=0.0), 0.5], {}),
    ("power", [f(5, low=0.1), 2.0], {}),
    ("power", [f(4, dtype="float16", low=0.0), f(4, dtype="float16")], {}),
]

# ---- along axes

CASES += [(n, [np.array([1, NAN, 2], "float32")], {}) for n in ("sum", "prod", "max", "min", "mean", "variance", "std")]
CASES += [("sum", [f(0, 3)], {"axis": 0}), ("mean", [f(200) + 1e4], {}), ("variance", [f(200) + 100], {})]
ROWS = np.array([[1, NAN, NAN], [-INF, -INF, -INF], [INF, 3, INF]], "float32")
for n in ("argmax", "argmin"):
    CASES += [(n, [ROWS], {"axis": 1})] + [(n, [np.full(3, v, "int32")], {}) for v in (-(2**31), 2**31 - 1)]
for n in ("any", "all"):
    CASES += [(n, [TIES], {"axis": 1}), (n, [b()], {})]
CASES += [("logsumexp", [np.array([[-INF, -INF], [INF, 1], [NAN, 0]], "float32")], {"axis": 1})]
for n in ("sort", "argsort"):
    CASES += [(n, [made], {"descending": down}) for made in (TIES, LONG, f(2, 64), f(2, 1)) for down in FEW]
    CASES += [(n, [LONG.T.copy()], {"axis": 0, "descending": down}) for down in FEW]
for largest in FEW:
    CASES += [("topk", [LONG], {"k": k, "largest": largest}) for k in (1, 7, 40)] + [
        ("topk", [TIES], {"k": 3, "largest": largest})
    ]
    CASES += [("topk", [LONG.T.copy().reshape(7, 19, 3)], {"k": 4, "axis": 1, "largest": largest})]
CASES += [("median", [made], {"axis": 1}) for made in (TIES, LONG)] + [("median", [TIES], {})]
CASES += [("median", [np.array([[0, -0.0, -INF, 2, -0.0, INF], [-NAN, 1, 2, NAN, 0, 1]])], {"axis": 1})]
CASES += [
    ("median", [np.array([np.iinfo(n).max, np.iinfo(n).min, 0], n)], {"axis": 0}) for n in ("int64", "uint64", "int8")
]
for kind in ("int8", "uint8", "int16", "uint32", "uint64", "float64"):
    drawn = f(2, 67, dtype=kind) if "float" in kind else i(2, 67, dtype=kind, low=0 if kind[0] == "u" else -9, high=9)
    CASES += [
        ("median", [drawn], {"axis": 1}),
        ("topk", [drawn], {"k": 35}),
        ("topk", [drawn], {"k": 34, "largest": False}),
    ]
for right in FEW:
    CASES += [
        ("searchsorted", [np.array([1, 2, NAN, NAN], "float32"), np.array([NAN, 2, 5], "float32")], {"right": right}),
    ]

# ---- elements moved, windows, matrices

TRUTH, FLAGS = np.array([True, False, True, False]), np.array([True, True, False, False])
CASES += [
    ("scatter_elements", [TRUTH, np.array([0, 1, 2, 1]), FLAGS], {"reduction": how})
    for how in ("update", "add", "mul", "min", "max")
]
CASES += [("index_put", [TRUTH, (np.array([0, 1, 2, 1]),), FLAGS], {"accumulate": True})]
CASES += [
    ("take", [f(5, 3), i(4, low=-7, high=8)], {"axis": 0}),
    ("index_tensor", [f(4, 5), (i(3, low=-9, high=9),)], {}),
]
SPOTTED = np.array([[[[NAN, 1, NAN, 2], [-INF, -INF, 3, 3], [-INF, -INF, 3, 3]]]], "float32")
CASES += [
    ("nn.max_pool2d", [SPOTTED], {"pool_size": 2}),
    ("nn.max_pool2d", [SPOTTED], {"pool_size": 2, "dilation": (1, 2)}),
    ("nn.adaptive_max_pool2d", [SPOTTED], {"output_size": (2, 3)}),
    (
        "image.grid_sample",
        [f(1, 1, 3, 3), np.array([INF, -INF, 5, -1], "float32").reshape(1, 2, 1, 2)],
        {"method": "nearest"},
    ),
]
for n in ("max", "avg"):
    CASES += [
        (f"nn.{n}_pool2d", [i(1, 1, 5, 4, dtype=d, low=0, high=255 if d == "uint8" else 127)], {"pool_size": 3})
        for d in ("int8", "uint8", "int64")
    ]

# ---- gradients

WITH_ZEROS = np.array([[0.5, 0.0, 0.7, 1.5], [0.0, 2.0, 0.0, 1.0]])
GRADIENT_CASES = [("prod", [WITH_ZEROS.copy()], {"axis": [1]})]
GRADIENT_CASES += [("clip", [np.linspace(0.2, 0.9, 9)], {"min": 0.41, "max": 0.6})]
GRADIENT_CASES += [(n, [np.array([[2.1, 4.3, 3.2]]), np.array([-1.35, -1.1, -1.2])], {}) for n in ("mod", "floor_mod")]
GRADIENT_CASES += [("floor_divide", [np.array([2.1, 2.3]), np.array([0.91, 0.93])], {})]
