"""Mistakes planted in kernels: each is found, with its kind, its line of PTX and its threads, and nothing else is."""

import numpy as np
import pytest
from emulated import Arrays, kernel, lanes_of

from unity import UnityError
from unity.testing import emulated_gpu

pytestmark = pytest.mark.gpu
KEPT = ".shared .align 16 .b8 kept[512]; mov.b32 %r5, kept; shl.b32 %r6, %t, 2; add.s32 %r5, %r5, %r6;"
X = np.arange(64, dtype=np.uint32)

FAULTS = [
    ("a store beyond the end", "st.global.b32 [%yt+64], %t;", 700, "bounds", "y (128 bytes)"),
    ("a load before the beginning", "ld.global.b32 %r1, [%xt+-4];", 700, "bounds", ""),
    ("the null address", "mov.b64 %d1, 0; ld.global.b32 %r1, [%d1];", 700, "bounds", "the null address"),
    ("an address that is not aligned", "ld.global.b32 %r1, [%xt+2];", 716, "alignment", "not a multiple of 4"),
    ("a vector that is not aligned", "ld.global.v2.b32 {%r1, %r2}, [%xt];", 716, "alignment", "not a multiple of 8"),
    ("beyond shared memory", f"{KEPT} st.shared.b32 [%r5+400], %t;", 700, "bounds", "512"),
    ("local memory", ".local .align 4 .b8 own[8]; mov.b64 %d1, own; st.local.b32 [%d1+16], %t;", 700, "bounds", "local memory"),
    ("a trap", "setp.eq.u32 %p1, %t, 3; @%p1 trap;", 719, "trap", "thread (3, 0, 0)"),
    ("a loop without end", "LOOP: bra LOOP;", 702, "steps", "LOOP"),
    ("a matrix instruction by half a warp",
     "setp.gt.u32 %p1, %t, 15; @%p1 bra OUT; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r9]; OUT:", 719, "collective", "16 of 32"),
    ("two halves of a warp that wait for each other",
     "setp.gt.u32 %p1, %t, 15; @%p1 bra HIGH; shfl.sync.idx.b32 %r1, %t, 0, 31, -1; bra OUT;"
     "HIGH: shfl.sync.idx.b32 %r2, %t, 1, 31, -1; OUT:", 719, "collective", "no thread can go on"),
]  # fmt: skip


