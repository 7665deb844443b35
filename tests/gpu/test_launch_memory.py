"""Shared memory whose size the launch gives, above what a block has without asking; architectures of machine code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from device_choice import device_or_emulated

import unity
from unity.script import parse
from unity.target.cuda.arch import assembled_archs
from unity.target.cuda.assemble import assemble
from unity.target.cuda.machine import machine_of
from unity.testing import emulated_gpu


@pytest.mark.gpu
@pytest.mark.parametrize("kib", [16, 64, 128])
def test_dynamic_shared_memory(kib: int) -> None:
    count = kib * 256
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer(({count},), "float32"), B: T.Buffer(({count},), "float32")):
    for t in T.thread_binding(256, "threadIdx.x"):
        S = T.alloc_buffer(({count},), "float32", scope="shared.dyn")
        for k in range({count // 256}):
            S[k * 256 + t] = A[k * 256 + t]
        T.tvm_storage_sync("shared.dyn")
        for k in range({count // 256}):
            B[k * 256 + t] = S[{count - 1} - (k * 256 + t)]
""")
    x = np.arange(count, dtype="float32")
    with device_or_emulated() as gpu:
        machine = unity.VirtualMachine(unity.compile(func, target="cuda"), unity.cuda(0))
        a, b = [unity.tensor(array, device=unity.cuda(0)) for array in (x, np.zeros_like(x))]
        machine["main"](a, b)
        assert (b.numpy() == x[::-1]).all()
        assert gpu is None or gpu.launches[0].shared == 4 * count


