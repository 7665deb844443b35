"""Inputs for image operators."""

import numpy as np
from op_values import Shape, f, i

CASES = []
for method in ("nearest_neighbor", "linear", "cubic"):
    for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
        CASES += [
            ("image.resize2d", [f(1, 2, 4, 5), Shape(size)], {"method": method, "coordinate_transformation_mode": mode})
            for size in ((7, 3), (1, 10))
        ]
CASES += [
    (
        "image.resize2d",
        [i(1, 5, 3, 2), Shape((4, 6))],
        {"method": "nearest_neighbor", "layout": "NHWC", "rounding_method": r},
    )
    for r in ("round", "round_prefer_floor", "floor", "ceil")
]
CASES += [
    ("image.resize2d", [f(1, 1, 3, 3), Shape((5, 2))], {"method": "cubic", "cubic_alpha": -0.5, "cubic_exclude": True}),
    ("image.resize2d", [f(1, 1, 3, 3, dtype="float16"), Shape((5, 2))], {}),
    ("image.resize2d", [f(1, 1, 3, 3), Shape((0, 2))], {}),
]
for corners in (True, False):
    CASES += [("image.affine_grid", [f(2, 2, 3), Shape(s)], {"align_corners": corners}) for s in ((3, 4), (1, 1))]
    for padding in ("zeros", "border", "reflection"):
        for method in ("bilinear", "nearest", "bicubic"):
            CASES.append(
                (
                    "image.grid_sample",
                    [f(2, 2, 4, 3), f(2, 2, 3, 2)],
                    {"method": method, "padding_mode": padding, "align_corners": corners},
                )
            )
CASES += [
    ("image.grid_sample", [f(1, 1, 1, 1), f(1, 2, 2, 2)], {"padding_mode": "reflection"}),
    (
        "image.grid_sample",
        [f(1, 1, 3, 3), np.array([np.inf, -np.inf, 5, -1], "float32").reshape(1, 2, 1, 2)],
        {"method": "nearest"},
    ),
]
