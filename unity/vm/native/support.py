"""The native drivers in LLVM IR: functions that all drivers of a process share. References of frames, boxing, registered functions,
the arena, notes. Compiled once per process (from the object cache where it has them).

A frame's record of the arena is four words: has it the lock, bytes taken, chain of blocks of its own, bytes wanted.
Invariant: only the frame that has the lock takes from the arena; the others allocate for themselves.
"""

from __future__ import annotations

from functools import cache

from ...ffi.machine_code.engine import Engine
from ...ffi.machine_code.layout import immortal
from ...ffi.machine_code.llvm import CompileOptions
from ...ffi.native.native_helpers import HELPER_DECLARATIONS, allocator_symbols, helper_symbols
from ...ffi.native.runtime_table import slot_offset
from .ir import ARENA_WORDS, DECLARATIONS, FIXED, ON_DEVICE, STACK_BYTES

RESERVED_BYTES = 256 << 10
"""Part of a thread's stack that calls inside the program leave to kernels and Python (three quarters of a small
stack: Python 3.14 keeps 32 KiB of every stack for itself)."""

ARENA_LIMIT = 1 << 30
"""Bytes of arena that a machine keeps between calls; what goes beyond is allocated for each call."""


DEVICE_ALIGN = 256
"""Bytes to a multiple of which a block of an arena on a device is rounded."""


def _word(name: str) -> int:
    """Byte offset of a fixed word of the environment."""
    return (ARENA_WORDS + (*FIXED, *ON_DEVICE).index(name)) * 8


