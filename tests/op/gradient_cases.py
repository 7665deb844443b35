"""Inputs for gradients of factorisations, recurrent layers and of operators that move or choose elements, in float64."""

import numpy as np
from op_values import Shape

RNG = np.random.default_rng(11)


def f(*shape, low=0.2, high=0.9):
    return RNG.uniform(low, high, shape)


def near_identity(*shape):
    """Well conditioned matrices."""
    return f(*shape, low=-0.4, high=0.4) + 2 * np.eye(shape[-1])


CASES = []

# ---- factorisations and systems

for shape in ((3, 3), (2, 4, 4), (1, 1)):
    CASES += [
        ("linalg.cholesky", [near_identity(*shape)], {}),
        ("linalg.lu_factor", [near_identity(*shape)[..., ::-1, :].copy()], {}),
    ]
    for upper in (False, True):
        for unit in (False, True):
            system = [near_identity(*shape), f(*shape[:-1], 2)]
            CASES.append(("linalg.solve_triangular", system, {"upper": upper, "unitriangular": unit}))
CASES += [
    ("linalg.lu_solve", [near_identity(3, 3), np.array([2, 3, 3], "int32"), f(3, 2)], {}),
    ("linalg.lu_solve", [near_identity(2, 3, 3), np.array([[3, 2, 3], [1, 3, 3]], "int32"), f(2, 3, 1)], {}),
]

for shape in ((3, 3), (2, 4, 3), (2, 4), (1, 1)):
    CASES += [("linalg.qr", [f(*shape)], {}), ("linalg.svd", [f(*shape)], {"full_matrices": False})]
CASES += [
    ("linalg.svd", [f(3, 3)], {}),
    ("linalg.qr", [f(2, 3)], {"mode": "complete"}),
    ("linalg.eigh", [f(2, 3, 3)], {}),
    ("linalg.eigh", [f(4, 4)], {"UPLO": "U"}),
    ("linalg.matrix_exp", [f(2, 3, 3)], {}),
    ("linalg.matrix_exp", [f(2, 2) * 4], {}),
]

CASES += []

# ---- recurrent layers

for reverse in (False, True):
    how = {"reverse": reverse}
    CASES += [
        ("nn.lstm", [f(3, 2, 12, low=-1), f(2, 3), f(2, 3, low=-1), f(3, 12, low=-1)], how),
        ("nn.gru", [f(3, 2, 9, low=-1), f(2, 3), f(3, 9, low=-1), f(9)], how),
        ("nn.gru", [f(2, 1, 3, low=-1), f(1, 1), f(1, 3)], how),
        ("nn.rnn", [f(3, 2, 2, low=-1), f(2, 2), f(2, 2, low=-1)], how),
        ("nn.rnn", [f(3, 2, 2, low=-1), f(2, 2), f(2, 2, low=-1)], {"nonlinearity": "relu", **how}),
    ]
CASES += [
    ("nn.lstm", [f(0, 2, 4), f(2, 1), f(2, 1), f(1, 4)], {}),
    ("nn.rnn", [f(1, 1, 1), f(1, 1), f(1, 1)], {}),
]

# ---- elements moved, repeated or chosen

CASES += [
    ("stack", [(f(2, 3), f(2, 3))], {"axis": -1}),
    ("stack", [(f(),)], {}),
    ("repeat", [f(2, 3)], {"repeats": 2, "axis": 1}),
    ("repeat", [f(2, 3)], {"repeats": 3}),
    ("tile", [f(2, 3)], {"repeats": [2, 1, 3]}),
    ("tile", [f(2, 1, 2)], {"repeats": [2]}),
    ("nn.pad", [f(2, 3)], {"pad_width": [0, 0, 1, 2], "pad_value": 4.0}),
    ("nn.pad", [f(2, 3)], {"pad_width": [1, 0, 0, 0]}),
    *[("nn.pad", [f(3, 4)], {"pad_width": [1, 2, 2, 0], "pad_mode": m}) for m in ("reflect", "replicate", "circular")],
    ("tril", [f(2, 3, 4)], {"k": 1}),
    ("triu", [f(3, 2)], {"k": -1}),
    ("meshgrid", [(f(2), f(3), f(2))], {}),
    ("meshgrid", [(f(2), f(3), f(2))], {"indexing": "xy"}),
    ("nn.pixel_shuffle", [f(2, 8, 2, 3)], {"upscale_factor": 2}),
    ("scatter_elements", [f(3, 4), np.array([[0, 2], [2, -2]]), f(2, 2)], {"axis": 0}),
    ("scatter_elements", [f(3, 4), np.array([[0, 2], [2, 2]]), f(2, 2)], {"axis": 1, "reduction": "add"}),
    ("scatter_nd", [f(3, 4), np.array([[0], [2]]), f(2, 4)], {}),
    ("scatter_nd", [f(3, 4), np.array([[0, 1], [2, 3], [0, 1]]), f(3)], {"reduction": "add"}),
    ("index_put", [f(3, 4), (np.array([0, 2]), np.array([1, -1])), f(2)], {}),
    ("index_put", [f(3, 4), (np.array([0, 2, 2]),), f(1, 4)], {"accumulate": True}),
    ("index_tensor", [f(3, 4), (np.array([[0], [2]]), np.array([1, 1, 3]))], {}),
    ("gather_nd", [f(3, 4), np.array([[[0, 1]], [[2, 0]], [[0, 1]]])], {}),
    ("slice_scatter", [f(6, 3), f(2, 3), 1, 5, 2], {}),
    ("slice_scatter", [f(3, 6), f(3, 2), -2, 100], {"axis": -1}),
    ("reverse_sequence", [f(2, 4, 2), np.array([2, 9])], {}),
    ("sort", [f(3, 4)], {"axis": 0}),
    ("sort", [f(3, 4)], {"descending": True}),
    ("topk", [f(3, 4)], {"k": 2}),
    ("topk", [f(3, 4)], {"k": 3, "axis": 0, "ret_type": "values", "largest": False}),
]

