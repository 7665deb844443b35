"""Sizes nobody can prove are checked at run time: the interpreter and both modes of the VM refuse the same calls."""

import numpy as np
import pytest

import unity
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import UnityError
from unity.transform.relax.normalize.check_shapes import check_shapes
from unity.vm.native.run import Callbacks

F, L = "float32", "int64"


def program(params, result, declares=""):
    body = [line for line in declares.split("\n") if line] + [f"return {result}"]
    lines = ["@I.ir_module", "class M:", "    @R.function", f"    def main({', '.join(params)}):"]
    return "\n".join([*lines, *["        " + line for line in body]])


def tensor(name, shape, dtype=F):
    return f'{name}: R.Tensor({shape}, "{dtype}")'


VECTOR, OTHER = tensor("x", '("n",)'), tensor("y", '("m",)')
MATRIX, PICK = tensor("x", '("n", "a")'), tensor("i", '("k",)', L)
PLACES = tensor("i", '("m", "b")', L)

UPDATES = tensor("u", '("j",)')

CASES = [
    # name, parameters, result, shapes that fit, shapes that do not
    ("matmul", [MATRIX, tensor("y", '("b", "m")')], "R.matmul(x, y)", [(2, 3), (3, 4)], [(2, 30), (3, 4)]),
    ("take", [MATRIX, PICK], "R.take(x, i, axis=0)", [(2, 3), (5,)], [(0, 3), (5,)]),
    ("take nothing", [MATRIX, PICK], "R.take(x, i, axis=0)", [(0, 3), (0,)], None),
    ("take wrap", [VECTOR, PICK], 'R.take(x, i, mode="wrap")', [(2,), (5,)], [(0,), (5,)]),
    ("gather", [MATRIX, PLACES], "R.gather_elements(x, i, axis=1)", [(2, 3), (2, 9)], [(2, 3), (400, 3)]),
    ("gather of nothing", [MATRIX, PLACES], "R.gather_elements(x, i, axis=1)", [(2, 3), (0, 9)], [(2, 0), (2, 3)]),
    ("gather_nd", [MATRIX, tensor("i", '("k", 2)', L)], "R.gather_nd(x, i)", [(2, 3), (4, 2)], [(2, 0), (4, 2)]),
    ("scatter_nd", [VECTOR, tensor("i", '("k", 1)', L), UPDATES], "R.scatter_nd(x, i, u)",
     [(4,), (3, 1), (3,)], [(4,), (3, 1), (2,)]),
    ("scatter_elements", [VECTOR, PICK, UPDATES], "R.scatter_elements(x, i, u, axis=0)",
     [(4,), (3,), (5,)], [(4,), (300,), (2,)]),
    ("scatter into nothing", [VECTOR, PICK, UPDATES], "R.scatter_elements(x, i, u, axis=0)",
     [(4,), (0,), (5,)], [(0,), (3,), (3,)]),
    ("index_put", [VECTOR, PICK, UPDATES], "R.index_put(x, (i,), u)", [(4,), (3,), (3,)], [(4,), (300,), (2,)]),
    ("nll", [MATRIX, tensor("t", '("m",)', L)], 'R.nn.nll_loss(x, t, reduction="none")', [(2, 3), (2,)], [(2, 3), (200,)]),
    ("resize", [tensor("x", '(1, 1, "n", "m")')], "R.image.resize2d(x, R.shape([3, 3]))", [(1, 1, 2, 2)], [(1, 1, 0, 2)]),
    ("reflect", [MATRIX], 'R.nn.pad(x, pad_width=(0, 0, 2, 2), pad_mode="reflect")', [(2, 3)], [(2, 2)]),
    ("circular", [MATRIX], 'R.nn.pad(x, pad_width=(0, 0, 2, 2), pad_mode="circular")', [(2, 2)], [(2, 0)]),
    ("argmax", [MATRIX], "R.argmax(x, axis=0)", [(2, 3)], [(0, 3)]),
    ("max of nothing", [MATRIX], "R.max(x, axis=0)", [(0, 3)], None),
    ("min of nothing", [tensor("x", '("n", 2)', L)], "R.min(x, axis=0)", [(0, 2)], None),
    ("rms_norm", [MATRIX, tensor("g", '("m",)')], "R.nn.rms_norm(x, g, axes=[-1])", [(2, 3), (3,)], [(2, 300), (3,)]),
]  # fmt: skip
ANNOTATED = [
    ("annotation", program([VECTOR, OTHER], "z", 'm = T.int64()\nz: R.Tensor((m,), "float32") = R.exp(x)')),
    ("pair", program([VECTOR, OTHER], "z", 'm = T.int64()\nz: R.Tuple(R.Tensor((m,), "float32"), R.Object) = (R.exp(x), y)')),
    ("result", program([VECTOR, OTHER], "R.exp(x)").replace("):\n        ret", ') -> R.Tensor(("m",), "float32"):\n        ret')),
]  # fmt: skip
ALL = [(name, program(params, result), right, wrong) for name, params, result, right, wrong in CASES]
ALL += [(name, text, [(3,), (3,)], [(3,), (4,)]) for name, text in ANNOTATED]


