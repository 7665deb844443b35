"""Inputs for sorting, searching, medians, truth reductions and powers."""

import numpy as np
from op_values import b, f, i

NAN, INF = np.nan, np.inf
TIES = np.array([[3, 1, 3, NAN, 1], [NAN, -INF, 0, INF, 0]], "float32")
CASES = []
for n in ("sort", "argsort"):
    for down in (False, True):
        CASES += [
            (n, [f(33)], {"descending": down}),
            (n, [i(3, 17, 2, low=0, high=4)], {"axis": 1, "descending": down}),
            (n, [f(2, 1)], {"descending": down}),
        ]
        CASES += [
            (n, [f(0, 3)], {"axis": 0, "descending": down}),
            (n, [i(8, dtype="uint8", low=0)], {"descending": down}),
            (n, [f(9, dtype="float16")], {"descending": down}),
        ]
LONG = np.ascontiguousarray(np.tile(np.array([2, NAN, -1, INF, 2, 0, -INF], "float32"), (3, 20))[:, :133])
for down in (False, True):
    CASES += [("argsort", [LONG], {"descending": down}), ("argsort", [LONG.T.copy()], {"axis": 0, "descending": down})]
    CASES += [("argsort", [i(2, 65, low=0, high=9)], {"descending": down}), ("sort", [f(2, 64)], {"descending": down})]
    CASES += [("topk", [LONG], {"k": k, "largest": down}) for k in (1, 7, 40)]
    CASES += [("topk", [LONG.T.copy().reshape(7, 19, 3)], {"k": 4, "axis": 1, "largest": down})]
CASES += [("topk", [TIES], {"k": 3, "largest": k}) for k in (True, False)] + [
    ("topk", [f(4)], {"k": 0, "ret_type": "values"})
]
for axis, keep in ((None, False), (0, False), ([-1], True), ([0, 2], False), (None, True)):
    CASES += [("median", [f(3, 4, 5)], {"axis": axis, "keepdims": keep})]
    CASES += [(n, [b(3, 4, 5)], {"axis": axis, "keepdims": keep}) for n in ("any", "all")]
    CASES += [("logsumexp", [f(3, 4, 5) * 100], {"axis": axis, "keepdims": keep})]
CASES += [
    ("median", [TIES], {"axis": 1}),
    ("median", [TIES], {}),
    ("median", [i(2, 6)], {"axis": 0}),
    ("median", [f(1, dtype="float16")], {"axis": 0}),
    ("median", [LONG], {"axis": 1}),
    ("median", [np.array([[0, -0.0, -INF, 2, -0.0, INF], [-NAN, 1, 2, NAN, 0, 1]])], {"axis": 1}),
]
for kind in ("int8", "uint8", "int16", "uint32", "int64", "uint64", "float16", "float64"):
    low = 0 if kind.startswith("uint") else -9
    drawn = f(2, 67, dtype=kind) if "float" in kind else i(2, 67, dtype=kind, low=low, high=9)
    CASES += [
        ("median", [drawn], {"axis": 1}),
        ("topk", [drawn], {"k": 35}),
        ("topk", [drawn], {"k": 34, "largest": False}),
    ]
CASES += [
    ("median", [np.array([np.iinfo(n).max, np.iinfo(n).min, 0], n)], {"axis": 0}) for n in ("int64", "uint64", "int8")
]
CASES += [("topk", [b(2, 50)], {"k": 40}), ("topk", [f(40, 3)], {"k": 33, "axis": 0})]
for n in ("any", "all"):
    CASES += [
        (n, [TIES], {"axis": 1}),
        (n, [i(3, 2, low=0, high=2)], {"axis": 0}),
        (n, [b(0, 3)], {"axis": 0}),
        (n, [b()], {}),
    ]
CASES += [
    ("logsumexp", [np.array([[-INF, -INF], [INF, 1], [NAN, 0]], "float32")], {"axis": 1}),
    ("logsumexp", [f(2, 0)], {"axis": 1}),
    ("logsumexp", [f(4, dtype="float16")], {}),
    ("logsumexp", [f()], {}),
]
EDGES = np.array([-1, 0, 0, 0.5, 2], "float32")
for right in (False, True):
    CASES += [
        ("bucketize", [np.array([[-2, -1, 0.25], [0, NAN, 9]], "float32"), EDGES], {"right": right}),
        ("bucketize", [i(2, 3), np.array([0, 1, 1, 3], "int32")], {"right": right, "out_int32": True}),
    ]
    CASES += [
        ("searchsorted", [np.sort(f(3, 5)), f(3, 4)], {"right": right}),
        ("searchsorted", [np.array([1, 2, NAN, NAN], "float32"), np.array([NAN, 2, 5], "float32")], {"right": right}),
        ("searchsorted", [f(0), f(3)], {"right": right}),
    ]
CASES += [
    ("power", [i(4, 1), i(5, low=0, high=9)], {}),
    ("power", [i(9), i(9, low=-4)], {}),
    ("power", [i(5, dtype="int8"), 7], {}),
    ("power", [i(5, dtype="uint8", low=0), i(5, dtype="uint8", low=0)], {}),
    ("power", [i(3, dtype="int64"), 2], {}),
    ("power", [i(0, dtype="int64"), 2], {}),
]
CASES += [
    (
        "power",
        [
            np.array([0.0, -0.0, 1, -1.5, NAN, INF, -INF], "float32")[:, None],
            np.array([0, 1, 2, -1, 0.75, NAN, INF, -INF], "float32"),
        ],
        {},
    )
]
CASES += [("power", [f(4, low=0.0), 0.5], {}), ("power", [f(4, dtype="float16", low=0.0), f(4, dtype="float16")], {})]
