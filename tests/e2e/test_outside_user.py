"""What a user from outside tried: joined tensors of any number and size, vectors in buffers, wide tuples, caches switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from growth import assert_grows_at_most

import unity
from unity.ir import IRModule, interpret
from unity.script import parse, relax as R, tir as T
from unity.support.errors import CodegenError


def _joined(kind: str, shapes: list[tuple[int, ...]], axis: int) -> IRModule:
    params = ", ".join([f'x{i}: R.Tensor({shape}, "float32")' for i, shape in enumerate(shapes)])
    names = "".join([f"x{i}, " for i in range(len(shapes))])
    text = f"@R.function\ndef main({params}):\n    return R.negative(R.{kind}(({names}), axis={axis}))\n"
    return IRModule.from_expr(parse(text))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_pieces_of_any_number_and_size(count: int, axis: int) -> None:
    data = np.random.default_rng(count)
    sizes = [int(data.integers(0, 4)) for _ in range(count - 1)] + [2]
    shapes = [tuple([size if a == axis % 3 else 3 + a for a in range(3)]) for size in sizes]
    given = [data.standard_normal(shape).astype("float32") for shape in shapes]
    vm = unity.VirtualMachine(unity.compile(_joined("concat", shapes, axis)))
    np.testing.assert_array_equal(vm["main"](*given).numpy(), -np.concatenate(given, axis))
    given = [data.standard_normal((2, 3)).astype("float32") for _ in range(count)]
    vm = unity.VirtualMachine(unity.compile(_joined("stack", [(2, 3)] * count, axis)))
    np.testing.assert_array_equal(vm["main"](*given).numpy(), -np.stack(given, axis))


@R.function
def symbolic_pieces(
    x: R.Tensor(("n", "a"), "float32"), y: R.Tensor(("n", "b"), "float32"), z: R.Tensor(("n", "c"), "float32")
):
    return R.concat((x, y, z, x), axis=1)


def test_pieces_of_symbolic_sizes() -> None:
    vm = unity.VirtualMachine(unity.compile(IRModule.from_expr(symbolic_pieces)))
    for rows, sizes in ((0, (1, 2, 3)), (1, (0, 0, 0)), (5, (0, 7, 0)), (300, (40, 1, 3))):
        x, y, z = [np.random.default_rng(rows).standard_normal((rows, size)).astype("float32") for size in sizes]
        np.testing.assert_array_equal(vm["symbolic_pieces"](x, y, z).numpy(), np.concatenate([x, y, z, x], 1))


@T.prim_func
def pairs(A: T.Buffer((8,), "float32"), B: T.Buffer((2, 2), "float32x2")):
    for i, j in T.grid(2, 2):
        B[i, j] = T.Shuffle([A[i * 4 + j * 2 + 1], A[i * 4 + j * 2]], [0, 1])


def test_buffers_of_vectors_are_arrays_of_their_elements() -> None:
    given, result, expected = np.arange(8, dtype="float32"), np.zeros((2, 4), "float32"), np.zeros((2, 4), "float32")
    unity.compile(IRModule.from_expr(pairs))["pairs"](given, result)
    interpret.run(pairs, "pairs", given, expected)
    np.testing.assert_array_equal(result, [[1, 0, 3, 2], [5, 4, 7, 6]])
    np.testing.assert_array_equal(expected, result)


@T.prim_func
def handed_on(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32"), n: T.int64):
    C = T.alloc_buffer((2, 3), "float32")
    D = T.alloc_buffer((n, 3), "float32")
    T.evaluate(T.call_packed("outside_user.double", A, C))
    for i, j in T.grid(n, 3):
        D[i, j] = C[i, j] + T.float32(1)
    T.evaluate(T.call_packed("outside_user.double", D, B))


def test_registered_functions_get_buffers_in_their_shape() -> None:
    def double(source: unity.Tensor, target: unity.Tensor) -> None:
        assert source.shape == target.shape == (2, 3)
        np.multiply(source, 2, out=np.asarray(target))

    unity.register_func("outside_user.double", double, override=True)
    given, result, expected = np.arange(6, dtype="float32").reshape(2, 3), *np.zeros((2, 2, 3), "float32")
    unity.compile(IRModule.from_expr(handed_on))["handed_on"](given, result, 2)
    interpret.run(handed_on, "handed_on", given, expected, 2)
    np.testing.assert_array_equal(result, 4 * given + 2)
    np.testing.assert_array_equal(expected, result)


@T.prim_func
def unknown_vectors(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32x4")
    A[0] = T.Broadcast(T.float32(1), 4)


def test_vectors_in_an_unknown_number_are_refused() -> None:
    with pytest.raises(CodegenError, match="its last extent must be a constant"):
        unity.compile(IRModule.from_expr(unknown_vectors))


def wide(width: int) -> Callable[[], IRModule]:
    fields = "".join(["x, " for _ in range(width)])
    lines = "".join([f"    a{i} = t[{i}]\n" for i in range(width)])
    result = "".join([f"a{i}, " for i in range(width)])
    text = f'@R.function\ndef main(x: R.Tensor((4,), "float32")):\n    t = ({fields})\n{lines}    return ({result})\n'
    mod = IRModule.from_expr(parse(text))
    steps = unity.transform.Pipeline.parse("legalize_ops,dead_code,to_non_dataflow,plan_memory,kill_after_last_use")
    return lambda: steps(mod)


def test_wide_tuples_take_linear_time() -> None:
    assert_grows_at_most(9, wide(400), wide(1600))  # 16 times where it is quadratic


@pytest.mark.parametrize("text", ["0", "false", "off"])
def test_caches_are_switched_off(text: str, tmp_path: Path) -> None:
    program = "import unity; from unity.script import parse; parse('@R.function\\ndef f(x: R.Tensor((2,), \"int8\")):\\n    return x\\n')"
    environment = os.environ | {"UNITY_CACHE": text, "PYTHONPATH": os.pathsep.join([p for p in sys.path if p])}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment, timeout=100)
    assert list(tmp_path.iterdir()) == []
