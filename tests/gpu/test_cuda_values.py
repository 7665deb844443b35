"""Generated kernels on the emulated device: scalar code gives the bits of the processor's code, matrix instructions those of the
reference interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from device_choice import device_or_emulated
from device_programs import COUNT, FLOATS, INTEGERS, XY, device_function, matrix_programs, scalar_expressions, values
from emulated import Arrays
from test_cuda_instructions import ptx

import unity
from unity.ffi.dtype import DataType
from unity.ir import PrimFunc
from unity.script import parse
from unity.testing import emulated_gpu

pytestmark = pytest.mark.gpu


LANES = 72
"""Each of eight special numbers with each, and eight others."""


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Operands for so many lanes."""
    x, y = values(dtype, 1), values(dtype, 2)
    return np.append(np.repeat(x[:8], 8), x[: COUNT - 64]), np.append(np.tile(y[:8], 8), y[8 : COUNT - 56])


def on_device(func: PrimFunc, arrays: list[np.ndarray], arch: str = "sm_80", threads: int = 32) -> list[np.ndarray]:
    """The arrays after a kernel of one block, in which nothing is found wrong."""
    with device_or_emulated(arch):
        memory = Arrays()
        places = [memory.put(array) for array in arrays]
        memory.run(ptx(func, arch), "unity_kernel", (1,), (threads,), *places)
        return [memory.get(place, array.shape, array.dtype) for place, array in zip(places, arrays)]


def on_processor(lines: list[str], pointers: dict[str, str], arrays: list[np.ndarray]) -> None:
    """Fill arrays by compiled code for this machine."""
    params = ", ".join([f'{name}: T.Buffer((4096,), "{kind}")' for name, kind in pointers.items()])
    body = "\n".join([f"        {line}" for line in lines])
    func = parse(f"@T.prim_func\ndef main({params}):\n    for tx in range({LANES}):\n{body}\n")
    unity.VirtualMachine(unity.compile(func))["main"](*arrays)


def bits(array: np.ndarray, kind: str) -> np.ndarray:
    """The bits of numbers, one pattern for NaN."""
    if kind in FLOATS:
        array = np.where(np.isnan(array.astype("float64")), array.dtype.type(1), array)
    return array.view(f"u{array.itemsize}")


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_scalar_code_has_the_bits_of_the_processors(dtype: str) -> None:
    """All expressions of one type in one kernel."""
    found = {
        kind: [text for text in texts if "shuffle" not in text] for kind, texts in scalar_expressions(dtype).items()
    }
    lines = [f"Z_{kind}[{LANES * at} + tx] = {text}" for kind, texts in found.items() for at, text in enumerate(texts)]
    pointers = {"X": dtype, "Y": dtype, **{f"Z_{kind}": kind for kind in found}}
    arrays = [*pairs(dtype), *[np.zeros(COUNT, DataType(kind).numpy) for kind in found]]
    results = on_device(device_function("\n".join(lines), LANES, **pointers), arrays, threads=LANES)
    on_processor(lines, pointers, arrays)
    for (kind, expressions), made, wanted in zip(found.items(), results[2:], arrays[2:]):
        equal = bits(made, kind) == bits(wanted, kind)
        if kind == "float32":  # its reciprocal root is no quotient there: ``test_estimates.py``
            near = np.repeat(["T.rsqrt(" in text for text in expressions], LANES)[: len(equal)]
            with np.errstate(all="ignore"):
                equal |= np.pad(near, (0, len(equal) - len(near))) & (abs(made - wanted) <= np.spacing(abs(wanted)))
        same = equal[: LANES * len(expressions)].reshape(-1, LANES).all(axis=1)
        assert same.all(), [expressions[k] for k in np.flatnonzero(~same)]


