"""Linking objects into this process: places, rights, reach, what is refused, damage, memory given back."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from unity.ffi.machine_code.elf import AARCH64, read_object
from unity.ffi.machine_code.engine import C_FUNCTIONS, CALLS_C, Engine, process_symbol
from unity.ffi.machine_code.linker import Image
from unity.ffi.machine_code.llvm import CompileOptions, compile_ir
from unity.ffi.machine_code.memory import PAGE
from unity.support.errors import FFIError, UnityError

WHOLE = """
@near = global i64 5
@zeros = global [100 x i64] zeroinitializer, align 64
@text = private constant [4 x i8] c"abc\\00"
@place = global ptr @text
@common = common global i64 0
@outer = external global i64
declare i64 @outside(i64)
declare extern_weak i64 @nobody(i64)
define weak i64 @soft() {
  ret i64 7
}
define i64 @sum(i64 %x) {
  %a = call i64 @outside(i64 %x)
  %b = load i64, ptr @outer
  %c = load i64, ptr @near
  %p = load ptr, ptr @place
  %d0 = load i8, ptr %p
  %d = zext i8 %d0 to i64
  store i64 %x, ptr @common
  %q = getelementptr [100 x i64], ptr @zeros, i64 0, i64 99
  %e = load i64, ptr %q
  %n = icmp eq ptr @nobody, null
  %f = select i1 %n, i64 1000, i64 0
  %g = call i64 @soft()
  %s1 = add i64 %a, %b
  %s2 = add i64 %s1, %c
  %s3 = add i64 %s2, %d
  %s4 = add i64 %s3, %e
  %s5 = add i64 %s4, %f
  %s6 = add i64 %s5, %g
  ret i64 %s6
}
"""
CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
FAR = 1 << 40
PLAIN = CompileOptions(pipeline="none")


@pytest.fixture(scope="module")
def whole() -> bytes:
    return compile_ir(WHOLE, PLAIN)


def rights() -> list[tuple[int, int, str]]:
    """Begin, end and rights of the memory of this process."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, what = line.split()[:2]
        begin, end = [int(part, 16) for part in span.split("-")]
        found.append((begin, end, what))
    return found


def test_everything_in_an_object_has_its_place(whole) -> None:
    outer, inside = ctypes.c_int64(30), CALL(lambda x: x + 100)
    function = ctypes.cast(inside, ctypes.c_void_p).value
    engine = Engine({"outer": ctypes.addressof(outer), "outside": function}).add_object(whole)
    assert CALL(engine.address("sum"))(1) == 101 + 30 + 5 + ord("a") + 1000 + 7
    assert ctypes.c_int64.from_address(engine.address("common")).value == 1
    assert engine.address("zeros") % 64 == 0
    assert {"near", "zeros", "place", "common", "soft", "sum"} == set(engine.names())


def test_no_page_can_be_written_and_run(whole) -> None:
    engine = Engine({"outer": 8, "outside": 8}).add_object(whole)
    places = {name: engine.address(name) for name in ("sum", "near", "common", "zeros")}
    found = {name: next(what for begin, end, what in rights() if begin <= at < end) for name, at in places.items()}
    assert found["sum"] == "r-xp" and {found[name] for name in ("near", "common", "zeros")} == {"rw-p"}
    text = ctypes.c_uint64.from_address(engine.address("place")).value
    assert next(what for begin, end, what in rights() if begin <= text < end) == "r--p"


