"""``R.layout_transform``: script and back, shapes, elements against numpy, padding, refusals."""

import numpy as np
import pytest

import unity
from unity import op
from unity.ir.build import const
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.relation import tensor_type
from unity.ir.structural import structural_equal
from unity.ir.types import prim_type
from unity.script import parse
from unity.support.errors import UnityError
from unity.transform.relax.params.bind_params import bind_symbolic_vars

TEXT = """
from tvm.script import ir as I, relax as R, tir as T
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor({shape}, "{dtype}")):
        {symbols}
        y = R.layout_transform(x, index_map={map}{pad})
        return y
"""
BLOCKED = "lambda n, c, h, w: (n, c // 4, h, w, c % 4)"
MAPS = {
    BLOCKED: (4, lambda n, c, h, w: (n, c // 4, h, w, c % 4)),
    "lambda i, j: (j, i)": (2, lambda i, j: (j, i)),
    "T.index_map(lambda i, j: (i * 3 + j,))": (2, lambda i, j: (i * 3 + j,)),
    "lambda i: (i // 4, i % 4)": (1, lambda i: (i // 4, i % 4)),
    "lambda i: i": (1, lambda i: (i,)),
    "lambda i, j: (i // 2, j // 3, i % 2, j % 3)": (2, lambda i, j: (i // 2, j // 3, i % 2, j % 3)),
    "lambda i: (0, i)": (1, lambda i: (0, i)),
}


def module(map, shape, dtype="float32", pad=None, symbols=()):
    declared = "; ".join(f"{s} = T.int64()" for s in symbols) or "pass"
    given = "" if pad is None else f", pad_value={pad}"
    dims = f"({', '.join(str(n) for n in shape)},)"
    return parse(
        TEXT.format(map=map, shape=dims, dtype=dtype, pad=given, symbols=declared).replace("        pass\n", "")
    )


@pytest.mark.parametrize("text", MAPS)
@pytest.mark.parametrize("pad", [None, 7])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_elements(text, pad, dtype):
    rank, make = MAPS[text]
    for shape in [(2, 5, 3, 1)[4 - rank :] if rank < 4 else (2, 5, 3, 1), (8, 3)[:rank] if rank < 3 else (1, 8, 2, 2)]:
        if "i * 3" in text:
            shape = (shape[0] + 1, 3)
        x = np.random.default_rng(0).integers(1, 100, shape).astype(dtype)
        mod = module(text, shape, dtype, pad)
        assert structural_equal(parse(mod.script()), mod)
        found = unity.VirtualMachine(unity.compile(mod))["main"](x).numpy()
        assert found.dtype == x.dtype and found.shape == tuple(int(n.value) for n in mod["main"].ret_ty.shape.values)
        rest = found.copy()
        for at in np.ndindex(*shape):
            assert found[make(*at)] == x[at]
            rest[make(*at)] = 0 if pad is None else pad
        assert (rest == (0 if pad is None else pad)).all()
        np.testing.assert_array_equal(np.asarray(run(mod, "main", x)), found)


def test_symbolic_sizes_and_their_values():
    mod = module(BLOCKED, ("n", "c", "2", "w"), pad=-1.5, symbols="ncw")
    assert structural_equal(parse(mod.script()), mod)
    machine = unity.VirtualMachine(unity.compile(mod))
    for shape in [(1, 4, 2, 3), (2, 5, 2, 1), (1, 1, 2, 2), (0, 3, 2, 2), (1, 0, 2, 1)]:
        x = np.random.default_rng(1).standard_normal(shape).astype("float32")
        found = machine["main"](x).numpy()
        padded = np.full((shape[0], -(-shape[1] // 4) * 4, *shape[2:]), -1.5, "float32")
        padded[:, : shape[1]] = x
        wanted = padded.reshape(shape[0], -1 if shape[1] and shape[0] else padded.shape[1] // 4, 4, *shape[2:])
        np.testing.assert_array_equal(found, wanted.transpose(0, 1, 3, 4, 2))
        fixed = bind_symbolic_vars.with_options(symbols=dict(zip("ncw", (shape[0], shape[1], shape[3]))))(mod)
        assert unity.VirtualMachine(unity.compile(fixed))["main"](x).shape == found.shape


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("shape", [(2, 8, 3, 1), (1, 5, 2, 2)])
def test_the_gradient_is_the_adjoint(shape, symbolic):
    sizes = [unity.ir.Var(f"n{k}", prim_type("int64")) if symbolic else const(n, "int64") for k, n in enumerate(shape)]
    x = unity.ir.Var("x", tensor_type(sizes, "float64"))
    call = op.layout_transform(x, MAPS[BLOCKED][1], 3.0)
    g = unity.ir.Var("g", call.ty)
    bb = unity.BlockBuilder()
    with bb.function("main", [x, g]):
        found = bb.emit(OPS["R.layout_transform"].grad(call, g)[0])
        bb.emit_func_output(unity.ir.Tuple((bb.emit(op.layout_transform(x, MAPS[BLOCKED][1])), found)))
    a = np.random.default_rng(0).standard_normal(shape)
    b = np.random.default_rng(1).standard_normal((shape[0], -(-shape[1] // 4), *shape[2:], 4))
    made, back = [v.numpy() for v in unity.VirtualMachine(unity.compile(bb.get()))["main"](a, b)]
    assert back.shape == shape
    np.testing.assert_allclose((made * b).sum(), (a * back).sum(), rtol=1e-12)


def test_python_functions_as_maps():
    x = unity.ir.Var("x", tensor_type([const(6, "int64")], "float32"))
    call = op.layout_transform(x, lambda *i: (i[0] % 3, i[0] // 3))
    assert str(call.ty) == 'R.Tensor((3, 2), "float32")'


@pytest.mark.parametrize(
    "text, shape, code",
    [
        ("lambda i: (i, i)", (4,), "E208"),
        ("lambda i, j: (i + j,)", (4, 4), "E208"),
        ("lambda i: (i // 4,)", (8,), "E208"),
        ("lambda i, j: (i, j)", (4,), "E212"),
        ("lambda *i: (0,)", (4,), "E112"),
        ("lambda i: (i * 1.5,)", (4,), None),
        ("3", (4,), "E214"),
    ],
)
def test_what_is_no_layout(text, shape, code):
    with pytest.raises(UnityError) as caught:
        module(text, shape)
    assert code is None or caught.value.code == code
