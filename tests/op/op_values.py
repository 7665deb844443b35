"""Makers of test inputs, from one seeded generator."""

import numpy as np

RNG = np.random.default_rng(7)


class Shape(tuple):
    """A shape argument."""


def f(*shape, dtype="float32", low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(dtype)


def i(*shape, dtype="int32", low=-5, high=6):
    return RNG.integers(low, high, shape).astype(dtype)


def b(*shape):
    return RNG.integers(0, 2, shape).astype(bool)
