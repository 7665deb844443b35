"""Which parameters a kernel may write through: what decides whether a constant may be handed to it."""

from __future__ import annotations

import pytest

from unity.ir.expr import Call
from unity.ir.stmt import BufferStore
from unity.ir.walk import collect
from unity.script import parse
from unity.target.signature import written_pointers


@pytest.mark.parametrize(
    ("use", "written"),
    [
        ("T.prefetch(T.address_of(A[0]), 0, 3, 1)", False),
        ('T.call_llvm_intrin("void", "llvm.prefetch", T.address_of(A[0]), 0, 3, 1)', True),
        ('T.call_llvm_intrin("void", "llvm.prefetch", A.access_ptr("r"), 0, 3, 1)', False),
        ('T.call_llvm_intrin("void", "llvm.prefetch", A.access_ptr("w"), 0, 3, 1)', True),
        ('T.call_llvm_intrin("void", "llvm.prefetch", A.access_ptr("rw"), 0, 3, 1)', True),
        ('T.call_extern("int32", "f", A.data)', True),
        ("A[0]", False),
    ],
)
def test_written(use: str, written: bool) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    T.evaluate({use})
""")
    (buffer,) = func.buffer_map.values()
    found = written_pointers(collect(func.body, (Call, BufferStore)))
    assert (buffer.data in found) == written


def test_an_address_that_is_fetched_and_passed_on_counts() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    T.evaluate(T.prefetch(T.address_of(A[0]), 0, 3, 1))
    T.evaluate(T.call_extern("int32", "f", T.address_of(A[0])))
""")
    (buffer,) = func.buffer_map.values()
    assert buffer.data in written_pointers(collect(func.body, (Call, BufferStore)))