_SUPPORT_IR = f"""
; The references of a frame. Kept in memory on purpose: as values they would meet in every failure exit.
define void @unity.clear(ptr %refs, i64 %n) noinline {{
  %bytes = shl i64 %n, 3
  call void @llvm.memset.p0.i64(ptr %refs, i8 0, i64 %bytes, i1 false)
  ret void
}}
define void @unity.drop(ptr %refs, i64 %n) noinline {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i2, %next ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %look
look:
  %p = getelementptr ptr, ptr %refs, i64 %i
  %o = load ptr, ptr %p
  %i2 = add i64 %i, 1
  %none = icmp eq ptr %o, null
  br i1 %none, label %next, label %drop
drop:
  call void @Py_DecRef(ptr %o)
  br label %next
next:
  br label %loop
done:
  ret void
}}
; How far down the C stack may grow from here: {STACK_BYTES} bytes, and never into the last part of the thread's own stack.
define i64 @unity.limit(ptr %env) {{
  %frame = call ptr @llvm.frameaddress.p0(i32 0)
  %here = ptrtoint ptr %frame to i64
  %far = sub i64 %here, {STACK_BYTES}
  %me = call i64 @pthread_self()
  %tp = getelementptr i8, ptr %env, i64 32
  %known = load i64, ptr %tp
  %same = icmp eq i64 %me, %known
  br i1 %same, label %done, label %ask
ask:
  call void @unity.stack(ptr %env, i64 %me)
  br label %done
done:
  %lp = getelementptr i8, ptr %env, i64 40
  %low = load i64, ptr %lp
  %limit = call i64 @llvm.umax.i64(i64 %low, i64 %far)
  ret i64 %limit
}}
define void @unity.stack(ptr %env, i64 %me) noinline cold {{
  %attr = alloca [16 x i64]
  %addr = alloca i64
  %size = alloca i64
  store i64 0, ptr %addr
  store i64 0, ptr %size
  %rc = call i32 @pthread_getattr_np(i64 %me, ptr %attr)
  %failed = icmp ne i32 %rc, 0
  br i1 %failed, label %done, label %read
read:
  %rc2 = call i32 @pthread_attr_getstack(ptr %attr, ptr %addr, ptr %size)
  %rc3 = call i32 @pthread_attr_destroy(ptr %attr)
  br label %done
done:
  %a = load i64, ptr %addr
  %s = load i64, ptr %size
  %quarter = lshr i64 %s, 2
  %most = sub i64 %s, %quarter
  %part = call i64 @llvm.umin.i64(i64 %most, i64 {RESERVED_BYTES})
  %low = add i64 %a, %part
  %tp = getelementptr i8, ptr %env, i64 32
  store i64 %me, ptr %tp
  %lp = getelementptr i8, ptr %env, i64 40
  store i64 %low, ptr %lp
  ret void
}}
declare i64 @pthread_self()
declare i32 @pthread_getattr_np(i64, ptr)
declare i32 @pthread_attr_getstack(ptr, ptr, ptr)
declare i32 @pthread_attr_destroy(ptr)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
; A tensor register as an object, a new reference.
define ptr @unity.box(ptr %o, i64 %dtype, i64 %nd, ptr %dims, ptr %p, ptr %w) noinline {{
  %none = icmp eq ptr %o, null
  br i1 %none, label %make, label %have
have:
  call void @Py_IncRef(ptr %o)
  ret ptr %o
make:
  %v = call ptr @unity_view_tensor(i64 %dtype, i64 %nd, ptr %dims, ptr %p, ptr %w)
  ret ptr %v
}}
; A result from Python (taken over, may be null) as a value of the VM: arrays become tensors.
define ptr @unity.normal(ptr %f, ptr %v) noinline {{
  %args = alloca ptr
  %failed = icmp eq ptr %v, null
  br i1 %failed, label %done, label %look
look:
  %tp = getelementptr i8, ptr %v, i64 8
  %type = load ptr, ptr %tp
  %tensor = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {slot_offset("tensor")})
  %istensor = icmp eq ptr %type, %tensor
  %none = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {slot_offset("None")})
  %isnone = icmp eq ptr %v, %none
  %plain = or i1 %istensor, %isnone
  br i1 %plain, label %done, label %other
done:
  ret ptr %v
other:
  store ptr %v, ptr %args
  %made = call ptr @unity_call(ptr %f, ptr %args, i64 1)
  call void @Py_DecRef(ptr %v)
  ret ptr %made
}}
; The same where tensors lie on a device: Python says whether the value lies there, and copies it.
define ptr @unity.normal.on(ptr %f, ptr %v) noinline {{
  %args = alloca ptr
  %failed = icmp eq ptr %v, null
  br i1 %failed, label %done, label %ask
done:
  ret ptr %v
ask:
  store ptr %v, ptr %args
  %made = call ptr @unity_call(ptr %f, ptr %args, i64 1)
  call void @Py_DecRef(ptr %v)
  ret ptr %made
}}
; The entry of the table of registered functions under a name (borrowed), or null.
define ptr @unity.find(ptr %env, ptr %name) noinline {{
  %tp = getelementptr i8, ptr %env, i64 {_word("table")}
  %table = load ptr, ptr %tp
  %found = call ptr @PyDict_GetItemWithError(ptr %table, ptr %name)
  ret ptr %found
}}
; Call a registered function (an entry of the table); its result as a value of the VM.
define ptr @unity.packed(ptr %env, ptr %entry, ptr %args, i64 %n) noinline {{
  %op = getelementptr i8, ptr %env, i64 {_word("function_offset")}
  %offset = load i64, ptr %op
  %place = getelementptr i8, ptr %entry, i64 %offset
  %f = load ptr, ptr %place
  call void @Py_IncRef(ptr %f)
  %r = call ptr @unity_call(ptr %f, ptr %args, i64 %n)
  call void @Py_DecRef(ptr %f)
  %vp = getelementptr i8, ptr %env, i64 {_word("value")}
  %value = load ptr, ptr %vp
  %v = call ptr @unity.normal(ptr %value, ptr %r)
  ret ptr %v
}}
; Run a check instruction in Python: the slots as a tuple, or null with the error set.
define ptr @unity.recheck(ptr %f, i64 %fn, i64 %at, ptr %value, ptr %slots, i64 %n) noinline cold {{
  %args = alloca [4 x ptr]
  %number = call ptr @PyLong_FromLongLong(i64 %fn)
  %place = call ptr @PyLong_FromLongLong(i64 %at)
  %tuple = call ptr @unity_shape(ptr %slots, i64 %n)
  %a1 = getelementptr ptr, ptr %args, i64 1
  %a2 = getelementptr ptr, ptr %args, i64 2
  %a3 = getelementptr ptr, ptr %args, i64 3
  store ptr %number, ptr %args
  store ptr %place, ptr %a1
  store ptr %value, ptr %a2
  store ptr %tuple, ptr %a3
  %r = call ptr @unity_call(ptr %f, ptr %args, i64 4)
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %place)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %r
}}
define void @unity.arena.enter(ptr %env, ptr %f) {{
  call void @llvm.memset.p0.i64(ptr %f, i8 0, i64 32, i1 false)
  %lock = getelementptr i8, ptr %env, i64 16
  %old = atomicrmw xchg ptr %lock, i64 1 acquire
  %mine = icmp eq i64 %old, 0
  %wide = zext i1 %mine to i64
  store i64 %wide, ptr %f
  ret void
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
; Put a note about a frame on the Python error that is set.
define void @unity.note(ptr %f, i64 %fn, i64 %at) noinline cold {{
  %t = alloca ptr
  %v = alloca ptr
  %b = alloca ptr
  %args = alloca [3 x ptr]
  call void @PyErr_Fetch(ptr %t, ptr %v, ptr %b)
  call void @PyErr_NormalizeException(ptr %t, ptr %v, ptr %b)
  %value = load ptr, ptr %v
  %number = call ptr @PyLong_FromLongLong(i64 %fn)
  %place = call ptr @PyLong_FromLongLong(i64 %at)
  store ptr %value, ptr %args
  %a1 = getelementptr ptr, ptr %args, i64 1
  %a2 = getelementptr ptr, ptr %args, i64 2
  store ptr %number, ptr %a1
  store ptr %place, ptr %a2
  %r = call ptr @PyObject_Vectorcall(ptr %f, ptr %args, i64 3, ptr null)
  call void @Py_DecRef(ptr %r)
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %place)
  call void @PyErr_Clear()
  %t1 = load ptr, ptr %t
  %v1 = load ptr, ptr %v
  %b1 = load ptr, ptr %b
  call void @PyErr_Restore(ptr %t1, ptr %v1, ptr %b1)
  ret void
}}
"""