@pytest.mark.skipif(not hasattr(mmap, "MAP_ANONYMOUS"), reason="needs mmap of the C library")
def test_calls_go_however_far(whole) -> None:
    """A function a terabyte away is reached by a stub, one near by none."""
    system = ctypes.CDLL(None)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    place = system.mmap(FAR, PAGE, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    text = "define i64 @outside(i64 %x) {\n  %r = add i64 %x, %x\n  ret i64 %r\n}\n"
    section = next(s for s in read_object(compile_ir(text)).sections.values() if s.name == ".text")
    ctypes.memmove(place, section.data, section.size)
    outer = ctypes.c_int64(0)
    engine = Engine({"outer": ctypes.addressof(outer), "outside": place}).add_object(whole)
    at = engine.address("sum")
    assert abs(place - at) > 1 << 32 and CALL(at)(4) == 8 + 5 + ord("a") + 1000 + 7


REFUSED = {
    "functions that run": "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } "
    "{ i32 1, ptr @f, ptr null }]\ndefine void @f() {\n  ret void\n}\n",
    "each thread": "@v = thread_local global i64 3\ndefine ptr @f() {\n  ret ptr @v\n}\n",
    "does not fit into 32 bits": "@far = external dso_local global i64\ndefine ptr @f() {\n  ret ptr @far\n}\n",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_linked_is_an_error(words) -> None:
    with pytest.raises(FFIError, match=words) as caught:
        Engine({"far": FAR}).add_ir(REFUSED[words], PLAIN).link()
    assert caught.value.code == "E709"


def test_names_of_the_process_are_found_only_where_a_program_says_so() -> None:
    text = "declare i32 @getpid()\ndefine i64 @f(i64 %x) {\n  %p = call i32 @getpid()\n  %r = zext i32 %p to i64\n  ret i64 %r\n}\n"
    with pytest.raises(FFIError, match="getpid") as caught:
        Engine().add_ir(text).link()
    assert caught.value.code == "E710"
    said = Engine().add_ir(f"@{CALLS_C} = weak constant i8 0\n{text}")
    assert CALL(said.address("f"))(0) == os.getpid() and said.names() == ["f"]
    assert all(process_symbol(name) for name in C_FUNCTIONS)


def test_absolute_addresses_are_out_of_reach() -> None:
    text = "@near = dso_local global i64 5\ndefine ptr @f() {\n  ret ptr @near\n}\n"
    with pytest.raises(FFIError, match=r"does not fit into 32 bits(.|\n)*pic"):
        Engine().add_ir(text, CompileOptions(pipeline="none", reloc="static")).link()


def test_strong_names_hide_weak_ones() -> None:
    weak = "define weak i64 @f() {\n  ret i64 1\n}\ndefine i64 @g() {\n  %r = call i64 @f()\n  ret i64 %r\n}\n"
    strong = "define i64 @f() {\n  ret i64 2\n}\n"
    for texts in ((weak, strong), (strong, weak)):
        engine = Engine()
        for text in texts:
            engine.add_ir(text)
        assert CALL(engine.address("g"))(0) == 2


def test_damage_is_an_error_and_never_a_crash(whole) -> None:
    """Bits are flipped everywhere but in the contents of sections, which nothing here interprets; what links is not run."""
    table, count = struct.unpack_from("<Q", whole, 0x28)[0], struct.unpack_from("<H", whole, 0x3C)[0]
    places = [*range(64), *range(table, table + 64 * count)]
    for k in range(count):
        kind, offset, size = (
            struct.unpack_from(f, whole, table + 64 * k + at)[0] for f, at in (("<I", 4), ("<Q", 24), ("<Q", 32))
        )
        if kind in (2, 3, 4):  # symbols, names, relocations
            places += range(offset, offset + size)
    source, raised = random.Random(3), 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(source.choice((1, 1, 2, 8))):
            data[source.choice(places)] ^= 1 << source.randrange(8)
        try:
            Image([read_object(bytes(data))], lambda name: FAR if name else 0)
        except UnityError as error:
            raised += error.code in ("E709", "E710")
    assert raised > 500


def test_memory_goes_back_with_the_engine() -> None:
    data = compile_ir("@v = global i64 3\ndefine ptr @f() {\n  ret ptr @v\n}\n", PLAIN)

    def many(count: int) -> int:
        for _ in range(count):
            Engine().add_object(data).link()
        gc.collect()
        return len(rights())

    before = many(10)
    assert many(1000) <= before + 10


ARM = """
declare i64 @outside(i64)
@outer = external global i64
@near = internal global [4 x i64] [i64 1, i64 2, i64 3, i64 4]
define i64 @f(i64 %x) {
  %a = call i64 @outside(i64 %x)
  %p = getelementptr i64, ptr @near, i64 %x
  %b = load i64, ptr %p
  %c = load i64, ptr @outer
  %d = load i64, ptr @near
  %e = add i64 %a, %b
  %f = add i64 %c, %d
  %g = add i64 %e, %f
  ret i64 %g
}
"""


def test_instructions_of_aarch64_get_their_parts() -> None:
    """The addresses that instructions name, read out of them again."""
    part = read_object(compile_ir(ARM, CompileOptions(pipeline="none", triple="aarch64-unknown-linux-gnu")))
    image = Image([part], {"outside": FAR, "outer": FAR + 64}.__getitem__)
    assert part.machine == AARCH64
    base = image.memory.address
    found: dict[str, set[int]] = {"page": set(), "call": set(), "load": set()}
    code = np.frombuffer((ctypes.c_char * image.memory.size).from_address(base), "<u4")[: PAGE // 4]
    registers: dict[int, int] = {}
    for number, word in enumerate(code.tolist()):
        at = base + 4 * number
        if word >> 24 & 0x9F == 0x90:  # adrp
            pages = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            registers[word & 31] = (at >> 12 << 12) + ((pages - (pages >> 20 << 21)) << 12)
        elif word >> 26 == 0b100101:  # bl
            offset = word & 0x3FFFFFF
            found["call"].add(at + 4 * (offset - (offset >> 25 << 26)))
        elif word >> 22 == 0b1111100101:  # ldr of 8 bytes
            found["load"].add(registers.get(word >> 5 & 31, 0) + (word >> 10 & 0xFFF) * 8)
        elif word >> 22 == 0b1001000100:  # add
            found["page"].add(registers.get(word >> 5 & 31, 0) + (word >> 10 & 0xFFF))
    near = next(base + image._offsets[0, k] for k, s in part.sections.items() if s.name == ".data")
    table = base + image._table
    words = np.frombuffer((ctypes.c_char * 16).from_address(table), np.int64).tolist()
    assert found["call"] == {base + image._stubs + 16 * words.index(FAR)}
    assert table + 8 * words.index(FAR + 64) in found["load"] and near in found["page"] | found["load"]