def arguments(mod, shapes):
    made = []
    for param, shape in zip(mod["main"].params, shapes):
        dtype = param.ty.dtype.numpy
        made.append(np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape) % 7)
    return made


def flat(value):
    parts = value if isinstance(value, (tuple, list)) else [value]
    return [np.asarray(part) for part in parts]


@pytest.mark.parametrize("case", ALL, ids=[case[0] for case in ALL])
def test_what_is_not_proved_is_checked(case, monkeypatch):
    name, text, right, wrong = case
    asked, check = [], Callbacks.recheck
    monkeypatch.setattr(Callbacks, "recheck", lambda self, *what: asked.append(what) or check(self, *what))
    mod = parse(text)
    executable = unity.compile(mod)
    given = arguments(mod, right)
    expected = flat(run(mod, "main", *given))
    for mode in ("bytecode", "native"):
        vm = unity.VirtualMachine(executable, exec_mode=mode)
        for _ in range(2):
            for got, want in zip(flat(vm["main"](*given)), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5)
            assert (
                name == "pair" or not asked
            )  # sizes are compared in machine code; Python tells what is wrong with them
            if wrong is not None:
                with pytest.raises(UnityError) as caught:
                    vm["main"](*arguments(mod, wrong))
                asked.clear()
                assert caught.value.code in ("E607", "E608")  # a symbol, or a formula of symbols
    if wrong is not None:
        with pytest.raises(UnityError):
            run(mod, "main", *arguments(mod, wrong))


@pytest.mark.parametrize(
    "result",
    [
        "R.take(R.zeros(R.shape([0, 3]), \"float32\"), i, axis=0)",
        "R.gather_elements(R.zeros(R.shape([0]), \"float32\"), i, axis=0)",
        "R.scatter_elements(R.zeros(R.shape([9]), \"float32\"), R.zeros(R.shape([4]), \"int64\"), R.zeros(R.shape([3]), \"float32\"))",
        "R.index_put(R.zeros(R.shape([9]), \"float32\"), (i,), R.zeros(R.shape([4]), \"float32\"))",
    ],
)  # fmt: skip
def test_known_sizes_are_refused_while_reading(result):
    with pytest.raises(UnityError) as caught:
        parse(program([tensor("i", "(3,)", L)], result))
    assert "E213" in str(caught.value)


def test_what_is_proved_costs_no_check():
    params = [MATRIX, tensor("y", '("a", "m")'), PICK]
    mod = parse(program(params, "R.matmul(R.take(x, i, axis=1), R.take(y, i, axis=0))"))
    assert (
        check_shapes(mod).script().count("match_cast") == 2
    )  # elements along a for either take; the inner sizes are k


def test_a_bound_is_told_with_the_size_that_breaks_it():
    vm = unity.VirtualMachine(
        unity.compile(
            parse("""
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    y = R.argmax(x, 1)
    return y
""")
        )
    )
    with pytest.raises(UnityError, match=r"expected max\(1, m\) = 1, got 0"):
        vm["main"](np.zeros((2, 0), "float32"))
