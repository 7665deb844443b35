"""R.nn.attention: blocks of rows and keys give what the plain formula gives, in memory that does not grow with the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unity
from unity.ffi.dtype import DataType
from unity.ir.build import const
from unity.ir.expr import Var
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.stmt import AllocBuffer
from unity.ir.walk import collect
from unity.script import parse
from unity.transform.relax.lowering.legalize_ops import legalize_ops

REF = OPS["R.nn.attention"].ref


def module(shapes: list[tuple[Any, ...]], options: str = "", dtypes: tuple[str, ...] = ("float32",) * 4) -> Any:
    def shown(shape: tuple[Any, ...]) -> str:
        return "(" + ", ".join([repr(d) if isinstance(d, str) else str(d) for d in shape]) + ",)"

    names = ("q", "k", "v", "bias")[: len(shapes)]
    params = ", ".join([f'{n}: R.Tensor({shown(s)}, "{d}")' for n, s, d in zip(names, shapes, dtypes)])
    return parse(f"""
@I.ir_module
class Module:
    @R.function
    def main({params}):
        with R.dataflow():
            made = R.nn.attention({", ".join(names)}{options})
            R.output(made)
        return made
""")


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def check(mod: Any, inputs: list[np.ndarray], interpret: bool = False, **options: Any) -> None:
    wanted = REF(*inputs, **options)
    found = unity.VirtualMachine(unity.compile(mod))["main"](*inputs).numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    if interpret:
        np.testing.assert_allclose(run(legalize_ops(mod), "main", *inputs), wanted, rtol=2e-5, atol=2e-5)


SIZES = [(1, 1), (1, 5), (3, 300), (8, 64), (9, 3), (16, 64), (17, 65), (70, 130), (64, 1)]
CONSTANT = {None: ((3, 300), (17, 65)), "TopLeft": ((17, 65),), "BottomRight": ((3, 300),)}


@pytest.mark.parametrize("causal", (None, "TopLeft", "BottomRight"))
def test_lengths(causal: str | None) -> None:
    options = "" if causal is None else f', causal_mask="{causal}", empty=0.0'
    given = {} if causal is None else {"causal_mask": causal, "empty": 0.0}
    symbolic = module([(2, "n", 2, 4), (2, "m", 2, 4), (2, "m", 2, 3)], options)
    program = unity.VirtualMachine(unity.compile(symbolic))["main"]
    for n, m in SIZES:
        inputs = arrays((2, n, 2, 4), (2, m, 2, 4), (2, m, 2, 3))
        wanted = REF(*inputs, **given)
        np.testing.assert_allclose(program(*inputs).numpy(), wanted, rtol=2e-5, atol=2e-5)
        if (n, m) in CONSTANT[causal]:
            check(module([a.shape for a in inputs], options), inputs, **given)


def test_interpreted_and_compiled() -> None:
    shapes = [(1, 18, 2, 2), (1, 3, 1, 2), (1, 3, 1, 2), (18, 3)]
    check(module(shapes), arrays(*shapes), interpret=True)
    shapes = [(1, 2, 2, 2), (1, 3, 1, 2), (1, 3, 1, 2)]
    check(module(shapes, ', causal_mask="TopLeft"'), arrays(*shapes), interpret=True, causal_mask="TopLeft")


@pytest.mark.parametrize(
    "layout,rows",
    [
        ("BHSD", 2), ("BHSD", 20), ("BSHD,BHSD,BSHD,BHSD", 2), ("BHSD,BSHD,BHSD,BSHD", 20), ("SBHD", 2),
        ("SB1HD,SB2HD,BHS0D,HSBD", 20), ("1BSDH,BSHD,DSBH,BSDH", 2),
    ],
)  # fmt: skip
def test_layouts(layout: str, rows: int) -> None:
    orders = layout.split(",") * (1 if "," in layout else 4)
    sizes = {"B": 2, "H": 4, "D": 3, **dict.fromkeys("012", 3)}
    shapes = [
        tuple([{**sizes, **own}[axis] for axis in order])
        for order, own in zip(orders, ({"S": rows}, {"S": 7, "H": 2}, {"S": 7, "H": 2, "D": 5}))
    ]
    check(module(shapes, f', layout="{layout}"'), arrays(*shapes), layout=layout)


@pytest.mark.parametrize("rows", (1, 4, 30))
def test_nothing_visible_and_not_a_number(rows: int) -> None:
    shapes = [(1, rows, 1, 4), (1, 70, 1, 4), (1, 70, 1, 4), (rows, 70)]
    q, k, v, bias = arrays(*shapes)
    bias[0] = -np.inf
    bias[:, :66] = -np.inf
    for options, given in (("", {}), (", empty=0.0", {"empty": 0.0})):
        check(module(shapes, options), [q, k, v, bias], **given)
    seen = np.isfinite(bias)
    check(module(shapes, dtypes=("float32",) * 3 + ("bool",)), [q, k, v, seen])
    k[0, 3], v[0, 69, 0, 1] = np.nan, np.inf
    check(module(shapes, ", empty=0.0"), [q, k, v, np.zeros_like(bias)], empty=0.0)
    check(module(shapes, dtypes=("float32",) * 3 + ("bool",)), [q, k, v, np.ones_like(seen)])


def test_high_scores_do_not_overflow() -> None:
    shapes = [(1, 20, 1, 4), (1, 200, 1, 4), (1, 200, 1, 4)]
    q, k, v = arrays(*shapes)
    check(module(shapes), [q * 1e3, k * 1e3, v])


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float64"))
def test_other_floats(dtype: str) -> None:
    shapes = [(1, 20, 2, 8), (1, 40, 2, 8), (1, 40, 2, 8)]
    kind = DataType(dtype).numpy
    inputs = [a.astype(kind) for a in arrays(*shapes)]
    found = unity.VirtualMachine(unity.compile(module(shapes, dtypes=(dtype,) * 3)))["main"](*inputs).numpy()
    wanted = REF(*[a.astype("float64") for a in inputs])
    small = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=small, atol=small)


def test_empty_tensors() -> None:
    for n, m in ((0, 4), (4, 0)):
        shapes = [(1, n, 2, 4), (1, m, 2, 4), (1, m, 2, 4)]
        inputs = arrays(*shapes)
        check(module(shapes, ", empty=0.0"), inputs, empty=0.0)
        dynamic = module([(1, "n", 2, 4), (1, "m", 2, 4), (1, "m", 2, 4)], ", empty=0.0")
        check(dynamic, inputs, empty=0.0)


def test_memory_does_not_grow_with_the_scores() -> None:
    lowered = legalize_ops(module([(1, "n", 2, 64), (1, "m", 2, 64), (1, "m", 2, 64)]))
    sizes = [a.buffer.shape for f in lowered.prim_funcs().values() for a in collect(f, AllocBuffer)]
    assert sizes and not any([isinstance(d, Var) or not hasattr(d, "value") for shape in sizes for d in shape])
    assert const(64, "int64").value == max([d.value for shape in sizes for d in shape])


def test_wrong_layout_and_bias() -> None:
    shapes = [(1, 3, 2, 4), (1, 3, 2, 4), (1, 3, 2, 4)]
    for wrong in ("SBHB", "BSH", "BSHD,BSHD", "BSHD,BSHD,BSHD,BS0HD", "0BSHD"):
        with pytest.raises(unity.UnityError, match="layout must be"):
            module(shapes, f', layout="{wrong}"')
    with pytest.raises(unity.UnityError, match="axis 1 of the query has no index 3"):
        module([(1, 3, 3, 2, 4), *shapes[1:]], ', layout="B3SHD,BSHD,BSHD,BSHD"')
    with pytest.raises(unity.UnityError, match="does not broadcast to the scores"):
        module([*shapes, (5, 3)])
