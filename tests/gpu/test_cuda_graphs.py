"""Graph functions that are captured as CUDA graphs: results as without, whatever moves between the calls; what cannot be captured."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_choice import device_or_emulated
from emulated import Arrays
from hypothesis import given, settings, strategies as st
from test_devices_emulated import SCALE, THREE, three
from test_emulated_driver import COPY

import unity
from unity import UnityError, VirtualMachine
from unity.ffi.cuda.context import CAPTURES, context
from unity.ffi.cuda.graph import Graph, capture
from unity.ffi.cuda.memory import release_pool
from unity.ffi.cuda.module import Module
from unity.script import parse
from unity.transform import PassContext
from unity.vm.captured import MAX_GRAPHS

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu() -> Iterator[Any]:
    with device_or_emulated(launched=False, races=False, traffic=False) as made:
        yield made
        assert not CAPTURES


@cache
def compiled() -> Any:
    return unity.compile(THREE, target="cuda")


@pytest.fixture
def executable() -> Any:
    return compiled()


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The streams on which graphs were launched."""
    seen: list[int] = []
    launch = Graph.launch

    def noted(self: Graph) -> None:
        seen.append(self.context.stream())
        launch(self)

    monkeypatch.setattr(Graph, "launch", noted)
    return seen


CALLS = st.lists(st.tuples(st.sampled_from([1, 40]), st.integers(0, 3), st.integers(0, 1)), min_size=4, max_size=10)


@settings(max_examples=6, deadline=None)
@given(CALLS, st.sampled_from(["native", "bytecode"]))
def test_results_are_those_of_plain_calls(calls: list[tuple[int, int, int]], mode: str) -> None:
    """Sizes, places of the arguments (0: the host) and streams in any order; earlier results stay as they are."""
    with device_or_emulated(races=False, traffic=False) as gpu:
        vm = VirtualMachine(compiled(), unity.cuda(0), mode, cuda_graph=True)
        streams = [0, unity.cuda(0).create_raw_stream()]
        places = {
            (n, k): unity.tensor(np.zeros(n, np.float32), device=unity.cuda(0)) for n in (1, 40) for k in (1, 2, 3)
        }
        made = []
        for number, (n, place, stream) in enumerate(calls):
            x = np.arange(n, dtype=np.float32) + number
            with unity.cuda(0).use_stream(streams[stream]):
                made.append((vm["main"](places[n, place].copyfrom(x) if place else x), three(x)))
            assert gpu is None or {launch.stream for launch in gpu.launches[-3:]} == {streams[stream]}
        assert all((y.numpy() == expected).all() for y, expected in made)


def test_one_launch_and_copies_for_what_moves_alone(gpu: Any, executable: Any, replays: list[int]) -> None:
    vm = VirtualMachine(executable, unity.cuda(0), cuda_graph=True)
    x, y = [unity.tensor(np.arange(40, dtype=np.float32) + k, device=unity.cuda(0)) for k in range(2)]
    for given_, count in ((x, 0), (x, 1), (x, 2), (y, 3), (x, 4)):
        vm["main"](given_)
        assert len(replays) == count
    (sizes,) = vm["main"].func.known.values()
    assert sizes.copied == {0} and sizes.inputs[0].data_ptr not in (x.data_ptr, y.data_ptr)
    out = unity.runtime.empty((40,), "float32", unity.cuda(0))
    assert vm["main"](x, out=out) is out and (out.numpy() == three(x.numpy())).all()
    for n in range(1, MAX_GRAPHS + 3):
        vm["main"](np.zeros(n, np.float32))
    assert len(vm["main"].func.known) == MAX_GRAPHS
    with pytest.raises(UnityError, match="float64"):
        vm["main"](np.zeros(40))


def test_the_memory_of_a_graph_is_its_own(gpu: Any, executable: Any) -> None:
    """What is allocated, written and dropped between calls, larger arenas among it, changes nothing; all goes back in the end."""
    gc.collect()
    held = context(0).held
    vm = VirtualMachine(executable, unity.cuda(0), cuda_graph=True)
    x = unity.tensor(np.arange(40, dtype=np.float32), device=unity.cuda(0))
    for n in (0, 0, 400, 400, 0, 4000, 4000, 0):
        other = [unity.tensor(np.full(n or 40, 7, np.float32), device=unity.cuda(0)) for _ in range(4)]
        vm["main"](other[0])
        assert (vm["main"](x).numpy() == three(x.numpy())).all()
        del other
    del vm, x
    gc.collect()
    assert context(0).held == held


