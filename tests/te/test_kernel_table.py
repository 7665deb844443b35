"""Equal tensor programs of a module are one, and different ones are told apart at first sight."""

import pytest

from unity import te
from unity.ir.module import module
from unity.te import kernel_table
from unity.te.kernel_table import KernelTable


def program(size, compute, dtype="float32"):
    x = te.placeholder((size, 4), dtype, "x")
    return te.create_prim_func([x, te.compute((size, 4), lambda i, j: compute(x, i, j), "y")]).without_attr(
        "global_symbol"
    )


def doubled(x, i, j):
    return x[i, j] + x[i, j]


def test_equal_programs_get_one_name():
    table = KernelTable(module({"known": program(3, doubled)}))
    names = [table.add(program(3, doubled), "y").name, table.add(program(5, doubled), "y").name,
             table.add(program(5, doubled), "z").name, table.add(program(5, lambda x, i, j: x[i, j] * 2.0), "y").name,
             table.add(program(5, lambda x, i, j: x[i, j] + x[i, 0]), "y").name]  # fmt: skip
    assert names == ["known", "y", "y", "y1", "y2"]
    assert list(table.added) == ["y", "y1", "y2"]


def test_programs_of_different_shapes_are_never_hashed(monkeypatch: pytest.MonkeyPatch):
    known = module({f"p{n}": program(n, doubled) for n in range(2, 12)})
    new = [program(n, doubled) for n in range(12, 22)] + [program(3, doubled, "int32")]
    monkeypatch.setattr(kernel_table, "structural_hash", lambda func: pytest.fail("a program was walked"))
    table = KernelTable(known)
    assert [table.add(func, "y").name for func in new] == ["y", *[f"y{n}" for n in range(1, 11)]]
