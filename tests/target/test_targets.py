"""Target descriptions."""

from __future__ import annotations

import pytest

from unity.support.errors import CodegenError
from unity.target.cpu.codegen import build_kernels
from unity.target.target import TAGS, Target, target


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
    assert Target("llvm -mattr=+avx2,+fma").features == {"avx2", "fma"}
    assert Target("llvm -vector-width=256").vector_bits == 256


def test_this_machine() -> None:
    host = Target("llvm")
    assert host.features and host.vector_bits in (128, 256, 512) and host.num_cores >= 1
    assert str(host) == "llvm"


@pytest.mark.parametrize("tag", list(TAGS))
def test_tags(tag: str) -> None:
    assert Target(tag).kind in ("llvm", "cuda")


def test_current_target() -> None:
    assert Target.current() is None and target().kind == "llvm"
    with Target("llvm -num-cores=3") as entered:
        assert Target.current() is entered and target() is entered
        with Target("cuda -arch=sm_80") as inner:
            assert target() is inner
    assert Target.current() is None
    with pytest.raises(CodegenError, match="E531"):
        Target.current(allow_none=False)


BAD = ["", "llwm", "llvm -mcppu=x", "llvm -num-cores=many", "llvm znver4", 'llvm "', {"mcpu": "x"}, {"kind": "z"}]


@pytest.mark.parametrize("bad", BAD)
def test_bad_descriptions(bad: object) -> None:
    with pytest.raises(CodegenError, match="E531"):
        Target(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["llvm -mcpu=i386", "llvm -mcpu=nonsense", "llvm -mattr=+nonsense"])
def test_unknown_processors_are_refused(bad: str) -> None:
    with pytest.raises(CodegenError, match="E531"):
        build_kernels({}, Target(bad))


def test_named_processor_compiles() -> None:
    assert build_kernels({}, Target("llvm -mcpu=x86-64-v3")).signatures == {}
    with pytest.raises(CodegenError, match="E530"):
        build_kernels({}, Target("llvm -mtriple=sparc-linux-gnu"))


def test_other_kinds_are_refused() -> None:
    with pytest.raises(CodegenError, match="E530"):
        build_kernels({}, Target("cuda"))