_ARENA_IR = f"""
; Bytes of the arena, or null where this frame has it not, or it is too small.
define ptr @unity.arena.take(ptr %env, ptr %f, i64 %up) alwaysinline {{
  %wp = getelementptr i8, ptr %f, i64 24
  %w = load i64, ptr %wp
  %w2 = add i64 %w, %up
  store i64 %w2, ptr %wp
  %mine = load i64, ptr %f
  %locked = icmp ne i64 %mine, 0
  br i1 %locked, label %try, label %none
try:
  %bp = getelementptr i8, ptr %f, i64 8
  %b = load i64, ptr %bp
  %b2 = add i64 %b, %up
  %sp = getelementptr i8, ptr %env, i64 8
  %s = load i64, ptr %sp
  %fits = icmp ule i64 %b2, %s
  br i1 %fits, label %take, label %none
take:
  store i64 %b2, ptr %bp
  %a = load ptr, ptr %env
  %p = getelementptr i8, ptr %a, i64 %b
  ret ptr %p
none:
  ret ptr null
}}
define ptr @unity.arena(ptr %env, ptr %f, i64 %n) {{
  %empty = icmp eq i64 %n, 0
  %least = select i1 %empty, i64 1, i64 %n
  %more = add i64 %least, 63
  %up = and i64 %more, -64
  %huge = icmp ugt i64 %up, 140737488355328
  br i1 %huge, label %none, label %fine
none:
  ret ptr null
fine:
  %taken = call ptr @unity.arena.take(ptr %env, ptr %f, i64 %up)
  %out.of = icmp eq ptr %taken, null
  br i1 %out.of, label %heap, label %took
took:
  ret ptr %taken
heap:
  %size = add i64 %up, 64
  %m = call ptr @aligned_alloc(i64 64, i64 %size)
  %bad = icmp eq ptr %m, null
  br i1 %bad, label %none, label %chain
chain:
  %hp = getelementptr i8, ptr %f, i64 16
  %h = load ptr, ptr %hp
  store ptr %h, ptr %m
  store ptr %m, ptr %hp
  %d = getelementptr i8, ptr %m, i64 64
  ret ptr %d
}}
define void @unity.arena.leave(ptr %env, ptr %f, ptr %result) {{
entry:
  %hp = getelementptr i8, ptr %f, i64 16
  %h = load ptr, ptr %hp
  br label %loop
loop:
  %m = phi ptr [ %h, %entry ], [ %next, %drop ]
  %end = icmp eq ptr %m, null
  br i1 %end, label %freed, label %drop
drop:
  %next = load ptr, ptr %m
  call void @free(ptr %m)
  br label %loop
freed:
  %mine = load i64, ptr %f
  %locked = icmp ne i64 %mine, 0
  br i1 %locked, label %grow, label %out
grow:
  %wp = getelementptr i8, ptr %f, i64 24
  %w = load i64, ptr %wp
  %sp = getelementptr i8, ptr %env, i64 8
  %s = load i64, ptr %sp
  %more = icmp ugt i64 %w, %s
  %small = icmp ule i64 %w, {ARENA_LIMIT}
  %do = and i1 %more, %small
  br i1 %do, label %replace, label %unlock
replace:
  %a = load ptr, ptr %env
  call void @free(ptr %a)
  %n = call ptr @aligned_alloc(i64 64, i64 %w)
  store ptr %n, ptr %env
  %bad = icmp eq ptr %n, null
  %size = select i1 %bad, i64 0, i64 %w
  store i64 %size, ptr %sp
  br label %unlock
unlock:
  %lock = getelementptr i8, ptr %env, i64 16
  store atomic i64 0, ptr %lock release, align 8
  br label %out
out:
  ret void
}}
"""


