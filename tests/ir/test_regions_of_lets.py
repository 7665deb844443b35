"""Regions of blocks whose expressions name local variables."""

from __future__ import annotations

from unity.ir import PrimFunc
from unity.ir.analysis.regions import block_regions
from unity.ir.stmt import Block
from unity.ir.walk import collect
from unity.script import parse


def block_of(names: str, value: str) -> Block:
    """The inner block of a program that stores a value of local variables."""
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")):
{names}
    for i in range(16):
        with T.block("b"):
            vi = T.axis.spatial(16, i)
            B[vi] = {value}
""")
    assert isinstance(func, PrimFunc)
    return next(block for block in collect(func.body, Block) if block.name == "b")


def test_a_chain_of_local_variables_is_walked_once() -> None:
    """Each of 60 variables uses the one before three times: written out that is 3**60 terms."""
    value = "x60"
    for number in range(60, 0, -1):
        value = f"T.Let({value}, where={{x{number}: x{number - 1} * x{number - 1} + x{number - 1}}})"
    names = "\n".join([f"    x{number} = T.float32()" for number in range(61)])
    reads, writes = block_regions(block_of(names, f"T.Let({value}, where={{x0: A[vi]}})"), derive=True)
    assert [region.buffer.name for region in reads] == ["A"]
    assert [region.buffer.name for region in writes] == ["B"]


def test_an_index_of_local_variables_is_known() -> None:
    names = "    twice = T.int64()\n    last = T.int64()"
    value = "T.Let(T.Let(A[last], where={last: twice + 1}), where={twice: vi * 2})"
    reads, _ = block_regions(block_of(names, value), derive=True)
    plain, _ = block_regions(block_of("", "A[vi * 2 + 1]"), derive=True)
    assert [(str(r.region[0].min), str(r.region[0].extent)) for r in reads] == [
        (str(r.region[0].min), str(r.region[0].extent)) for r in plain
    ]