def test_memory_of_graphs_that_ended_is_used_again(
    gpu: Any, executable: Any, replays: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph's memory belongs to the stream that captured it, and is dropped on the user's: the next capture waits for nothing."""
    gc.collect()
    monkeypatch.setattr(context(0).driver, "recycles", True)
    for _ in range(3):
        vm = VirtualMachine(executable, unity.cuda(0), cuda_graph=True)
        x = unity.tensor(np.arange(40, dtype=np.float32), device=unity.cuda(0))
        for _ in range(3):
            assert (vm["main"](x).numpy() == three(x.numpy())).all()
        del vm
        gc.collect()
    assert len(replays) == 6
    release_pool(context(0))


def test_arguments_that_are_written_are_written(gpu: Any) -> None:
    text = f"""
@I.ir_module
class M:
{SCALE}
    @R.function(pure=False)
    def main(x: R.Tensor((40,), "float32"), cache: R.Tensor((40,), "float32")):
        y = R.call_tir(cls.scale, (x,), out_sinfo=R.Tensor((40,), "float32"))
        z = R.call_tir_inplace(cls.scale, (y, cache), inplace_indices=[1], out_sinfo=R.Tensor((40,), "float32"))
        return z
"""
    vm = VirtualMachine(unity.compile(parse(text), target="cuda"), unity.cuda(0), cuda_graph=True)
    for k in range(6):
        x = np.arange(40, dtype=np.float32) + k
        if k % 3 == 0:
            cache = unity.tensor(np.zeros(40, np.float32), device=unity.cuda(0))
        vm["main"](x, cache)
        assert (cache.numpy() == (x * 2 + 1) * 2 + 1).all()
        here = np.zeros(40, np.float32)
        vm["main"](x, here)
        assert (here == cache.numpy()).all()


@pytest.mark.parametrize(
    "body, words",
    [
        (
            'R.call_packed("test.graphs.f", x, sinfo_args=R.Tensor((4,), "float32"))',
            "the registered function test.graphs.f",
        ),
        ("R.unique(x)", "the operation unique on the host"),
        ("cls.inner(x)", "the operation print on the host"),
        (
            'R.call_tir(cls.host, (x,), out_sinfo=R.Tensor((4,), "float32"))',
            "the tensor program host, which runs on the host",
        ),
    ],
)
def test_what_cannot_be_captured(gpu: Any, body: str, words: str) -> None:
    text = f"""
@I.ir_module
class M:
    @T.prim_func(private=True)
    def host(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({{"target": T.target("llvm")}})
        for i in range(4):
            y[i] = x[i]

    @R.function(private=True, pure=False)
    def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        _ = R.print(x, format="{{}}")
        return x

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        y = {body}
        return y
"""
    with PassContext(config={"relax.backend.use_cuda_graph": True}):
        made = unity.compile(parse(text), target="cuda")
    with pytest.raises(UnityError, match=words) as refused:
        VirtualMachine(made, unity.cuda(0))["main"]
    assert refused.value.code == "E639"
    VirtualMachine(made, unity.cuda(0), cuda_graph=False)["main"]


def test_conditions_on_tensors_and_hosts_are_refused(gpu: Any) -> None:
    text = """
@R.function
def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
    if c:
        y = R.exp(x)
    else:
        y = R.negative(x)
    return y
"""
    with pytest.raises(UnityError, match="a condition on a tensor") as refused:
        VirtualMachine(unity.compile(parse(text), target="cuda"), unity.cuda(0), cuda_graph=True)["main"]
    assert refused.value.code == "E639"
    with pytest.raises(UnityError, match="a cpu device has no graphs") as refused:
        VirtualMachine(unity.compile(parse(text)), cuda_graph=True)["main"]
    assert refused.value.code == "E639"


def test_the_option_is_saved(gpu: Any, tmp_path: Path, replays: list[int]) -> None:
    with PassContext(config={"relax.backend.use_cuda_graph": True}):
        made = unity.compile(THREE, target="cuda")
    made.save(tmp_path / "three.unity")
    assert "cuda_graph" not in unity.compile(THREE, target="cuda").options
    for trust in (True, False):
        main = unity.load(tmp_path / "three.unity", trust)["main"]
        replays.clear()
        for _ in range(3):
            assert (main(np.ones(4, np.float32)).numpy() == 15).all()
        assert len(replays) == 2


def test_the_driver_captures(gpu: Any) -> None:
    """Nothing runs before the graph is launched, with the arguments that it was captured with; waiting spoils a capture."""
    arrays, here = Arrays(), context(0)
    driver = here.driver
    module = Module(here, COPY.encode())
    function, (start, between, end) = module.function("copy"), [arrays.put(np.full(64, k, np.uint32)) for k in range(3)]
    places = [ctypes.c_uint64(start), ctypes.c_uint64(between)]

    def work() -> str:
        here.launching.__enter__()
        given_ = (ctypes.c_void_p * 2)(*map(ctypes.addressof, places))
        driver.call("cuLaunchKernel", function, 1, 1, 1, 64, 1, 1, 0, here.stream(), given_, None)
        driver.call("cuMemcpyDtoDAsync_v2", end, between, 256, here.stream())
        driver.call("cuMemsetD8Async", between, 0, 4, here.stream())
        here.launching.__exit__()
        return "made"

    made, graph = capture(here, work)
    places[0].value = 0
    assert made == "made" and not (gpu and gpu.launches) and (arrays.get(end, 64, np.uint32) == 2).all()
    for _ in range(2):
        graph.launch()
    assert gpu is None or len(gpu.launches) == 2
    assert (arrays.get(end, 64, np.uint32) == arrays.get(end, 64, np.uint32)[0]).all()
    assert arrays.get(between, 64, np.uint32)[0] == 0 and arrays.get(between, 64, np.uint32)[1] != 0
    for spoil in (lambda: driver.call("cuStreamSynchronize", here.stream()), here.synchronize):
        with pytest.raises(UnityError, match=r"900|901") as spoilt:
            capture(here, spoil)
        assert spoilt.value.code == "E735"
    with pytest.raises(UnityError, match="901"):
        capture(here, lambda: driver.status("cuStreamQuery", here.stream()))
    with pytest.raises(KeyError):
        capture(here, lambda: {}[1])
    assert driver.status("cuStreamBeginCapture_v2", 0, 2) == 900
    assert gpu is None or driver.status("cuGraphLaunch", 12345, 0) == 400
    here.synchronize()


def test_numbers_are_told_apart(gpu: Any) -> None:
    """A graph holds the numbers that it was captured with: calls with others, zeros of another sign among them, are calls of their own."""
    text = """
@I.ir_module
class M:
    @T.prim_func
    def over(x: T.Buffer((40,), "float32"), a: T.float32, y: T.Buffer((40,), "float32")):
        for tx in T.thread_binding(40, "threadIdx.x"):
            y[tx] = x[tx] / a
    @R.function
    def main(x: R.Tensor((40,), "float32"), a: R.Prim("float32")):
        y = R.call_tir(cls.over, (x, a), out_sinfo=R.Tensor((40,), "float32"))
        return y
"""
    vm = VirtualMachine(unity.compile(parse(text), target="cuda"), unity.cuda(0), cuda_graph=True)
    x = unity.tensor(np.ones(40, np.float32), device=unity.cuda(0))
    for kind in (float, np.float32, np.float64):
        for a in (0.0, -0.0, 2.0, 4.0):
            for _ in range(3):
                made = vm["main"](x, kind(a)).numpy()
                with np.errstate(divide="ignore"):
                    assert (made == np.float32(1) / np.float32(a)).all(), (kind, a)


ASSERTED = parse("""
@R.function(pure=False)
def main(x: R.Tensor(("n",), "float32")):
    R.assert_op(R.greater(R.min(x), R.const(0, "float32")), format="x must be positive")
    return R.exp(x)
""")


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_assertions_are_looked_at_behind_each_launch(mode: str) -> None:
    executable = unity.compile(ASSERTED, target="cuda")
    with device_or_emulated(memory=1 << 24, races=False, traffic=False):
        machine = unity.VirtualMachine(executable, unity.cuda(0), cuda_graph=True, exec_mode=mode)
        for k in range(6):
            x = np.arange(1, 9, dtype="float32") * (-1 if k == 4 else 1)
            if k == 4:
                with pytest.raises(unity.UnityError, match="x must be positive") as failed:
                    machine["main"](x)
                assert failed.value.code == "E635"
            else:
                np.testing.assert_allclose(machine["main"](x).numpy(), np.exp(x), rtol=1e-6)