# In memory of a device blocks come from Python, which keeps them as long as the frame's chain of them.
_DEVICE_ARENA_IR = f"""
define ptr @unity.arena.on(ptr %env, ptr %f, i64 %n) {{
  %args = alloca [2 x ptr]
  %out = alloca i64
  %least = call i64 @llvm.umax.i64(i64 %n, i64 1)
  %more = add i64 %least, {DEVICE_ALIGN - 1}
  %up = and i64 %more, -{DEVICE_ALIGN}
  %taken = call ptr @unity.arena.take(ptr %env, ptr %f, i64 %up)
  %out.of = icmp eq ptr %taken, null
  br i1 %out.of, label %ask, label %took
took:
  ret ptr %taken
ask:  ; (chain or None, bytes) -> (the longer chain, address)
  %hp = getelementptr i8, ptr %f, i64 16
  %h = load ptr, ptr %hp
  %empty = icmp eq ptr %h, null
  %none = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {slot_offset("None")})
  %chain = select i1 %empty, ptr %none, ptr %h
  %count = call ptr @PyLong_FromLongLong(i64 %up)
  store ptr %chain, ptr %args
  %a1 = getelementptr ptr, ptr %args, i64 1
  store ptr %count, ptr %a1
  %cp = getelementptr i8, ptr %env, i64 {_word("new_block")}
  %callback = load ptr, ptr %cp
  %made = call ptr @unity_call(ptr %callback, ptr %args, i64 2)
  call void @Py_DecRef(ptr %count)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %raised, label %got
raised:
  ret ptr null
got:
  %longer = call ptr @PyTuple_GetItem(ptr %made, i64 0)
  %where = call ptr @PyTuple_GetItem(ptr %made, i64 1)
  call void @Py_IncRef(ptr %longer)
  store ptr %longer, ptr %hp
  %read = call i32 @unity_as_int(ptr %where, ptr %out)
  call void @Py_DecRef(ptr %made)
  br i1 %empty, label %keep, label %drop
drop:
  call void @Py_DecRef(ptr %h)
  br label %keep
keep:
  %address = load i64, ptr %out
  %d = inttoptr i64 %address to ptr
  ret ptr %d
}}
define void @unity.arena.leave.on(ptr %env, ptr %f, ptr %result) {{
  %args = alloca ptr
  %out = alloca i64
  %hp = getelementptr i8, ptr %f, i64 16
  %h = load ptr, ptr %hp
  %none = icmp eq ptr %h, null
  br i1 %none, label %freed, label %drop
drop:
  call void @Py_DecRef(ptr %h)
  br label %freed
freed:
  %mine = load i64, ptr %f
  %locked = icmp ne i64 %mine, 0
  br i1 %locked, label %grow, label %leave
grow:  ; not while an error is set
  %wp = getelementptr i8, ptr %f, i64 24
  %w = load i64, ptr %wp
  %sp = getelementptr i8, ptr %env, i64 8
  %s = load i64, ptr %sp
  %more = icmp ugt i64 %w, %s
  %small = icmp ule i64 %w, {ARENA_LIMIT}
  %fine = icmp ne ptr %result, null
  %wanted = and i1 %more, %small
  %do = and i1 %wanted, %fine
  br i1 %do, label %replace, label %unlock
replace:
  %count = call ptr @PyLong_FromLongLong(i64 %w)
  store ptr %count, ptr %args
  %cp = getelementptr i8, ptr %env, i64 {_word("grow")}
  %callback = load ptr, ptr %cp
  %made = call ptr @unity_call(ptr %callback, ptr %args, i64 1)
  call void @Py_DecRef(ptr %count)
  store i64 0, ptr %out
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %without, label %with
without:
  call void @PyErr_Clear()
  br label %store
with:
  %read = call i32 @unity_as_int(ptr %made, ptr %out)
  call void @Py_DecRef(ptr %made)
  br label %store
store:
  %address = load i64, ptr %out
  %size = select i1 %failed, i64 0, i64 %w
  store i64 %address, ptr %env
  store i64 %size, ptr %sp
  br label %unlock
unlock:
  %lock = getelementptr i8, ptr %env, i64 16
  store atomic i64 0, ptr %lock release, align 8
  br label %leave
leave:
  ret void
}}
"""

_DEFINITIONS = _SUPPORT_IR + _ARENA_IR + _DEVICE_ARENA_IR
SUPPORT_DECLARATIONS = "".join([
    f"declare {line.partition(' ')[2].rpartition(')')[0]})\n" for line in _DEFINITIONS.splitlines() if line.startswith("define ")
])  # fmt: skip
"""Text to put at the top of a driver."""


OPTIONS = CompileOptions(pipeline="O1")


def support_ir() -> str:
    """LLVM IR text of these functions."""
    return DECLARATIONS + HELPER_DECLARATIONS + _DEFINITIONS


@cache
def support_symbols() -> dict[str, int]:
    """Addresses by name of everything outside of a driver that it calls, kernels apart."""
    symbols = helper_symbols() | allocator_symbols()
    engine = Engine(symbols).add_ir(support_ir(), OPTIONS)
    immortal(engine)
    return symbols | {name: engine.address(name) for name in engine.names()}
