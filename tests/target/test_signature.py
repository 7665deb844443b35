"""Which parameters a kernel may write through: what decides whether a constant may be handed to it."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir.expr import Call
from unity.ir.stmt import BufferStore
from unity.ir.walk import collect
from unity.script import parse
from unity.target.signature import kernel_signature, written_pointers


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


def test_a_pointer_with_another_name_counts() -> None:
    """The array is not taken for one that may be read-only, and reads of it are not taken for one."""
    mod = parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    p: T.handle("float32") = A.data
    V = T.decl_buffer((4,), "float32", data=p)
    B[0] = A[0]
    V[0] = A[0] + T.float32(2)
    B[1] = A[0]
""")
    assert [param.written for param in kernel_signature("main", mod).params] == [True, True]
    a, b = np.ones(4, "float32"), np.zeros(4, "float32")
    unity.VirtualMachine(unity.compile(mod))["main"](a, b)
    assert [a[0], *b] == [3, 1, 3, 0, 0]
