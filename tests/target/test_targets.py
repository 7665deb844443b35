"""Target descriptions."""

from __future__ import annotations

from pathlib import Path

import pytest

import unity
from unity.ffi.targets import probe, processor
from unity.ffi.targets.kinds import CUDA
from unity.ffi.targets.processor import host_processor, named_processor
from unity.ffi.targets.target import Target, processor_in_use, runnable_processor, target
from unity.ffi.targets.target_kind import KINDS, TAGS
from unity.support.errors import CodegenError, OptionError, VMError
from unity.target import backend_of
from unity.target.cpu.codegen import build_kernels
from unity.target.cuda.machine import machine_of


def test_spellings_mean_the_same() -> None:
    a = Target("llvm -mcpu=znver4 -num-cores=8")
    assert (
        a
        == Target({"kind": "llvm", "mcpu": "znver4", "num-cores": 8})
        == Target(a)
        == Target(str(a))
        == Target(a.to_dict())
    )
    assert a.num_cores == 8 and a.mcpu == "znver4" and a.vector_bits == 512
    assert hash(a) == hash(Target("llvm -num-cores 8 -mcpu=znver4"))
    assert Target("llvm -vector-width=256").vector_bits == 256


def test_this_machine() -> None:
    host = Target("llvm")
    assert host.features and host.vector_bits in (128, 256, 512) and host.num_cores >= 1
    assert str(host) == "llvm"


@pytest.mark.parametrize("tag", list(TAGS))
def test_tags(tag: str) -> None:
    assert Target(tag).kind == TAGS[tag]["kind"]


def test_current_target() -> None:
    assert Target.current() is None and target().kind == "llvm"
    with Target("llvm -num-cores=3") as entered:
        assert Target.current() is entered and target() is entered
        with Target("cuda -arch=sm_80") as inner:
            assert target() is inner
    assert Target.current() is None
    with pytest.raises(CodegenError, match="E531"):
        Target.current(allow_none=False)


ADDS = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    with R.dataflow():
        y = R.add(x, x)
        R.output(y)
    return y
"""
BAD = ["", "llwm", "llvm -mcppu=x", "llvm -num-cores=many", "llvm znver4", 'llvm "', {"mcpu": "x"}, {"kind": "z"}]


@pytest.mark.parametrize("bad", BAD)
def test_bad_descriptions(bad: object) -> None:
    with pytest.raises(CodegenError, match="E531"):
        Target(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["llvm -mcpu=i386", "llvm -mcpu=nonsense", "llvm -mattr=+nonsense"])
def test_unknown_processors_are_refused(bad: str) -> None:
    with pytest.raises(CodegenError, match="E531"):
        build_kernels({}, Target(bad))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The modules that each process tries from now on, in a test that knows of none yet."""
    monkeypatch.setenv("UNITY_CACHE", str(tmp_path))
    monkeypatch.setattr(processor, "_TRIED", {})
    found: list[list[str]] = []
    plain = processor.probe_compilation

    def counted(texts: list[str], cpu: str, changes: str) -> tuple[int, str]:
        found.append(texts)
        return plain(texts, cpu, changes)

    monkeypatch.setattr(processor, "probe_compilation", counted)
    return found


def test_a_trial_that_takes_too_long_is_a_refusal(monkeypatch: pytest.MonkeyPatch, tried: list[list[str]]) -> None:
    monkeypatch.setattr(probe, "LIMIT", 1e-3)
    text = "define float @f(float %x) {\n  ret float %x\n}\n"
    refused = processor.compile_problems([text], "x86-64", "")
    assert "longer than" in refused[text] and tried == [[text]]


def test_what_llvm_compiled_for_a_processor_is_tried_once(
    monkeypatch: pytest.MonkeyPatch, tried: list[list[str]]
) -> None:
    """What it refuses is tried again by the next process, and what comes after that in another; what ends the process is none of
    the others' fault."""
    good, other = [
        f"define float @f(float %x) {{\n %y = call float @llvm.{name}.f32(float %x)\n ret float %y\n}}\n"
        for name in ("fabs", "sqrt")
    ]
    bad = "declare void @llvm.none()\ndefine void @f() {\n call void @llvm.none()\n ret void\n}\n"
    fatal = "define void @f() {\n call void @llvm.x86.tilezero(i8 1)\n ret void\n}\n"
    for _ in range(2):
        monkeypatch.setattr(processor, "_TRIED", {})
        for _ in range(2):
            problems = processor.compile_problems([good, bad, fatal, other], "x86-64", "")
            assert list(problems) == [bad, fatal]
            assert "no such intrinsic" in problems[bad] and "no such intrinsic" not in problems[fatal]
    assert tried == [[good, bad, fatal, other], [fatal, other], [other], [bad, fatal], [fatal]]


TILES = "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512bf16,+amx-tile,+amx-bf16"


def test_the_instructions_of_a_build_are_tried_in_one_process(tried: list[list[str]]) -> None:
    """Numbers of tiles stand in what is tried; distances of lines do not, so that other sizes have nothing new."""
    for n, k in ((64, 64), (96, 128)):
        types = f'A: T.Buffer((64, {k}), "bfloat16"), B: T.Buffer(({k}, {n}), "bfloat16"), C: T.Buffer((64, {n}), "float32")'
        unity.compile(unity.script.from_source(f"""
@T.prim_func
def main({types}):
    for i, j, k in T.grid(64, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
"""), target=f"llvm -mattr={TILES}")  # fmt: skip
    (texts,) = tried
    assert sum(["tdpbf16ps" in text for text in texts]) == 4