@pytest.mark.parametrize("body, status, kind, text", [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
@pytest.mark.parametrize("seed", [None, 11])
def test_faults_end_a_launch(body, status, kind, text, seed):
    with emulated_gpu(steps=3000, seed=seed) as gpu:
        with pytest.raises(UnityError) as caught:
            lanes_of(kernel(body), X)
        assert caught.value.code == "E737" and f"({status})" in str(caught.value) and text in str(caught.value)
        assert [one.kind for one in gpu.findings] == [kind]
        assert gpu.findings[0].line is not None and gpu.launches[0].fault == status


def test_memory_that_was_freed():
    with emulated_gpu() as gpu:
        arrays = Arrays()
        gone = arrays.put(X)
        kept = arrays.put(X)
        arrays.blocks.pop(0)
        with pytest.raises(UnityError, match="was freed"):
            arrays.run(kernel("ld.global.b32 %r1, [%xt];"), "k", (1,), (32,), gone, kept)
        assert gpu.findings[0].kind == "bounds"


def test_stores_into_constants():
    before = ".const .align 4 .b32 table[4] = {1, 2, 3, 4};"
    with emulated_gpu(), pytest.raises(UnityError, match="the constant table"):
        lanes_of(kernel("mov.b64 %d1, table; st.global.b32 [%d1], %t;", before=before), X)


MISTAKES = [
    ("words of other threads without a barrier",
     f"{KEPT} st.shared.b32 [%r5], %t; xor.b32 %r7, %r5, 128; ld.shared.b32 %r1, [%r7];", 64, {"race"}, "E360"),
    ("words of other lanes without a warp barrier",
     f"{KEPT} st.shared.b32 [%r5], %t; xor.b32 %r7, %r5, 4; ld.shared.b32 %r1, [%r7];", 32, {"race"}, "E360"),
    ("one word for all", f"{KEPT} st.shared.b32 [kept], %t;", 32, {"race"}, "E360"),
    ("a reader that is overtaken", f"{KEPT} st.shared.b32 [%r5], %t; bar.sync 0; xor.b32 %r7, %r5, 128; ld.shared.b32 %r1, [%r7]; st.shared.b32 [%r5], %r1;",
     64, {"race"}, "E360"),
    ("plain and atomic", f"{KEPT} setp.eq.u32 %p1, %t, 40; @%p1 st.shared.b32 [kept], %t; @!%p1 red.shared.add.u32 [kept], 1;", 64,
     {"race"}, "E360"),
    ("undefined shared memory", f"{KEPT} ld.shared.b32 %r1, [%r5]; st.global.b32 [%yt], %r1;", 32, {"uninitialised"}, "E364"),
    ("undefined local memory", ".local .align 4 .b8 own[8]; mov.b64 %d1, own; ld.local.b32 %r1, [%d1]; st.global.b32 [%yt], %r1;", 32, {"uninitialised"}, "E364"),
    ("half a word", f"{KEPT} st.shared.b16 [%r5], 1; ld.shared.b32 %r1, [%r5]; st.global.b32 [%yt], %r1;", 32, {"uninitialised"}, "E364"),
    ("a barrier in a condition", "setp.gt.u32 %p1, %t, 40; @%p1 bra OTHER; bar.sync 0; bra OUT; OTHER: bar.sync 0; OUT:", 64, {"barrier"}, "E362"),
    ("threads that ended before a barrier", "setp.gt.u32 %p1, %t, 40; @%p1 ret; bar.sync 0;", 64, {"barrier"}, "E362"),
    ("a value of a lane that ended", "setp.gt.u32 %p1, %t, 30; @%p1 ret; shfl.sync.down.b32 %r1, %t, 1, 31, -1;", 32, {"collective"}, "E365"),
    ("a value of a lane that the block lacks", "shfl.sync.down.b32 %r1, %t, 1, 31, -1;", 20, {"collective"}, "E365"),
]  # fmt: skip


@pytest.mark.parametrize("body, count, kinds, code", [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
@pytest.mark.parametrize("seed", [None, 12])
def test_mistakes_that_a_device_does_not_tell(body, count, kinds, code, seed):
    with emulated_gpu(seed=seed) as gpu:
        lanes_of(kernel(body), X, count)
        found = {one.kind for one in gpu.findings}
        assert kinds <= found <= kinds | {"uninitialised"}  # whoever comes too early may read what is not there yet
        first = next(one for one in gpu.findings if one.code == code)
        assert first.line is not None and ("thread (" in str(first) or code == "E364")


def test_undefined_memory_of_the_device():
    with emulated_gpu() as gpu:
        arrays = Arrays()
        arrays.run(
            kernel("ld.global.b32 %r1, [%xt]; st.global.b32 [%yt], %r1;"),
            "k",
            (1,),
            (32,),
            arrays.room(128),
            arrays.room(128),
        )
        assert [one.kind for one in gpu.findings] == ["uninitialised"] and "x (128 bytes) at byte 0" in str(
            gpu.findings[0]
        )


def test_races_between_blocks_over_several_batches():
    """More blocks than run side by side all store into one word; atomic updates do not race."""
    with emulated_gpu() as gpu:
        lanes_of(kernel("st.global.b32 [%y], %b;"), X, 32, blocks=600)
        assert [one.code for one in gpu.findings] == ["E361"]
    with emulated_gpu() as gpu:
        lanes_of(kernel("red.global.add.u32 [%y], %b;"), X, 32, blocks=600)
        assert gpu.findings == []


def test_order_of_warps_shows_in_values_where_it_is_random():
    """Each warp adds its number to ten times the word: in step and in turn the results differ."""
    body = f"{KEPT} and.b32 %r7, %t, 31; setp.ne.u32 %p1, %r7, 0; @%p1 bra OUT; atom.shared.exch.b32 %r1, [kept], %t; st.global.b32 [%yt], %r1; OUT:"
    seen = set()
    for seed in range(6):
        with emulated_gpu(seed=seed):
            seen.add(tuple(lanes_of(kernel(body), np.zeros(256, np.uint32), 256)[::32].tolist()))
    assert len(seen) > 1


TRAFFIC = [
    ("neighbours", "ld.global.b32 %r1, [%xt];", "global", 4, 4), ("every second word", "add.s64 %xt, %xt, %o; ld.global.b32 %r1, [%xt];", "global", 8, 4),
    ("a column", "shl.b64 %o, %o, 5; add.s64 %xt, %x, %o; ld.global.b32 %r1, [%xt];", "global", 32, 4),
    ("one word for all", "ld.global.b32 %r1, [%x];", "global", 1, 1),
    ("no conflict", f"{KEPT} st.shared.b32 [%r5], %t;", "shared", 1, 1), ("two ways", f"{KEPT} add.s32 %r5, %r5, %r6; st.shared.b32 [%r5], %t;", "shared", 2, 1),
    ("32 ways", ".shared .align 4 .b8 kept[4096]; mov.b32 %r5, kept; shl.b32 %r6, %t, 7; add.s32 %r5, %r5, %r6; st.shared.b32 [%r5], %t;", "shared", 32, 1),
    ("vectors", f"{KEPT} shl.b32 %r6, %t, 4; mov.b32 %r5, kept; add.s32 %r5, %r5, %r6; st.shared.v4.b32 [%r5], {{%t, %t, %t, %t}};", "shared", 4, 4),
]  # fmt: skip


@pytest.mark.parametrize(
    "body, scope, transactions, ideal", [row[1:] for row in TRAFFIC], ids=[row[0] for row in TRAFFIC]
)
def test_traffic_of_an_access(body, scope, transactions, ideal):
    with emulated_gpu() as gpu:
        lanes_of(kernel(body), np.zeros(1024, np.uint32))
        (site,) = [one for one in gpu.traffic if one.scope == scope]
        assert (site.requests, site.transactions, site.ideal) == (1, transactions, ideal)
        assert site.line is not None


VECTOR = (
    ".local .align 16 .b8 own[16]; mov.b64 %d1, own; st.local.v2.b32 [%d1], {7, 8}; st.local.b32 [%d1+8], 9;"
    "ld.local.v4.b32 {%r1, %r2, %r3, %r4}, [%d1];"
)
"""As LLVM reads the last three words of 67."""
HALF = "mov.b16 %h2, 5; bar.warp.sync -1; st.shared.b16 [%r5], 3; ld.shared.b32 %r1, [%r5];"
WIDE = (
    ".local .align 32 .b8 own[32]; mov.b64 %d1, own; st.local.v4.b32 [%d1+16], {5, 6, 7, 8}; st.local.b32 [%d1], 9;"
    "ld.local.v8.b32 {%r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18}, [%d1];"
)
LOADED = f"{KEPT} ld.shared.b32 %r1, [%r5];"
USES = [
    ("nothing", "mov.b32 %r2, %r1; mov.b32 %r2, 7; st.global.b32 [%yt], %r2;", False),
    ("a choice of the other", "setp.ge.u32 %p1, %t, 0; selp.b32 %r2, 7, %r1, %p1; st.global.b32 [%yt], %r2;", False),
    ("a choice of it", "setp.lt.u32 %p1, %t, 9; selp.b32 %r2, 7, %r1, %p1; st.global.b32 [%yt], %r2;", True),
    (
        "a condition that another decides",
        "setp.gt.u32 %p1, %r1, 3; setp.gt.u32 %p2, %t, 99; and.pred %p1, %p2, %p1; @%p1 st.global.b32 [%yt], 7;",
        False,
    ),
    (
        "a condition",
        "setp.gt.u32 %p1, %r1, 3; setp.gt.u32 %p2, %t, 9; and.pred %p1, %p1, %p2; @%p1 st.global.b32 [%yt], 7;",
        True,
    ),
    (
        "its other bytes",
        "st.shared.b8 [%r5], 7; ld.shared.b32 %r1, [%r5]; prmt.b32 %r2, %r1, 0, 0x7770; st.global.b32 [%yt], %r2;",
        False,
    ),
    (
        "a byte of it",
        "st.shared.b8 [%r5], 7; ld.shared.b32 %r1, [%r5]; prmt.b32 %r2, %r1, 0, 0x7771; st.global.b32 [%yt], %r2;",
        True,
    ),
    ("the other words of a vector", f"{VECTOR} add.s32 %r1, %r1, %r3; st.global.b32 [%yt], %r1;", False),
    ("a word of a vector", f"{VECTOR} st.global.b32 [%yt], %r4;", True),
    ("what no register holds", f"{VECTOR.replace('%r4', '_')} add.s32 %r1, %r2, %r3; st.global.b32 [%yt], %r1;", False),
    ("the other half of a wide vector", f"{WIDE} add.s32 %r1, %r11, %r18; st.global.b32 [%yt], %r1;", False),
    ("a word of a wide vector", f"{WIDE} st.global.b32 [%yt], %r14;", True),
    (
        "the other half of a word",
        f"{HALF} mov.b32 {{%h1, _}}, %r1; mov.b32 %r2, {{%h1, %h1}}; st.global.b32 [%yt], %r2;",
        False,
    ),
    ("half of a word", f"{HALF} mov.b32 {{_, %h1}}, %r1; mov.b32 %r2, {{%h2, %h1}}; st.global.b32 [%yt], %r2;", True),
    (
        "the half beside it",
        f"{HALF} mov.b32 {{_, %h1}}, %r1; mov.b32 %r2, {{%h2, %h1}}; st.global.b16 [%yt], %h2;",
        False,
    ),
    ("arithmetic", "add.s32 %r2, %r1, 1; mul.lo.s32 %r2, %r2, 3; st.global.b32 [%yt], %r2;", True),
    ("a branch", "setp.gt.u32 %p1, %r1, 3; @%p1 bra OVER; st.global.b32 [%yt], 7; OVER:", True),
    ("an address", "and.b32 %r1, %r1, 4; cvt.u64.u32 %d1, %r1; add.s64 %d1, %x, %d1; ld.global.b32 %r2, [%d1];", True),
    ("another lane", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", True),
    ("lanes that do not run", "setp.gt.u32 %p1, %t, 99; @%p1 st.global.b32 [%yt], %r1;", False),
    (
        "a loop that does not turn",
        "mov.b32 %r3, %t; LOOP: setp.lt.u32 %p1, %r3, 99; @%p1 bra END; st.global.b32 [%yt], %r1; bra LOOP; END:",
        False,
    ),
]


@pytest.mark.parametrize("body, told", [row[1:] for row in USES], ids=[row[0] for row in USES])
def test_undefined_values_are_told_of_where_they_are_used(body, told):
    """Compilers load ahead of loops that may not turn: a load alone does no harm."""
    with emulated_gpu() as gpu:
        lanes_of(kernel(f"{LOADED} {body}"), X)
        assert [one.kind for one in gpu.findings] == ["uninitialised"] * told
        assert not told or "is used here" in str(gpu.findings[0])
