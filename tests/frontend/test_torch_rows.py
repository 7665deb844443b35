"""Every operator of torch that a row names, imported through the row alone, against torch itself."""

import numpy as np
import pytest

from unity.frontend.torch.context.context import overload
from unity.ir.op import OPS

torch = pytest.importorskip("torch")
import unity  # noqa: E402

RNG = np.random.default_rng(2)
SHAPES = [(3, 4), (4,), (1,)]
MATRICES = {"matmul": [(2, 3), (3, 2)], "mm": [(2, 3), (3, 2)], "bmm": [(2, 2, 3), (2, 3, 2)], "mv": [(2, 3), (3,)], "dot": [(3,), (3,)]}  # fmt: skip


def function_of(name):
    """The overload of torch; None where its library is not loaded."""
    space, op, form = overload(name).split(".")
    return getattr(getattr(getattr(torch.ops, space), op, None), form, None)


def inputs(row, name, function, dtype):
    low, high = row.domain
    shapes = iter(MATRICES.get(name, SHAPES))
    made = []
    for argument in function._schema.arguments:
        if str(argument.type) == "Tensor":
            array = (
                RNG.uniform(low, high, next(shapes)) if dtype.is_floating_point else RNG.integers(0, 5, next(shapes))
            )
            made.append(torch.tensor(array).to(dtype))
        elif argument.default_value is None:
            made.append(2)
    return made


def calls():
    """(name, function, inputs) of the first data type that torch takes."""
    for row in OPS.values():
        for name in row.torch:
            function = function_of(name)
            for dtype in (torch.float32, torch.int32, torch.bool) if function is not None else ():
                given = inputs(row, name, function, dtype)
                try:
                    function(*given)
                except (RuntimeError, NotImplementedError):
                    continue
                yield name, function, given
                break
            else:
                assert function is None, f"torch takes no sample of {name}"


class All(torch.nn.Module):
    def __init__(self, functions, counts):
        super().__init__()
        self.functions, self.counts = functions, counts

    def forward(self, *tensors):
        rest, made = list(tensors), []
        for function, numbers in zip(self.functions, self.counts):
            made.append(function(*[n if n is not None else rest.pop(0) for n in numbers]))
        return tuple(made)


def test_every_name():
    found = list(calls())
    assert len(found) > 90
    tensors = tuple([v for _, _, given in found for v in given if isinstance(v, torch.Tensor)])
    numbers = [[None if isinstance(v, torch.Tensor) else v for v in given] for _, _, given in found]
    model = All([f for _, f, _ in found], numbers).eval()
    compiled = unity.compile(model, example_inputs=tensors, strict=True)
    for (name, _, _), made, expected in zip(found, compiled(*tensors), model(*tensors), strict=True):
        torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