def test_wide_constants_that_have_to_be_constants(monkeypatch: pytest.MonkeyPatch, tried: list[list[str]]) -> None:
    """Where LLVM refuses the module in which they are parameters, it tries those with the constants, and what it says of them counts."""
    plain = processor.probe_compilation

    def counted(texts: list[str], cpu: str, changes: str) -> tuple[int, str]:
        return (
            plain(texts, cpu, changes)
            if "i64 %a2" not in texts[0]
            else (0, "immarg operand has non-immediate parameter")
        )

    monkeypatch.setattr(processor, "probe_compilation", counted)
    build = """
@T.prim_func
def main(A: T.Buffer((2,), "int64")):
    A[0] = T.call_llvm_pure_intrin("int64", "llvm.fshl.i64", A[0], A[0], T.int64(5))
    A[1] = T.call_llvm_pure_intrin("int64", "llvm.NAME.i64", A[0], A[0], T.int64(3))
"""
    unity.compile(unity.script.from_source(build.replace("NAME", "fshl")), target="llvm -mcpu=x86-64-v3")
    (texts,) = tried
    assert [text.count(f"i64 {size})") for text, size in zip(texts, (5, 3))] == [1, 1]
    with pytest.raises(CodegenError, match=r"E527.*llvm\.none\.i64 with .* unknown intrinsic"):
        unity.compile(unity.script.from_source(build.replace("NAME", "none")), target="llvm -mcpu=x86-64-v3")


def test_named_processor_compiles() -> None:
    assert build_kernels({}, Target("llvm -mcpu=x86-64-v3")).signatures == {}
    with pytest.raises(CodegenError, match="E530"):
        build_kernels({}, Target("llvm -mtriple=sparc-linux-gnu"))


@pytest.mark.parametrize("name", [*KINDS, *TAGS])
def test_help_says_which_targets_generate_code(name: str) -> None:
    """The list in the help of E531 and what compiling does agree, for every kind and tag."""
    with pytest.raises(CodegenError) as unknown:
        Target("lvm")
    generated, _, described = str(unknown.value.help).partition("; only described, without code: ")
    try:
        backend_of(Target(name))
    except CodegenError as error:
        assert error.code == "E530" and name in described.split(", ")
    else:
        assert name in generated.partition("code is generated for ")[2].split(", ")


# ---- processors: what LLVM says they have, and which is in use

V2 = {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}
V3 = V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = {"x86-64-v2": V2, "x86-64-v3": V3, "x86-64-v4": V4}
"""What the levels of the x86-64 psABI ask of a processor, in LLVM's names."""


@pytest.mark.parametrize("level", LEVELS)
def test_levels_have_the_features_of_the_psabi(level: str) -> None:
    found = Target(level).features
    assert LEVELS[level] <= found and not found & (V4 - LEVELS[level])
    assert Target(level).vector_bits == {"x86-64-v2": 128, "x86-64-v3": 256, "x86-64-v4": 512}[level]


def test_features_that_are_named_are_those_of_the_target_alone() -> None:
    found = Target("llvm -mattr=+avx2,+fma").features
    assert {"avx", "avx2", "fma", "sse4.2"} <= found and not found & {"avx512f", "bmi2"}
    assert "avx512vnni" not in Target("llvm -mcpu=znver4 -mattr=-avx512vnni").features


def test_the_option_names_the_default_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processor_in_use() == runnable_processor() == Target("llvm").processor
    for text in ("llvm -mcpu=x86-64-v2 -num-cores=3", "x86-64-v2"):
        monkeypatch.setenv("UNITY_TARGET", text)
        assert target() == Target(text)
        for named in (Target("llvm").processor, processor_in_use(), runnable_processor()):
            assert named == named_processor("x86-64-v2", "")
        with Target("x86-64-v4"):
            assert processor_in_use() == named_processor("x86-64-v4", "") and target() == Target("x86-64-v4")
            assert runnable_processor() == named_processor("x86-64-v2", "")


def test_this_process_never_runs_what_the_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNITY_TARGET", "llvm -mcpu=sapphirerapids -mattr=+avx10.2,+amx-fp8")
    assert "amx-tile" in processor_in_use().features and runnable_processor() == host_processor()
    made = unity.compile(unity.script.parse(ADDS))
    with pytest.raises(VMError, match="E451"):
        unity.VirtualMachine(made)


@pytest.mark.parametrize(
    "text", ["llvm -mcpu=nonsense", "lvm", "llvm -mcppu=x", "c", "llvm -mattr=+nonsense", 'llvm "']
)
def test_an_option_that_names_no_target(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("UNITY_TARGET", text)
    for ask in (target, processor_in_use):
        with pytest.raises(OptionError, match=r"E001.*UNITY_TARGET"):
            ask()


def test_devices_by_name_have_their_multiprocessors() -> None:
    """Grids that compute several tiles in a block count them."""
    for tag, row in CUDA.tags.items():
        gpu = machine_of(Target(tag)).gpu
        assert gpu.processors == row["multi_processor_count"] and tag.startswith("nvidia/")
    assert machine_of(Target("nvidia/nvidia-h100-pcie")).gpu.processors == 114
    assert [machine_of(Target(f"cuda -arch={name}")).gpu.processors for name in ("sm_80", "sm_90a")] == [108, 132]
    named = Target("cuda -arch=sm_90a -multi_processor_count=7")
    assert machine_of(named).gpu.processors == 7 and Target(str(named)) == named
    text = (
        "cuda -keys=cuda,gpu -arch=sm_80 -l2_cache_size_bytes=41943040 -max_num_threads=1024 -registers_per_block=65536"
    )
    assert str(Target(text)) == "cuda -arch=sm_80", "as TVM prints one"
