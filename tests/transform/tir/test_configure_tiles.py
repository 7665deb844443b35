"""Where the tile registers of AMX are configured."""

from __future__ import annotations

import pytest

from unity.ir.stmt import AttrStmt, For
from unity.ir.walk import collect
from unity.script import parse
from unity.support.errors import PassError
from unity.transform.tir.vectors.configure_tiles import TILE_REGISTERS, configure_tiles

ZERO = 'T.call_llvm_intrin("void", "llvm.x86.tilezero", T.int8(0))'
PRODUCT = 'T.call_llvm_intrin("void", "llvm.x86.tdpbf16ps", T.int8(0), T.int8(4), T.int8(6))'
STORE = 'T.call_llvm_intrin("void", "llvm.x86.tilestored64", T.int8(0), T.address_of(sums[0]), T.int64(64))'
CALL = 'T.call_extern("int32", "abs", 1)'


def program(text: str):  # type: ignore[no-untyped-def]
    body = "".join([f"    {line}\n" for line in text.format(z=ZERO, p=PRODUCT, s=STORE, c=CALL).strip().split("\n")])
    return parse(f"@T.prim_func\ndef main(sums: T.Buffer((256,), 'float32'), n: T.int64):\n{body}")


def marked(func) -> list[AttrStmt]:  # type: ignore[no-untyped-def]
    return [a for a in collect(func.body, AttrStmt) if a.key == TILE_REGISTERS]


def test_once_around_serial_loops_and_in_parallel_ones() -> None:
    serial = configure_tiles.on(program("for i in range(n):\n    {z}\n    for k in range(4):\n        {p}\n    {s}"))
    assert [type(a.body) for a in marked(serial)] == [For] and configure_tiles.on(program("{c}")).body is not None
    shared = configure_tiles.on(
        program("for i in T.parallel(n):\n    for j in range(3):\n        {z}\n        {p}\n        {s}")
    )
    (loop,) = [f for f in collect(shared.body, For) if f.kind == "parallel"]
    assert marked(shared) == [loop.body]


def test_calls_stay_outside() -> None:
    func = configure_tiles.on(program("for i in range(n):\n    {c}\n    {z}\n    {p}\n    {s}\n    {c}"))
    (found,) = marked(func)
    assert "abs" not in found.script() and func.script().count("abs") == 2


def test_sums_in_tiles_do_not_survive_a_call() -> None:
    with pytest.raises(PassError) as found:
        configure_tiles.on(program("{z}\nfor k in range(4):\n    {c}\n    {p}\n{s}"))
    assert found.value.code == "E535"


def test_own_configuration_is_kept() -> None:
    own = 'T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", T.address_of(sums[0]))\n{z}\n{p}\n{s}'
    func = program(own)
    assert configure_tiles.on(func) is func
