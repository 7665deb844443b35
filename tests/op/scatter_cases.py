"""Inputs for reading and writing by index tuples, quantisation, sampling and windows."""

import numpy as np
from op_values import f, i

NAN, INF = np.nan, np.inf
CASES = [
    ("gather_nd", [f(4, 5, 2), i(3, 2, low=0, high=4)], {}),
    ("gather_nd", [f(4, 5), i(2, 3, 1, low=-6, high=6, dtype="int64")], {}),
    ("gather_nd", [f(2, 3, 4), i(2, 5, 1, low=0, high=3)], {"batch_dims": 1}),
    ("gather_nd", [i(3), i(0, 1)], {}),
    ("slice_scatter", [f(6, 3), f(2, 3), 1, 5, 2], {}),
    ("slice_scatter", [f(3, 6), f(3, 2), -2, 100], {"axis": -1}),
    ("slice_scatter", [i(4), i(0), 3, 1], {}),
    ("reverse_sequence", [f(3, 4, 2), np.array([0, 3, 9], "int32")], {}),
    ("reverse_sequence", [f(4, 2), np.array([1, 4], "int64")], {"seq_axis": 0, "batch_axis": 1}),
    ("meshgrid", [(f(2), f(3))], {}),
    ("meshgrid", [(f(2), f(3), f(4))], {"indexing": "xy"}),
    ("meshgrid", [(i(2), i(0))], {}),
    ("meshgrid", [(f(3),)], {"indexing": "xy"}),
    (
        "quantize",
        [
            np.array([-300, -0.5, 0.5, 1.5, 2.4, 300, NAN, INF], "float32"),
            np.array(0.5, "float32"),
            np.array(3, "int8"),
        ],
        {},
    ),
    ("quantize", [f(2, 3, 4) * 50, f(3, low=0.1), i(3, dtype="int8")], {"axis": 1, "out_dtype": "uint8"}),
    ("quantize", [f(4, dtype="float16"), np.array([0.25], "float32"), np.array([0], "int8")], {}),
    ("dequantize", [i(2, 3, dtype="int8"), f(3), i(3, dtype="int8")], {}),
    (
        "dequantize",
        [i(4, dtype="uint8", low=0), np.array(0.5, "float32"), np.array(100, "uint8")],
        {"out_dtype": "float16"},
    ),
    (
        "multinomial_from_uniform",
        [
            np.array([[0.1, 0.2, 0.7], [0.5, 0, 0.5]], "float32"),
            np.array([[0.05], [0.95], [0.5], [1.0]], "float32"),
            np.array([[0], [0], [1], [1]], "int64"),
        ],
        {},
    ),
    (
        "multinomial_from_uniform",
        [np.array([[1.0]], "float32"), f(2, 1, low=0, high=1), np.array([[0], [0]], "int64")],
        {"dtype": "int32"},
    ),
    ("eye_like", [f(3, 4)], {"k": 1}),
    ("eye_like", [f(2, 2)], {"dtype": "int32", "k": -1}),
]
CASES += [
    ("scatter_nd", [f(4, 5), np.array([[0, 1], [-1, 2], [0, 1]]), f(3)], {"reduction": r})
    for r in ("update", "add", "mul", "min", "max")
]
CASES += [
    ("scatter_nd", [f(4, 3), i(2, 1, low=0, high=4), f(2, 3)], {}),
    ("scatter_nd", [i(4), i(0, 1), i(0)], {"reduction": "add"}),
]
CASES += [("hamming_window", [], {"window_size": n, "periodic": p}) for n in (0, 1, 2, 7) for p in (True, False)] + [
    ("hamming_window", [], {"window_size": 4, "alpha": 0.5, "beta": 0.5, "dtype": "float64"})
]
