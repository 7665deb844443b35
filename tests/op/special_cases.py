"""Inputs for special functions, running extremes and recurrent layers."""

import numpy as np
from op_values import Shape, f, i

NAN, INF = np.nan, np.inf
EDGES = np.array([0.0, -0.0, 1e-6, -1e-6, 0.5, 1, -1, 2.5, -3.7, 30, -2, NAN, INF, -INF], "float32")
TIES = np.array([[1, 3, 3, NAN, 5], [-INF, 2, 2, 1, INF]], "float32")
CASES = []
for name in ("log1p", "expm1", "log2", "log10", "exp2", "erfc", "lgamma", "digamma"):
    CASES += [(name, [EDGES], {})]
CASES += [("erfinv", [np.array([0, 1, -1, 0.999999, NAN, 2], "float32")], {})]
for name in ("i0", "i0e", "i1", "i1e", "erfcx"):
    CASES += [(name, [EDGES], {}), (name, [f(3, 5, low=-12, high=12)], {})]
    CASES += [(name, [f(9, dtype="float64", low=-9, high=9)], {})]
    CASES += [(name, [np.array([1e-30, 7.99, 8, 8.01, 60, 87, -87, 1e6, -1e6, 3e38], "float32")], {})]
for n in (1, 2, 3, 7):
    CASES += [("polygamma", [EDGES], {"n": n}), ("polygamma", [f(3, 5, low=-4, high=9)], {"n": n})]
    CASES += [("polygamma", [f(4, dtype="float64", low=0.1, high=3)], {"n": n}), ("polygamma", [f(0, 2)], {"n": n})]
CASES += [
    ("nextafter", [EDGES, f(1)], {}),
    ("nextafter", [f(3, 1), f(4, low=-3)], {}),
    ("nextafter", [f(4, dtype="float64"), np.array([INF, -INF, NAN, 0])], {}),
    ("frexp", [EDGES], {}),
    ("frexp", [np.array([1e-310, -5e-324, 1e300, 0.5, 1, 2, -3])], {}),
    ("frexp", [np.array([1e-40, 1e-45, 6.1], "float32")], {}),
    ("frexp", [f(4, dtype="float16")], {}),
]
for name in ("cummax", "cummin"):
    CASES += [
        (name, [TIES], {"axis": 1}),
        (name, [i(4, 3, low=0, high=3)], {"axis": 0}),
        (name, [f(0, 3)], {"axis": 0}),
    ]
    CASES += [(name, [np.array([True, False, True])], {"axis": -1}), (name, [f(3, dtype="float16")], {"axis": 0})]
CASES += [
    ("logcumsumexp", [f(3, 4)], {"axis": 1}),
    ("logcumsumexp", [np.array([-INF, -INF, 1, 90, -INF, 88, INF, NAN], "float32")], {"axis": 0}),
    ("logcumsumexp", [f(2, 3, dtype="float16")], {"axis": -2}),
]
for reverse in (False, True):
    CASES += [
        ("nn.lstm", [f(5, 2, 12), f(2, 3), f(2, 3), f(3, 12)], {"reverse": reverse}),
        ("nn.gru", [f(4, 3, 6), f(3, 2), f(2, 6), f(6)], {"reverse": reverse}),
        ("nn.rnn", [f(3, 2, 4), f(2, 4), f(4, 4)], {"reverse": reverse, "nonlinearity": "relu" if reverse else "tanh"}),
    ]
CASES += [
    ("nn.lstm", [f(0, 2, 4), f(2, 1), f(2, 1), f(1, 4)], {}),
    ("nn.gru", [f(2, 1, 3), f(1, 1), f(1, 3)], {}),
    ("nn.gru", [f(2, 1, 6, dtype="float16"), f(1, 2, dtype="float16"), f(2, 6, dtype="float16")], {}),
]

for rank, size in ((1, (5,)), (2, (4, 5)), (3, (3, 4, 2))):
    CASES += [
        (f"nn.max_pool{rank}d_with_indices", [f(2, 1, *size)], {"pool_size": 2, "strides": 2, "padding": 1}),
        (f"nn.max_pool{rank}d_with_indices", [i(1, 2, *size, low=0, high=3)], {"pool_size": 2, "dilation": 1}),
        (f"nn.adaptive_max_pool{rank}d", [f(1, 2, *size)], {"output_size": 2}),
        (f"nn.adaptive_max_pool{rank}d", [f(1, 0, *size)], {"output_size": (3, 1, 2)[:rank]}),
    ]
