"""LLVM IR of the allocator for results, arenas and temporaries of kernels; compiled by ``native_helpers``.

Fresh memory from the system costs about 0.2 ms per megabyte at the first touch, several times what most kernels need for it. So
blocks that are given back wait in a few slots for the next request of about their size, and large blocks are asked for in huge
pages. A block is [padding, header of 64 bytes, data]; the header has the start and the length of its mapping (0: from malloc), the
bytes behind it and a mark. Invariants: a block is in at most one slot or in use, because slots change by exchange alone (no lock:
a fork finds them whole); memory that has no mark goes back to ``free``; what waits stays below ``unity_memory_limit``.
"""

from __future__ import annotations

import platform

SLOT_COUNT = 32
MIN_POOLED = 64 << 10
"""Blocks below this size are left to malloc, which keeps them itself."""
HUGE_PAGE = 2 << 20
_COLOUR = 4096 + 256
"""Step between the places of blocks in their first page, so that equal places of several tensors share no cache set."""

_IR = """\
@unity_memory_limit = global i64 268435456
@unity_memory_kept = global i64 0, align 64
@unity.memory.slots = internal global [SLOT_COUNT x ptr] zeroinitializer, align 64
@unity.memory.sizes = internal global [SLOT_COUNT x i64] zeroinitializer, align 64
@unity.memory.clock = internal global i64 0, align 64
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

define internal i64 @unity.memory.mark(ptr %p) alwaysinline {{
  %at = ptrtoint ptr %p to i64
  %mark = xor i64 %at, 6149008514797120170
  ret i64 %mark
}}
define internal i1 @unity.memory.marked(ptr %p) {{
  %place = getelementptr i8, ptr %p, i64 -8
  %found = load i64, ptr %place
  %mark = call i64 @unity.memory.mark(ptr %p)
  %same = icmp eq i64 %found, %mark
  ret i1 %same
}}
; Write a header in front of the data.
define internal void @unity.memory.head(ptr %p, ptr %base, i64 %mapped, i64 %size) {{
  %p0 = getelementptr i8, ptr %p, i64 -32
  store ptr %base, ptr %p0
  %p1 = getelementptr i8, ptr %p, i64 -24
  store i64 %mapped, ptr %p1
  %p2 = getelementptr i8, ptr %p, i64 -16
  store i64 %size, ptr %p2
  %p3 = getelementptr i8, ptr %p, i64 -8
  %mark = call i64 @unity.memory.mark(ptr %p)
  store i64 %mark, ptr %p3
  ret void
}}
define internal i64 @unity.memory.size(ptr %p) alwaysinline {{
  %place = getelementptr i8, ptr %p, i64 -16
  %size = load i64, ptr %place
  ret i64 %size
}}
; Give a block back to the system.
define internal void @unity.memory.release(ptr %p) noinline {{
  %p0 = getelementptr i8, ptr %p, i64 -32
  %base = load ptr, ptr %p0
  %p1 = getelementptr i8, ptr %p, i64 -24
  %mapped = load i64, ptr %p1
  %p3 = getelementptr i8, ptr %p, i64 -8
  store i64 0, ptr %p3
  %plain = icmp eq i64 %mapped, 0
  br i1 %plain, label %heap, label %map
heap:
  call void @free(ptr %base)
  ret void
map:
  %rc = call i32 @munmap(ptr %base, i64 %mapped)
  ret void
}}
; Take what waits in a slot out of it, or null.
define internal ptr @unity.memory.take(i64 %i) {{
  %slot = getelementptr ptr, ptr @unity.memory.slots, i64 %i
  %p = atomicrmw xchg ptr %slot, ptr null seq_cst
  %none = icmp eq ptr %p, null
  br i1 %none, label %done, label %count
count:
  %size = call i64 @unity.memory.size(ptr %p)
  %was = atomicrmw sub ptr @unity_memory_kept, i64 %size seq_cst
  br label %done
done:
  ret ptr %p
}}
; A block that waits and has %n bytes, at most twice as many, at the alignment; or null.
define internal ptr @unity.memory.find(i64 %align, i64 %n) noinline {{
entry:
  %most = shl i64 %n, 1
  %low = sub i64 %align, 1
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i2, %next ]
  %end = icmp eq i64 %i, {SLOT_COUNT}
  br i1 %end, label %none, label %look
look:
  %sizep = getelementptr i64, ptr @unity.memory.sizes, i64 %i
  %hint = load atomic i64, ptr %sizep monotonic, align 8
  %big = icmp uge i64 %hint, %n
  %small = icmp ule i64 %hint, %most
  %maybe = and i1 %big, %small
  br i1 %maybe, label %try, label %next
try:
  %p = call ptr @unity.memory.take(i64 %i)
  %gone = icmp eq ptr %p, null
  br i1 %gone, label %next, label %check
check:  ; the size was a hint
  %size = call i64 @unity.memory.size(ptr %p)
  %enough = icmp uge i64 %size, %n
  %notmuch = icmp ule i64 %size, %most
  %at = ptrtoint ptr %p to i64
  %off = and i64 %at, %low
  %aligned = icmp eq i64 %off, 0
  %fits = and i1 %enough, %notmuch
  %good = and i1 %fits, %aligned
  br i1 %good, label %found, label %back
found:
  ret ptr %p
back:
  call void @unity_memory_free(ptr %p)
  br label %next
next:
  %i2 = add i64 %i, 1
  br label %loop
none:
  ret ptr null
}}
; %n bytes (at least 64) at a multiple of %align (a power of two), or null. Freed by unity_memory_free.
define ptr @unity_memory_alloc(i64 %align_wish, i64 %bytes) {{
entry:
  %align = call i64 @llvm.umax.i64(i64 %align_wish, i64 64)
  %least = call i64 @llvm.umax.i64(i64 %bytes, i64 1)
  %more = add i64 %least, 63
  %n = and i64 %more, -64
  %insane = icmp ugt i64 %bytes, 140737488355328
  br i1 %insane, label %none, label %sane
none:
  ret ptr null
sane:
  %kept = icmp uge i64 %n, {MIN_POOLED}
  br i1 %kept, label %search, label %heap
search:
  %waiting = call ptr @unity.memory.find(i64 %align, i64 %n)
  %fresh = icmp eq ptr %waiting, null
  br i1 %fresh, label %where, label %again
again:
  ret ptr %waiting
where:
  %huge = icmp uge i64 %n, {LEAST_MAPPED}
  br i1 %huge, label %map, label %heap
map:  ; one huge page more than needed, to begin at one
  %slack = add i64 %align, {MAP_SLACK}
  %wanted = add i64 %n, %slack
  %pages = add i64 %wanted, 4095
  %length = and i64 %pages, -4096
  %base = call ptr @mmap(ptr null, i64 %length, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %base to i64
  %refused = icmp eq i64 %address, -1
  br i1 %refused, label %none, label %advise
advise:
  %up = add i64 %address, {HUGE_LAST}
  %first = and i64 %up, -{HUGE_PAGE}
  %number = atomicrmw add ptr @unity.memory.clock, i64 1 monotonic
  %sixteenth = and i64 %number, 15
  %colour = mul i64 %sixteenth, {COLOUR}
  %behind = add i64 %colour, 64
  %raw = add i64 %first, %behind
  %last = sub i64 %align, 1
  %over = add i64 %raw, %last
  %mask = sub i64 0, %align
  %data = and i64 %over, %mask
  %stop = add i64 %data, %n
  %whole = and i64 %stop, -{HUGE_PAGE}
  %span = sub i64 %whole, %first
  %start = inttoptr i64 %first to ptr
  %rc = call i32 @madvise(ptr %start, i64 %span, i32 14)
  %mp = inttoptr i64 %data to ptr
  call void @unity.memory.head(ptr %mp, ptr %base, i64 %length, i64 %n)
  ret ptr %mp
heap:
  %total = add i64 %n, %align
  %rounding = sub i64 %align, 1
  %padded = add i64 %total, %rounding
  %negative = sub i64 0, %align
  %size = and i64 %padded, %negative
  %hb = call ptr @aligned_alloc(i64 %align, i64 %size)
  %bad = icmp eq ptr %hb, null
  br i1 %bad, label %none, label %made
made:
  %hp = getelementptr i8, ptr %hb, i64 %align
  call void @unity.memory.head(ptr %hp, ptr %hb, i64 0, i64 %n)
  ret ptr %hp
}}
; Give a block back (null is nothing): it waits for the next request, or goes to the system.
define void @unity_memory_free(ptr %p) {{
entry:
  %null = icmp eq ptr %p, null
  br i1 %null, label %done, label %look
done:
  ret void
look:
  %ours = call i1 @unity.memory.marked(ptr %p)
  br i1 %ours, label %size, label %foreign
foreign:
  call void @free(ptr %p)
  ret void
size:
  %n = call i64 @unity.memory.size(ptr %p)
  %limit = load atomic i64, ptr @unity_memory_limit monotonic, align 8
  %large = icmp uge i64 %n, {MIN_POOLED}
  %bounded = icmp ule i64 %n, %limit
  %keep = and i1 %large, %bounded
  br i1 %keep, label %find, label %system
system:
  call void @unity.memory.release(ptr %p)
  ret void
find:
  br label %loop
loop:
  %i = phi i64 [ 0, %find ], [ %i2, %next ]
  %end = icmp eq i64 %i, {SLOT_COUNT}
  br i1 %end, label %replace, label %try
try:
  %slot = getelementptr ptr, ptr @unity.memory.slots, i64 %i
  %there = load atomic ptr, ptr %slot monotonic, align 8
  %empty = icmp eq ptr %there, null
  br i1 %empty, label %place, label %next
place:
  %was = atomicrmw add ptr @unity_memory_kept, i64 %n seq_cst
  %swap = cmpxchg ptr %slot, ptr null, ptr %p seq_cst seq_cst
  %won = extractvalue {{ ptr, i1 }} %swap, 1
  br i1 %won, label %placed, label %lost
lost:
  %minus = atomicrmw sub ptr @unity_memory_kept, i64 %n seq_cst
  br label %next
next:
  %i2 = add i64 %i, 1
  br label %loop
replace:  ; all are taken: the block takes the place of another
  %turn = atomicrmw add ptr @unity.memory.clock, i64 1 monotonic
  %victim = urem i64 %turn, {SLOT_COUNT}
  %vslot = getelementptr ptr, ptr @unity.memory.slots, i64 %victim
  %plus = atomicrmw add ptr @unity_memory_kept, i64 %n seq_cst
  %old = atomicrmw xchg ptr %vslot, ptr %p seq_cst
  %nobody = icmp eq ptr %old, null
  br i1 %nobody, label %placed, label %evict
evict:
  %oldsize = call i64 @unity.memory.size(ptr %old)
  %less = atomicrmw sub ptr @unity_memory_kept, i64 %oldsize seq_cst
  call void @unity.memory.release(ptr %old)
  br label %placed
placed:
  %home = phi i64 [ %i, %place ], [ %victim, %replace ], [ %victim, %evict ]
  %sizep = getelementptr i64, ptr @unity.memory.sizes, i64 %home
  store atomic i64 %n, ptr %sizep monotonic, align 8
  %held = load atomic i64, ptr @unity_memory_kept seq_cst, align 8
  %toomuch = icmp ugt i64 %held, %limit
  br i1 %toomuch, label %trim, label %done
trim:
  call void @unity_memory_trim(i64 %limit, i64 %home)
  ret void
}}
; Release blocks that wait, %spared last, until at most %limit bytes do.
define void @unity_memory_trim(i64 %limit, i64 %spared) {{
entry:
  br label %loop
loop:
  %k = phi i64 [ 1, %entry ], [ %k2, %next ]
  %end = icmp ugt i64 %k, {SLOT_COUNT}
  br i1 %end, label %done, label %look
look:
  %held = load atomic i64, ptr @unity_memory_kept seq_cst, align 8
  %enough = icmp ule i64 %held, %limit
  br i1 %enough, label %done, label %drop
drop:
  %sum = add i64 %spared, %k
  %i = urem i64 %sum, {SLOT_COUNT}
  %p = call ptr @unity.memory.take(i64 %i)
  %none = icmp eq ptr %p, null
  br i1 %none, label %next, label %release
release:
  call void @unity.memory.release(ptr %p)
  br label %next
next:
  %k2 = add i64 %k, 1
  br label %loop
done:
  ret void
}}
define ptr @unity_memory_realloc(ptr %old, i64 %n) {{
entry:
  %null = icmp eq ptr %old, null
  br i1 %null, label %fresh, label %look
look:
  %ours = call i1 @unity.memory.marked(ptr %old)
  br i1 %ours, label %fresh, label %foreign
foreign:
  %r = call ptr @realloc(ptr %old, i64 %n)
  ret ptr %r
fresh:
  %new = call ptr @unity_memory_alloc(i64 64, i64 %n)
  %none = icmp eq ptr %new, null
  %skip = or i1 %none, %null
  br i1 %skip, label %done, label %copy
copy:
  %have = call i64 @unity.memory.size(ptr %old)
  %bytes = call i64 @llvm.umin.i64(i64 %have, i64 %n)
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %bytes, i1 false)
  call void @unity_memory_free(ptr %old)
  br label %done
done:
  ret ptr %new
}}
"""


def memory_ir() -> str:
    """The allocator's functions, to stand behind the declarations of ``native_helpers``."""
    mapped = HUGE_PAGE if platform.system() == "Linux" else 1 << 62  # elsewhere everything comes from malloc
    return _IR.replace("[SLOT_COUNT x", f"[{SLOT_COUNT} x").format(
        SLOT_COUNT=SLOT_COUNT, MIN_POOLED=MIN_POOLED, LEAST_MAPPED=mapped, HUGE_PAGE=HUGE_PAGE, HUGE_LAST=HUGE_PAGE - 1,
        COLOUR=_COLOUR, MAP_SLACK=HUGE_PAGE + 16 * _COLOUR + 64,
    )  # fmt: skip