@pytest.mark.gpu
def test_copies_need_the_alignment_that_they_move_at_once() -> None:
    """A view may begin at any element: copies of an element take it, wider ones refuse it before the launch."""
    text = """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for t in T.thread_binding({threads}, "threadIdx.x"):
        S = T.alloc_buffer((32,), "float32", scope="shared")
        T.ptx_cp_async("float32", S.data, t * {each}, A.data, t * {each}, 4 * {each})
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        for k in range({each}):
            B[t * {each} + k] = S[t * {each} + k]
"""
    x = np.arange(36, dtype="float32")
    with device_or_emulated():
        a, b = [unity.tensor(array, device=unity.cuda(0)) for array in (x, np.zeros(32, "float32"))]
        for each in (1, 4):
            func = parse(text.format(threads=32 // each, each=each))
            main = unity.VirtualMachine(unity.compile(func, target="cuda"), unity.cuda(0))["main"]
            for first in (0, 1, 4):
                if first * 4 % (4 * each):
                    with pytest.raises(unity.UnityError, match="A does not begin at a multiple of 16 bytes"):
                        main(a[first : first + 32], b)
                    continue
                main(a[first : first + 32], b)
                assert (b.numpy() == x[first : first + 32]).all()


def test_an_assembler_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "ptxas"
    tool.write_text("no program")
    tool.chmod(0o755)
    monkeypatch.setattr("unity.target.cuda.assemble.find_assembler", lambda: str(tool))
    with pytest.raises(unity.UnityError, match="the assembler does not run") as refused:
        assemble("", "sm_80")
    assert refused.value.code == "E534"


def test_machine_code_for_an_older_architecture_is_refused() -> None:
    """LLVM ends the process over an instruction that an architecture has not."""
    assert [arch.name for arch in assembled_archs(unity.Target("cuda -arch=sm_80 -cubin=sm_80,sm_90a"))] == [
        "sm_80",
        "sm_90a",
    ]
    for text in ("cuda -arch=sm_90a -cubin=sm_80", "cuda -arch=sm_90a -cubin=sm_100a", "cuda -cubin=sm_75"):
        with pytest.raises(unity.UnityError, match="may have instructions") as refused:
            assembled_archs(unity.Target(text))
        assert refused.value.code == "E531"


@pytest.mark.parametrize(
    "option", ["thread_warp_size=16", "thread_warp_size=0", "max_threads_per_block=0", "multi_processor_count=0"]
)
def test_limits_that_no_device_has_are_refused(option: str) -> None:
    with pytest.raises(unity.UnityError) as refused:
        machine_of(unity.Target(f"cuda -{option}"))
    assert refused.value.code == "E531" and option.partition("=")[0] in f"{refused.value}"


SIZES = """
@T.prim_func
def main(x: T.handle, y: T.handle):
    n = T.int64()
    m = T.int64()
    k = T.int64()
    X = T.match_buffer(x, (n, m), "float32")
    Y = T.match_buffer(y, (k,), "float32")
    for b in T.thread_binding(n, "blockIdx.y"):
        for t in T.thread_binding(m, "threadIdx.x"):
            S = T.alloc_buffer((k,), "float32", scope="shared.dyn")
            S[t] = X[b, t]
            X[b, t] = S[t] + T.float32(1)
"""


@pytest.mark.gpu
def test_launches_of_every_size() -> None:
    """The sizes that a device takes, none at all among them, and in words those that it does not."""
    with device_or_emulated(races=False, traffic=False) as gpu:
        vm = unity.VirtualMachine(unity.compile(parse(SIZES), target="cuda"), unity.cuda(0))
        for (n, m, k), words in {
            (2, 3, 4): "", (0, 3, 4): "", (2, 0, 4): "", (1, 1025, 2000): "a block of 1025 x 1 x 1 threads, where at most 1024",
            (65536, 1, 4): "a grid of 1 x 65536 x 1 blocks", (1, 4, 100000): f"400000 bytes of shared memory for a block, which has {'166912' if gpu is not None else '[0-9]+'}",
        }.items():  # fmt: skip
            x = unity.tensor(np.ones((n, m), "float32"), device=unity.cuda(0))
            y = unity.runtime.empty((k,), "float32", unity.cuda(0))
            if not words:
                vm["main"](x, y)
                assert (x.numpy() == 2).all()
                continue
            with pytest.raises(unity.UnityError, match=words) as refused:
                vm["main"](x, y)
            assert refused.value.code == "E735" and (x.numpy() == 1).all()
        assert gpu is None or [launch.block for launch in gpu.launches if launch.shared] == [(3, 1, 1)]


SHARED = """
@T.prim_func
def main(Y: T.Buffer((4,), "float32"), n: T.int64, k: T.int64):
    for b in T.thread_binding(n, "blockIdx.x"):
        for t in T.thread_binding(4, "threadIdx.x"):
            S = T.alloc_buffer((k, 4), "float32", scope="shared.dyn")
            if t < k:
                S[t * t % k, t] = T.float32(3)
                Y[t] = S[t * t % k, t]
"""


@pytest.mark.gpu
@pytest.mark.parametrize("k", [-1, 1 << 34, (1 << 60) + 1, -(1 << 63)])
def test_shared_memory_of_no_size(k: int) -> None:
    """A product of sizes that wraps around is no small one; a launch without threads needs no memory."""
    with device_or_emulated(traffic=False):
        vm = unity.VirtualMachine(unity.compile(parse(SHARED), target="cuda"), unity.cuda(0))
        y = unity.tensor(np.zeros(4, "float32"), device=unity.cuda(0))
        vm["main"](y, 0, k)
        with pytest.raises(
            unity.UnityError, match=r"main_kernel asks .* bytes of shared memory for a block"
        ) as refused:
            vm["main"](y, 1, k)
        assert refused.value.code == "E735"
        vm["main"](y, 1, 1)
        assert y.numpy().tolist() == [3, 0, 0, 0]


@pytest.mark.gpu
@pytest.mark.parametrize("extents", [("n - 5", "m"), ("n", "m - 5")])
def test_loops_of_threads_below_zero_do_nothing(extents: tuple[str, str]) -> None:
    """As other loops."""
    text = SIZES.replace("binding(n,", f"binding({extents[0]},").replace("binding(m,", f"binding({extents[1]},")
    with device_or_emulated(races=False, traffic=False, launched=False):
        vm = unity.VirtualMachine(unity.compile(parse(text), target="cuda"), unity.cuda(0))
        x, y = [unity.tensor(np.ones(shape, "float32"), device=unity.cuda(0)) for shape in ((2, 3), (4,))]
        vm["main"](x, y)
        assert (x.numpy() == 1).all()


def test_what_a_program_needs_stands_in_the_error_of_memory() -> None:
    chain = "y = R.reshape(R.exp(R.reshape(R.cumsum(x, axis=0), R.shape([4096]))), R.shape([64, 64]))"
    add = f'@R.function\ndef main(x: R.Tensor((64, 64), "float32"), w: R.Tensor((64, 64), "float32")):\n    {chain}\n    z = R.add(R.matmul(y, w), C)\n    return z\n'
    constant = unity.relax.const(np.random.default_rng(0).normal(size=(64, 64)).astype("float32"))
    ex = unity.compile(parse(add, scope={"C": constant}), target="cuda")
    x = np.ones((64, 64), "float32")
    for mode in ("native", "bytecode"):
        with emulated_gpu(memory=1 << 16):
            vm = unity.VirtualMachine(ex, unity.cuda(0), mode)
            held = [unity.tensor(x, device=unity.cuda(0)) for _ in range(2)]
            with pytest.raises(unity.UnityError, match="a call needs, beside its arguments: main: temporaries") as full:
                vm["main"](*held)
            assert full.value.code == "E736" and "results 16384 bytes" in str(full.value)
    with emulated_gpu(memory=1 << 13), pytest.raises(unity.UnityError, match="1 constants of 16384 bytes") as full:
        unity.VirtualMachine(ex, unity.cuda(0))
    assert full.value.code == "E736"
