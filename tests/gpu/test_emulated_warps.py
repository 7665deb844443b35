"""Warps, blocks and memory, on the device of this machine or the emulated one: exchange between lanes, barriers, matrices, vectors,
atomic updates."""

from functools import reduce

import ml_dtypes
import numpy as np
import pytest
from device_choice import device_or_emulated
from emulated import Arrays, kernel, lanes_of

pytestmark = pytest.mark.gpu
LANE = np.arange(32)


@pytest.fixture(params=[None, 7])
def gpu(request):
    with device_or_emulated("sm_90a", seed=request.param) as made:
        yield made


def one(body: str, given: np.ndarray, gpu, **rest) -> np.ndarray:
    """The words of one warp, with the given word in %r1 and the result in %r2; nothing is found wrong."""
    found = lanes_of(kernel(f"ld.global.b32 %r1, [%xt];\n{body}\nst.global.b32 [%yt], %r2;", "sm_90a", **rest), given)
    assert gpu is None or gpu.findings == []
    return found


def words(seed: int = 0, high: int = 1 << 32, count: int = 32) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, count, np.uint64).astype(np.uint32)


@pytest.mark.parametrize("kind", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(gpu, kind, width):
    x = words()
    for given in (0, 1, 3, 5, 17, 32, 41, -1):
        amount = given & 31  # the instruction takes five bits
        c = (0 if kind == "up" else 31) | (32 - width) << 8
        found = one(
            f"shfl.sync.{kind}.b32 %r2|%p1, %r1, {given}, {c}, -1; selp.b32 %r3, 1, 0, %p1; xor.b32 %r2, %r2, %r3;",
            x,
            gpu,
        )
        for lane in range(32):
            first = lane // width * width
            source = {"up": lane - amount, "down": lane + amount, "bfly": lane ^ amount, "idx": first + amount % width}[
                kind
            ]
            inside = source >= first if kind == "up" else source < first + width
            assert found[lane] == (x[source] if inside else x[lane]) ^ inside, (lane, given)


def test_votes_matches_and_reductions(gpu):
    x = words(1, 4)
    odd = "and.b32 %r3, %r1, 1; setp.ne.b32 %p1, %r3, 0;"
    ballot = int(((x & 1).astype(np.uint64) << LANE.astype(np.uint64)).sum())
    assert (one(f"{odd} vote.sync.ballot.b32 %r2, %p1, -1;", x, gpu) == ballot).all()
    for kind, wanted in (("any", True), ("all", False), ("uni", False)):
        assert (one(f"{odd} vote.sync.{kind}.pred %p2, %p1, -1; selp.b32 %r2, 1, 0, %p2;", x, gpu) == wanted).all()
    equal = [int(sum(1 << k for k in range(32) if x[k] == v)) for v in x]
    assert one("match.any.sync.b32 %r2, %r1, -1;", x, gpu).tolist() == equal
    assert (one("match.all.sync.b32 %r2|%p1, %r1, -1;", x, gpu) == 0).all()
    assert (one("mov.b32 %r1, 5; match.all.sync.b32 %r2|%p1, %r1, -1;", x, gpu) == 0xFFFFFFFF).all()
    big = words(2)
    for kind, run in (("add.u32", lambda a, b: a + b), ("min.u32", min), ("max.u32", max), ("and.b32", lambda a, b: a & b),
                      ("or.b32", lambda a, b: a | b), ("xor.b32", lambda a, b: a ^ b)):  # fmt: skip
        wanted = reduce(run, [int(v) for v in big]) % (1 << 32)
        assert (one(f"redux.sync.{kind} %r2, %r1, -1;", big, gpu) == wanted).all()
    signed = big.view(np.int32)
    assert (one("redux.sync.min.s32 %r2, %r1, -1;", big, gpu).view(np.int32) == signed.min()).all()
    assert one("elect.sync %r3|%p1, -1; selp.b32 %r2, 1, 0, %p1;", x, gpu).tolist() == [1] + [0] * 31


def test_parts_of_a_warp(gpu):
    """Lanes above 19 vote and shuffle among themselves, the others later: masks name those who take part."""
    body = """
  setp.gt.u32 %p1, %t, 19; @!%p1 bra LOW;
  activemask.b32 %r2; vote.sync.ballot.b32 %r3, %p1, 0xFFF00000; shfl.sync.idx.b32 %r4, %r1, 25, 31, 0xFFF00000;
  xor.b32 %r2, %r2, %r3; add.s32 %r2, %r2, %r4; bra END;
LOW: redux.sync.add.u32 %r2, %r1, 0x000FFFFF;
END: bar.warp.sync -1;"""
    x = words(3, 1000)
    found = one(body, x, gpu)
    assert (found[:20] == x[:20].sum()).all() and (found[20:] == x[25]).all()


def test_barriers_with_numbers_counts_and_votes(gpu):
    """Warps 0 and 1 fill and announce, warps 2 and 3 wait; then all vote."""
    body = """
  .shared .align 4 .b32 kept[64];
  mov.b32 %r5, kept; and.b32 %r6, %t, 63; shl.b32 %r7, %r6, 2; add.s32 %r5, %r5, %r7;
  setp.gt.u32 %p1, %t, 63; @%p1 bra TAKE;
  ld.global.b32 %r1, [%xt]; st.shared.b32 [%r5], %r1; bar.arrive 1, 128; mov.b32 %r2, 0; bra MEET;
TAKE: bar.sync 1, 128; ld.shared.b32 %r2, [%r5];
MEET: setp.gt.u32 %p2, %r2, 500; barrier.cta.red.popc.aligned.u32 %r3, 0, %p2;
  barrier.cta.red.and.aligned.pred %p3, 0, %p2; barrier.cta.red.or.aligned.pred %p4, 0, %p2;
  selp.b32 %r4, 1000, 0, %p3; add.s32 %r3, %r3, %r4; selp.b32 %r4, 2000, 0, %p4; add.s32 %r3, %r3, %r4;
  add.s32 %r2, %r2, %r3; st.global.b32 [%yt], %r2;"""
    x = np.concatenate([words(4, 1000, 64), np.zeros(64, np.uint32)])
    found = lanes_of(kernel(body), x, 128)
    votes = int((x[:64] > 500).sum()) + 2000
    assert (found[:64] == votes).all() and (found[64:] == x[:64] + votes).all()


# ---- memory


def test_vectors_of_every_width(gpu):
    x = words(5, count=32 * 4)
    for vector, type_, count in (
        ("v2", "b32", 2),
        ("v4", "b32", 4),
        ("v2", "b64", 2),
        ("v4", "b16", 4),
        ("v2", "b8", 2),
    ):
        size = count * int(type_[1:]) // 8
        kept = {"b32": "%r", "b64": "%d", "b16": "%h", "b8": "%h"}[type_]
        names = "{" + ", ".join(f"{kept}{k + 1}" for k in range(count)) + "}"
        body = f"mul.wide.u32 %d9, %t, {size}; add.s64 %d10, %x, %d9; add.s64 %d11, %y, %d9; ld.global.nc.{vector}.{type_} {names}, [%d10]; st.global.{vector}.{type_} [%d11], {names};"
        found = lanes_of(kernel(body), x, words=4).view(np.uint8)
        assert (found[: 32 * size] == x.view(np.uint8)[: 32 * size]).all() and (found[32 * size :] == 255).all()


def test_extension_of_loaded_numbers(gpu):
    x = words(6)
    found = one("ld.global.s8 %r2, [%xt+1];", x, gpu).view(np.int32)
    assert (found == x.view(np.int8)[1::4]).all()
    assert (one("ld.global.u16 %r2, [%xt+2];", x, gpu) == x >> 16).all()
    hinted = "createpolicy.fractional.L2::evict_last.b64 %d1, 1.0; ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.b32 %r2, [%xt], %d1;"
    assert (one(hinted, x, gpu) == x).all()


def test_local_and_generic_memory(gpu):
    """Each thread has its own; one instruction reaches local, shared and global memory by generic addresses."""
    body = """
  .local .align 16 .b8 depot[32]; .shared .align 4 .b32 kept[32];
  mov.b64 %d1, depot; cvta.local.u64 %d2, %d1; and.b32 %r3, %t, 7; mul.wide.u32 %d3, %r3, 4; add.s64 %d4, %d2, %d3; st.b32 [%d4], %r1;
  mov.b64 %d5, kept; cvta.shared.u64 %d5, %d5; mul.wide.u32 %d6, %t, 4; add.s64 %d6, %d5, %d6; add.s32 %r4, %r1, 1; st.b32 [%d6], %r4;
  cvta.global.u64 %d7, %xt;
  setp.lt.u32 %p1, %t, 10; setp.lt.u32 %p2, %t, 20; selp.b64 %d8, %d6, %d7, %p2; selp.b64 %d8, %d4, %d8, %p1;
  ld.b32 %r2, [%d8]; cvta.to.local.u64 %d9, %d4; isspacep.shared %p3, %d8; selp.b32 %r5, 1000, 0, %p3; add.s32 %r2, %r2, %r5;"""
    x = words(7)
    found = one(body, x, gpu)
    assert (found == x + np.where((LANE >= 10) & (LANE < 20), 1001, 0).astype(np.uint32)).all()


ATOMICS = {
    "add.u32": lambda m, v: m + v, "min.s32": None, "max.u32": max, "and.b32": lambda m, v: m & v, "or.b32": lambda m, v: m | v,
    "xor.b32": lambda m, v: m ^ v, "exch.b32": lambda m, v: v, "inc.u32": lambda m, v: 0 if m >= v else m + 1,
    "dec.u32": lambda m, v: v if m == 0 or m > v else m - 1,
}  # fmt: skip


@pytest.mark.parametrize("operation", ATOMICS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomic_updates_one_after_the_other(operation, space):
    """Lanes meet on four words: each gets what another one left, on the emulated device in the order of lanes."""
    x = words(8)
    start = np.array([0, 5, 0x80000001, 77], np.uint32)
    at = "%d9" if space == "global" else "%r6"
    body = f"""
  .shared .align 4 .b32 kept[4];
  ld.global.b32 %r1, [%xt]; and.b32 %r3, %t, 3; mul.wide.u32 %d8, %r3, 4; add.s64 %d9, %x, %d8; add.s64 %d9, %d9, 128;
  mov.b32 %r5, kept; shl.b32 %r6, %r3, 2; add.s32 %r6, %r5, %r6; setp.lt.u32 %p1, %t, 4;
  @%p1 ld.global.b32 %r7, [%d9]; @%p1 st.shared.b32 [%r6], %r7; bar.sync 0;
  atom.{space}.{operation} %r2, [{at}], %r1; st.global.b32 [%yt], %r2;"""

    def smaller(m: int, v: int) -> int:
        return min(m, v, key=lambda w: w - (1 << 32) if w >> 31 else w)

    with device_or_emulated() as gpu:
        found = lanes_of(kernel(body), np.concatenate([x, start]))
    run = ATOMICS[operation] or smaller

    def follow(now: int, lanes: list[int]) -> bool:
        """Whether the lanes went one after the other, in some order or, on the emulated device, in their own."""
        return not lanes or any(
            found[lane] == now and follow(run(now, int(x[lane])) % (1 << 32), [k for k in lanes if k != lane])
            for lane in (lanes if gpu is None else lanes[:1])
        )

    assert all([follow(int(start[word]), list(range(word, 32, 4))) for word in range(4)])


def test_compare_and_swap_takes_turns(gpu):
    """A sum by compare-and-swap loops: each lane tries until its own update went in."""
    body = """
AGAIN: ld.relaxed.gpu.global.b32 %r3, [%x+128]; add.s32 %r4, %r3, %r1;
  atom.global.cas.b32 %r2, [%x+128], %r3, %r4; setp.ne.b32 %p1, %r2, %r3; @%p1 bra AGAIN;"""
    x = np.concatenate([words(9, 100), np.zeros(1, np.uint32)])
    arrays = Arrays()
    place, y = arrays.put(x), arrays.room(128)
    arrays.run(kernel(f"ld.global.b32 %r1, [%xt];\n{body}\nst.global.b32 [%yt], %r2;"), "k", (1,), (32,), place, y)
    assert arrays.get(place + 128, 1, np.uint32)[0] == x.sum()


# ---- matrices


def elements(bits: int, rows: int, k: int):
    """Place of each element of A and B in lanes and registers, as the tables of the PTX ISA have it."""
    per = max(1, 32 // bits)
    a, b = {}, {}
    for lane in range(32):
        group, member = lane // 4, lane % 4
        for i in range(rows * k // 32):
            word, part = divmod(i, per)
            high = word % (rows // 8)
            a[lane, i] = (group + 8 * high, member * per + part + word // (rows // 8) * 4 * per)
        for i in range(8 * k // 32):
            word, part = divmod(i, per)
            b[lane, i] = (member * per + part + word * 4 * per, group)
    return a, b


def packed(matrix: np.ndarray, places: dict, bits: int) -> np.ndarray:
    """Registers of each lane with the elements of a matrix."""
    count = len(places) // 32
    if bits == 4:
        rows = np.zeros((32, count // 8), np.uint32)
        for (lane, i), place in places.items():
            rows[lane, i // 8] |= np.uint32((int(matrix[place]) & 15) << 4 * (i % 8))
        return rows
    rows = np.zeros((32, count), matrix.dtype)
    for (lane, i), place in places.items():
        rows[lane, i] = matrix[place]
    return rows.view(np.uint64 if bits == 64 else np.uint32)


BF16 = np.dtype(ml_dtypes.bfloat16)
SHAPES = [
    ("m16n8k8", "f32.f16.f16.f32", np.float16, np.float32), ("m16n8k16", "f32.f16.f16.f32", np.float16, np.float32),
    ("m16n8k16", "f16.f16.f16.f16", np.float16, np.float16), ("m16n8k8", "f32.bf16.bf16.f32", BF16, np.float32),
    ("m16n8k16", "f32.bf16.bf16.f32", BF16, np.float32), ("m16n8k4", "f32.tf32.tf32.f32", np.float32, np.float32),
    ("m16n8k8", "f32.tf32.tf32.f32", np.float32, np.float32), ("m16n8k16", "s32.s8.s8.s32", np.int8, np.int32),
    ("m16n8k32", "s32.s8.s8.s32", np.int8, np.int32), ("m16n8k32", "s32.u8.u8.s32", np.uint8, np.int32),
    ("m8n8k16", "s32.s8.s8.s32", np.int8, np.int32), ("m16n8k64", "s32.s4.s4.s32", np.int8, np.int32),
    ("m8n8k32", "s32.u4.u4.s32", np.uint8, np.int32), ("m8n8k4", "f64.f64.f64.f64", np.float64, np.float64),
    ("m16n8k8", "f64.f64.f64.f64", np.float64, np.float64),
    ("m16n8k32", "f32.e4m3.e4m3.f32", np.dtype(ml_dtypes.float8_e4m3fn), np.float32),
]  # fmt: skip


@pytest.mark.parametrize("shape, types, kind, result", SHAPES, ids=[f"{s[0]}-{s[1]}" for s in SHAPES])
def test_products_of_a_warp(shape, types, kind, result):
    m, k = int(shape[1 : shape.index("n")]), int(shape.split("k")[1])
    bits = 4 if types.split(".")[1][1:] == "4" else np.dtype(kind).itemsize * 8
    rng = np.random.default_rng(10)
    low, high = (0, 8) if np.dtype(kind).kind == "u" else (-4, 4)
    a, b = [rng.integers(low, high, s).astype(kind) for s in ((m, k), (k, 8))]
    c = rng.integers(-9, 9, (m, 8)).astype(result)
    a_places, b_places = elements(bits, m, k)
    c_places = {
        (lane, i): (lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2) for lane in range(32) for i in range(m * 8 // 32)
    }
    wide = np.dtype(result).itemsize * 8
    parts = [packed(a, a_places, bits), packed(b, b_places, bits), packed(c, c_places, wide)]
    letter, word = ("d", "b64") if wide == 64 else ("r", "b32")
    lines, names, at, base = [], [], 0, 1
    size = 8 if wide == 64 else 4
    for part in parts:
        row = [f"%{letter}{base + n}" for n in range(part.shape[1])]
        for n, name in enumerate(row):
            lines.append(
                f"mul.wide.u32 %xt, %t, {size * part.shape[1]}; add.s64 %xt, %xt, %x; ld.global.{word} {name}, [%xt+{at + size * n}];"
            )
        names.append("{" + ", ".join(row) + "}")
        at, base = at + part.nbytes, base + part.shape[1]
    out = names[2]
    saves = "\n".join(f"mul.wide.u32 %yt, %t, {size * parts[2].shape[1]}; add.s64 %yt, %yt, %y; st.global.{word} [%yt+{size * n}], {name.strip('{} ')};"
                      for n, name in enumerate(out.split(",")))  # fmt: skip
    text = f"mma.sync.aligned.{shape}.row.col.{types} {out}, {names[0]}, {names[1]}, {out};"
    with device_or_emulated("sm_90"):
        arrays = Arrays()
        y = arrays.room(parts[2].nbytes)
        given = np.concatenate([p.view(np.uint8).ravel() for p in parts])
        arrays.run(kernel("\n".join(lines) + text + saves, "sm_90"), "k", (1,), (32,), arrays.put(given), y)
        found = arrays.get(y, (32, m * 8 // 32), result)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert all(found[lane, i] == exact[place] for (lane, i), place in c_places.items())


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_to_registers_and_back(count, trans):
    """ldmatrix and stmatrix: lane 8 n + r names row r of matrix n; a lane holds two neighbours of row lane / 4."""
    regs = "{" + ", ".join(f"%r{k + 10}" for k in range(count)) + "}"
    body = f"""
  .shared .align 16 .b8 a[512]; .shared .align 16 .b8 c[512];
  mov.b32 %r5, a; mov.b32 %r6, c; shl.b32 %r7, %t, 4; add.s32 %r5, %r5, %r7; add.s32 %r6, %r6, %r7;
  mul.wide.u32 %d1, %t, 16; add.s64 %d2, %x, %d1; ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d2]; st.shared.v4.b32 [%r5], {{%r1, %r2, %r3, %r4}};
  st.shared.v4.b32 [%r6], {{%r1, %r2, %r3, %r4}};
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {regs}, [%r5];
  stmatrix.sync.aligned.m8n8.x{count}.shared.b16 [%r6], {regs};
  bar.warp.sync -1;
  add.s64 %d3, %y, %d1; ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%r6]; st.global.v4.b32 [%d3], {{%r1, %r2, %r3, %r4}};"""
    x = words(11, count=128)
    with device_or_emulated("sm_90"):
        found = lanes_of(kernel(body, "sm_90"), x, words=4).view(np.uint16).reshape(4, 8, 8)
    wanted = x.view(np.uint16).reshape(4, 8, 8).copy()
    if trans:
        wanted[:count] = wanted[:count].transpose(0, 2, 1)
    assert (found == wanted).all()


@pytest.mark.parametrize("a_layout, b_layout", [("row", "row"), ("col", "row"), ("row", "col")])
def test_fragments_of_wmma(a_layout, b_layout):
    rng = np.random.default_rng(12)
    a, b = [rng.integers(-4, 4, (16, 16)).astype(np.float16) for _ in range(2)]
    c = rng.integers(-9, 9, (16, 16)).astype(np.float32)
    names = {p: "{" + ", ".join(f"%r{k + n}" for k in range(8)) + "}" for p, n in (("a", 1), ("b", 9), ("c", 17))}
    body = f"""
  wmma.load.a.sync.aligned.{a_layout}.m16n16k16.global.f16 {names["a"]}, [%x], 16;
  wmma.load.b.sync.aligned.{b_layout}.m16n16k16.global.f16 {names["b"]}, [%x+512], 16;
  wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {names["c"]}, [%x+1024], 16;
  wmma.mma.sync.aligned.{a_layout}.{b_layout}.m16n16k16.f32.f32 {names["c"]}, {names["a"]}, {names["b"]}, {names["c"]};
  wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%y], {names["c"]}, 16;"""
    given = [a if a_layout == "row" else a.T.copy(), b if b_layout == "row" else b.T.copy(), c]
    with device_or_emulated():
        found = lanes_of(
            kernel(body), np.concatenate([g.view(np.uint8).ravel() for g in given]), kind=np.float32, words=8
        )
    assert (a.astype(np.float32) @ b.astype(np.float32) + c == found.reshape(16, 16).T).all()


def test_copies_fill_with_zeros_and_keep_their_groups(gpu):
    """cp.async of fewer bytes than it stores; the older of two groups has come when one is left."""
    body = """
  .shared .align 16 .b8 kept[1024];
  mov.b32 %r5, kept; shl.b32 %r6, %t, 4; add.s32 %r5, %r5, %r6; mul.wide.u32 %d1, %t, 16; add.s64 %d2, %x, %d1; shr.u32 %r7, %t, 1;
  cp.async.cg.shared.global [%r5], [%d2], 16, %r7; cp.async.commit_group;
  cp.async.ca.shared.global [%r5+512], [%d2], 4; cp.async.commit_group;
  cp.async.wait_group 1; ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5]; add.s64 %d3, %y, %d1; cp.async.wait_all; ld.shared.b32 %r8, [%r5+512];
  add.s32 %r4, %r4, %r8; st.global.v4.b32 [%d3], {%r1, %r2, %r3, %r4};"""
    x = words(13, count=128)
    found = lanes_of(kernel(body), x, words=4).reshape(32, 4)
    wanted = x.view(np.uint8).reshape(32, 16).copy()
    for lane in range(32):
        wanted[lane, lane // 2 :] = 0
    wanted = wanted.view(np.uint32)
    wanted[:, 3] += x.reshape(32, 4)[:, 0]
    assert (found == wanted).all()