SPOTTED = np.array([[[[NAN, 1, NAN, 2], [-INF, -INF, 3, 3], [-INF, -INF, 3, 3]]]], "float32")
CASES += [
    ("nn.max_pool2d_with_indices", [SPOTTED], {"pool_size": 2, "dilation": (1, 2)}),
    ("nn.adaptive_max_pool2d", [SPOTTED], {"output_size": (2, 3)}),
]
for method in ("nearest_neighbor", "linear", "cubic"):
    CASES += [
        ("image.resize1d", [f(2, 1, 5), Shape((8,))], {"method": method}),
        ("image.resize1d", [f(1, 2, 4), Shape((6,))], {"method": method, "scales": (1.7,)}),
        ("image.resize1d", [f(1, 2, 3), Shape((3,))], {"method": method, "scales": (1.3,)}),
        ("image.resize3d", [f(1, 2, 2, 3, 2), Shape((3, 2, 4))], {"method": method}),
        ("image.resize3d", [f(1, 2, 3, 2, 1), Shape((2, 4, 1))],
         {"method": method, "layout": "NDHWC", "coordinate_transformation_mode": "align_corners"}),
    ]  # fmt: skip
CASES.append(("image.resize2d", [f(1, 1, 3, 4), Shape((5, 7))], {"scales": (1.8, 1.9), "rounding_method": "floor",
              "method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"}))  # fmt: skip
for method in ("nearest", "bilinear"):
    for padding in ("zeros", "border", "reflection"):
        CASES.append(("image.grid_sample", [f(1, 2, 2, 3, 4), f(1, 3, 2, 1, 3, low=-1.4, high=1.4)],
                      {"layout": "NCDHW", "method": method, "padding_mode": padding}))  # fmt: skip


def _matrix(*shape):
    return f(*shape) + 2 * np.eye(shape[-1], dtype="float32")[::-1]


FACTORS = np.array([[4, 3, 1], [0.5, 3, 2], [0.25, 0.5, 2]], "float32")
SPD = np.array([[[4, 2, 1], [2, 5, 3], [1, 3, 6]], [[1, 0, 0], [0, 2, 0], [0, 0, 3]]], "float32")
CASES += [
    ("linalg.lu_factor", [_matrix(4, 4)], {}),
    ("linalg.lu_factor", [_matrix(2, 3, 3).astype("float64")], {}),
    ("linalg.lu_factor", [f(0, 0)], {}),
    ("linalg.lu_factor", [f(1, 1)], {}),
    ("linalg.lu_solve", [FACTORS, np.array([2, 3, 3], "int32"), f(3, 2)], {}),
    ("linalg.lu_solve", [np.stack([FACTORS, FACTORS]), np.array([[1, 2, 3], [3, 2, 3]], "int32"), f(2, 3, 1)], {}),
    ("linalg.cholesky", [SPD], {}),
    ("linalg.cholesky", [SPD[0].astype("float16")], {}),
    ("linalg.cholesky", [SPD[:, :2, :2].copy()], {}),
    ("linalg.cholesky", [f(0, 0)], {}),
]
for upper in (False, True):
    CASES += [
        ("linalg.solve_triangular", [SPD, f(2, 3, 2)], {"upper": upper}),
        ("linalg.solve_triangular", [FACTORS, f(3, 1)], {"upper": upper, "unitriangular": True}),
    ]
for shape in ((3, 3), (5, 3), (2, 3, 4), (1, 1), (0, 2), (2, 0)):
    CASES += [("linalg.geqrf", [f(*shape)], {}), ("linalg.lu_factor", [f(*shape)], {})]
    CASES += [("linalg.qr", [f(*shape)], {"mode": mode}) for mode in ("reduced", "complete")]
    CASES += [("linalg.svd", [f(*shape)], {"full_matrices": full}) for full in (True, False)]