# ---- activations, functions of two operands, products, resizing

WITH_ZEROS = np.array([[0.5, 0.0, 0.7, 1.5], [0.0, 2.0, 0.0, 1.0]])
CASES += [(n, [f(2, 5, low=-2, high=2)], {}) for n in ("nn.dropout",)]
CASES += [
    ("nn.prelu", [f(2, 3, 2, low=-2, high=2), f(3)], {}),
    ("nn.prelu", [f(2, 3, low=-2, high=2), f(1)], {"axis": 0}),
    ("floor_divide", [f(2, 3, low=2, high=2.4), f(2, 3, low=0.9, high=0.95)], {}),
    ("collapse_sum_to", [f(2, 3, 2), Shape((3, 1))], {}),
    ("collapse_sum_like", [f(2, 3, 2), f(3, 1)], {}),
    ("wrap_param", [f(2)], {"dtype": "float64"}),
    ("image.affine_grid", [f(2, 2, 3), Shape((3, 2))], {}),
    ("image.affine_grid", [f(1, 2, 3), Shape((2, 2))], {"align_corners": False}),
]
CASES += [(n, [f(2, 3, low=2, high=5), f(3, low=-1.4, high=-1.1)], {}) for n in ("mod", "floor_mod")]
for options in ({}, {"axis": [1]}, {"axis": [0, 2], "keepdims": True}):
    CASES += [(n, [f(2, 3, 3)], options) for n in ("std", "prod", "median")]
CASES += [
    ("prod", [WITH_ZEROS.copy()], {"axis": [1]}),
    ("median", [f(2, 4)], {"axis": [-1], "keepdims": True}),
    ("cumprod", [f(2, 3, 2)], {"axis": 1}),
    ("cumprod", [WITH_ZEROS.copy()], {"axis": -1}),
    ("cumprod", [WITH_ZEROS.copy()], {"axis": 1, "exclusive": True}),
    ("cumprod", [WITH_ZEROS.copy()], {}),
]
for method in ("nearest_neighbor", "linear", "cubic"):
    CASES += [
        ("image.resize1d", [f(1, 2, 5), Shape((3,))], {"method": method}),
        ("image.resize2d", [f(1, 3, 2, 2), Shape((5, 4))],
         {"method": method, "layout": "NHWC", "coordinate_transformation_mode": "align_corners"}),
    ]  # fmt: skip
CASES += [
    (
        "image.resize2d",
        [f(1, 1, 3, 4), Shape((5, 7))],
        {"scales": (1.8, 1.9), "method": "cubic", "cubic_exclude": True},
    ),
    ("image.resize3d", [f(1, 1, 2, 3, 2), Shape((3, 2, 2))], {}),
    ("nn.adaptive_avg_pool1d", [f(1, 2, 5)], {"output_size": 3}),
    ("nn.adaptive_avg_pool2d", [f(1, 5, 4, 2)], {"output_size": (2, 3), "layout": "NHWC"}),
    ("nn.adaptive_avg_pool3d", [f(1, 1, 3, 2, 2)], {"output_size": (2, 1, 2)}),
    ("nn.adaptive_avg_pool2d", [f(1, 1, 2, 2)], {}),
]

# ---- sampling, groups, tensors made

GRID, VOLUME = f(2, 2, 2, 3, low=-1.3, high=1.3), f(1, 3, 1, 2, 2, low=-1.3, high=1.3)
for padding in ("zeros", "border", "reflection"):
    for corners in (True, False):
        options = {"padding_mode": padding, "align_corners": corners}
        CASES.append(("image.grid_sample", [f(2, 2, 3, 4), GRID.copy()], options))
    CASES.append(("image.grid_sample", [f(1, 2, 2, 3, 2), VOLUME.copy()], {"padding_mode": padding, "layout": "NCDHW"}))
CASES += [
    ("image.grid_sample", [f(2, 2, 3, 4), GRID.copy()], {"method": "nearest"}),
    ("nn.grouped_matmul", [f(6, 3), f(3, 3, 2), np.array([2, 2, 5])], {}),
    ("full", [Shape((2, 3)), f()], {}),
    ("full_like", [f(2, 3), f()], {}),
]
