"""Inputs for gradients of factorisations, recurrent layers and of operators that move or choose elements, in float64."""

import numpy as np

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