ROOTS = np.array([[2, 1, 0], [1, 2, 0], [0, 0, 3]], "float32")
CASES += [
    ("linalg.qr", [np.array([[1, 2], [0, 3], [0, 0]], "float32")], {}),
    ("linalg.qr", [f(2, 2, dtype="float16")], {}),
    ("linalg.householder_product", [f(4, 3), f(2)], {}),
    ("linalg.householder_product", [f(2, 3, 3), f(2, 3)], {}),
    ("linalg.svd", [f(3, 2, dtype="float64")], {}),
    ("linalg.eigh", [SPD], {}),
    ("linalg.eigh", [f(2, 4, 4)], {"UPLO": "U"}),
    ("linalg.eigh", [f(3, 3, dtype="float64")], {}),
    ("linalg.eigh", [f(0, 0)], {}),
    ("linalg.eigh", [np.zeros((2, 2), "float32")], {}),
    ("linalg.matrix_exp", [ROOTS], {}),
    ("linalg.matrix_exp", [f(2, 3, 3) * 5], {}),
    ("linalg.matrix_exp", [f(1, 1, dtype="float16")], {}),
    ("linalg.matrix_exp", [f(0, 0)], {}),
]


CASES += [(f"grad.{n}", [f(2, 3)], {}) for n in ("no_grad", "start_checkpoint", "end_checkpoint")]
CASES += [
    ("nn.attention_bias", [f(1, 3, 2, 4), f(1, 5, 2, 4), f(1, 5, 2, 4), f(1, 1, 3, 5)], {"scale": 0.5}),
    ("grad.take_backward", [f(2, 2, 3), f(4, 3), np.array([[0, 2], [2, -1]])], {}),
    ("grad.take_backward", [f(2, 3), f(2, 4), np.array([1, 9, 1])], {"axis": -1}),
    ("grad.nll_loss_backward", [f(), f(4, 3), np.array([0, 2, -100, 1])], {}),
    (
        "grad.nll_loss_backward",
        [f(2, 2), f(2, 3, 2), np.array([[0, 2], [1, 1]]), f(3)],
        {"reduction": "none", "ignore_index": 1},
    ),
]
for name in ("max", "avg"):
    CASES += [
        (f"grad.{name}_pool2d_backward", [f(1, 2, 3, 3), f(1, 2, 5, 4)], {"pool_size": 2, "strides": 2, "padding": 1}),
        (f"grad.{name}_pool2d_backward", [f(1, 1, 3, 4), f(1, 1, 4, 5)], {"pool_size": 2, "count_include_pad": True}),
    ]

for reverse in (False, True):
    CASES += [
        ("grad.linear_recurrence", [f(4, 2, 3), f(4, 2, 3), f(2, 3)], {"reverse": reverse}),
        ("grad.recurrent_backward", [f(4, 2, 3), f(2, 3), f(4, 2, 3), f(4, 2, 9), f(9, 3)], {"reverse": reverse}),
        ("grad.lstm_backward", [f(4, 2, 3), f(2, 3), f(4, 2, 3), f(4, 2, 12), f(12, 3), f(2, 3), f(4, 2, 3)],
         {"reverse": reverse}),
    ]  # fmt: skip
CASES += [
    ("grad.linear_recurrence", [f(0, 2, 3), f(0, 2, 3), f(2, 3)], {}),
    (
        "grad.recurrent_backward",
        [f(*s, dtype="float16") for s in ((2, 1, 1), (1, 1), (2, 1, 1), (2, 1, 1), (1, 1))],
        {},
    ),
    ("grad.lstm_backward", [f(0, 1, 2), f(1, 2), f(0, 1, 2), f(0, 1, 8), f(8, 2), f(1, 2), f(0, 1, 2)], {}),
]

TRUTH, FLAGS = np.array([True, False, True, False]), np.array([True, True, False, False])
for how in ("update", "add", "mul", "min", "max"):
    CASES.append(("scatter_elements", [TRUTH, np.array([0, 1, 2, 1]), FLAGS], {"reduction": how}))
CASES.append(("index_put", [TRUTH, (np.array([0, 1, 2, 1]),), FLAGS], {"accumulate": True}))
CASES += [
    ("nn.grouped_matmul", [f(6, 3), f(3, 3, 4), np.array([2, 2, 5], "int32")], {}),
    ("nn.grouped_matmul", [f(2, 3, dtype="float16"), f(1, 3, 2, dtype="float16"), np.array([2])], {}),
    ("nn.grouped_matmul", [f(0, 3), f(2, 3, 2), np.array([0, 0])], {}),
]