def with_caller(func: PrimFunc) -> unity.IRModule:
    """A module in which ``main`` calls a kernel."""
    names = [param.name.removesuffix("_ptr") for param in func.params]
    params = ", ".join([f'{name}: T.Buffer((4096,), "{XY[name]}")' for name in names])
    kernel = "\n".join(
        [f"    {line}" for line in func.script().replace("def main(", "def kernel(").strip().split("\n")]
    )
    call = f"M.kernel({', '.join([f'{name}.data' for name in names])})"
    made = parse(f"@I.ir_module\nclass M:\n{kernel}\n\n    @T.prim_func\n    def main({params}):\n        {call}\n")
    assert isinstance(made, unity.IRModule)
    return made


def test_matrix_and_copy_instructions_give_what_the_interpreter_gives() -> None:
    draw = np.random.default_rng(0)
    x = draw.integers(-8, 8, COUNT).astype("float32")
    for instruction, func, _ in matrix_programs():
        if "u8" in func.script() or "uint8" in func.script():
            arrays = [np.abs(x), np.zeros(COUNT, "float32")]
        else:
            arrays = [x, np.zeros(COUNT, "float32")]
        expected = [array.copy() for array in arrays]
        unity.check_gpu(with_caller(func), *expected, name="main", traffic=False).raise_if_failed()
        made = on_device(func, arrays)
        assert (made[1] == expected[1]).all(), (instruction, func.script())
        assert expected[1].any()


@pytest.mark.parametrize("dtype", [*FLOATS[:4], *INTEGERS[:-1]])
def test_atomic_sums(dtype: str) -> None:
    """Types that the device has no instruction for are exchanged in a loop."""
    arrays = [np.zeros(COUNT, DataType(dtype).numpy), np.arange(COUNT).astype(DataType(dtype).numpy)]
    made = on_device(device_function("T.atomic_add(T.address_of(X[tx % 3]), Y[tx])", X=dtype, Y=dtype), arrays)
    sums = np.array([sum(range(k, 32, 3)) for k in range(3)])
    assert (made[0][:3] == sums.astype(DataType(dtype).numpy)).all()


SMALL = """
@T.prim_func
def main(Y: T.Buffer(({n},), "{dtype}")):
    for t in T.thread_binding(32, "threadIdx.x"):
        S = T.alloc_buffer(({n},), "{dtype}", scope="shared")
        if t < {n} - {less}:
            S[t] = T.{dtype}(1)
        T.tvm_storage_sync("shared")
        T.atomic_add(T.address_of(S[t % ({n} - {less})]), T.{dtype}(1))
        T.tvm_storage_sync("shared")
        if t < {n} - {less}:
            T.atomic_add(T.address_of(Y[t]), S[t])
"""


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_atomic_sums_of_few_numbers(dtype: str, n: int) -> None:
    """Nothing beside them is needed: the last ones may end between words, and nobody has written their neighbours."""
    for less in (0, 1) if n > 1 else (0,):
        with device_or_emulated(traffic=False):
            y = unity.tensor(np.zeros(n, DataType(dtype).numpy), device=unity.cuda(0))
            program = unity.compile(parse(SMALL.format(n=n, dtype=dtype, less=less)), target="cuda")
            unity.VirtualMachine(program, unity.cuda(0))["main"](y)
            wanted = np.append(1 + np.bincount(np.arange(32) % (n - less)), np.zeros(less))
            assert (y.numpy().astype("float32") == wanted).all()


def test_an_atomic_sum_with_what_nobody_wrote_is_found() -> None:
    text = SMALL.format(n=3, dtype="int8", less=0).replace(
        "if t < 3 - 0:\n            S[t]", "if t < 2:\n            S[t]"
    )
    with emulated_gpu() as gpu:
        y = unity.tensor(np.zeros(3, "int8"), device=unity.cuda(0))
        unity.VirtualMachine(unity.compile(parse(text), target="cuda"), unity.cuda(0))["main"](y)
        unity.cuda(0).sync()
        assert [finding.kind for finding in gpu.findings][:1] == ["uninitialised"]
