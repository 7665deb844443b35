"""The thread pool of parallel loops as LLVM IR text.

One pool per process. A region's chunks are cut into one part of neighbours for each thread, since neighbouring iterations often
read the same memory. A part is a ticket word, ``generation << 24 | end << 12 | begin`` of the chunks that remain; whoever wants a
chunk takes it by compare-and-swap on that word: the part's own thread at its begin, and one that has finished its own at its end.
So a slow worker can neither take a chunk of an older region nor hold up a newer one, and what it does not get to others do: the
caller waits only for chunks that were started. Idle workers spin briefly, then sleep on a futex.
Invariant: the job fields are written only while no chunk remains, so a successful compare-and-swap proves they were stable.
Not here: starting workers (``pool_threads_ir.py``), compiling the text and choosing the number of threads (``pool.py``).
"""

from __future__ import annotations

import platform

from ...support.errors import FFIError
from .pool_threads_ir import THREADS_IR

MAX_WORKERS = 255
MAX_CHUNKS = 4095
WORKER_SPINS = 2000
CALLER_SPINS = 2000

# per machine: number of the futex system call, call and declaration of the instruction of a polite spin
_MACHINES = {
    "x86_64": (202, "@llvm.x86.sse2.pause()", "@llvm.x86.sse2.pause()"),
    "aarch64": (98, "@llvm.aarch64.hint(i32 1)", "@llvm.aarch64.hint(i32)"),
}

_IR = """\
; generation, function, its context, total, chunk, parts
%unity.pool.job = type { i64, ptr, ptr, i64, i64, i64 }
; ticket, alone in its cache lines
%unity.pool.part = type { i64, [15 x i64] }

@unity.pool.job = internal global %unity.pool.job zeroinitializer, align 128
@unity.pool.part = internal global [@PARTS@ x %unity.pool.part] zeroinitializer, align 128
@unity.pool.lock = internal global i32 0, align 128
@unity.pool.unfinished = internal global i32 0, align 128
@unity.pool.status = internal global i32 0, align 128
@unity.pool.waiting = internal global i32 0, align 128
@unity.pool.wake = internal global i32 0, align 128
@unity.pool.sleepers = internal global i32 0, align 128
@unity.pool.stopping = internal global i32 0, align 128
@unity.pool.workers = internal global i32 0
@unity.pool.running = internal global i32 0
@unity.pool.registered = internal global i32 0
@unity.pool.handles = internal global [@MAX_WORKERS@ x i64] zeroinitializer, align 8

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @__register_atfork(ptr, ptr, ptr, ptr)
declare i32 @sched_yield()
declare i64 @syscall(i64, ...)
declare void @PAUSE_DECLARATION@

define internal void @unity.pool.sleep(ptr %word, i32 %seen) {
  ; FUTEX_WAIT_PRIVATE: returns at once where the word is no longer what was seen
  %r = call i64 (i64, ...) @syscall(i64 @FUTEX@, ptr %word, i64 128, i32 %seen, ptr null)
  ret void
}

define internal void @unity.pool.rouse(ptr %word, i32 %count) {
  ; FUTEX_WAKE_PRIVATE
  %r = call i64 (i64, ...) @syscall(i64 @FUTEX@, ptr %word, i64 129, i32 %count)
  ret void
}

; The number of the latest region.
define internal i64 @unity.pool.latest() {
  %generation = load atomic i64, ptr @unity.pool.job seq_cst, align 8
  ret i64 %generation
}

; Take and run chunks until none remains, of the thread's own part first; the number of chunks taken.
define internal i32 @unity.pool.run_chunks(i64 %own) {
entry:
  %parts_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 5
  %parts = load atomic i64, ptr %parts_at monotonic, align 8
  br label %part
part:
  %turn = phi i64 [ 0, %entry ], [ %next_turn, %exhausted ]
  %taken_before = phi i32 [ 0, %entry ], [ %taken, %exhausted ]
  %over = icmp uge i64 %turn, %parts
  br i1 %over, label %done, label %choose
choose:
  %place = add i64 %own, %turn
  %number = urem i64 %place, %parts
  %mine = icmp eq i64 %number, %own
  %ticket_at = getelementptr %unity.pool.part, ptr @unity.pool.part, i64 %number, i32 0
  br label %look
look:
  %taken = phi i32 [ %taken_before, %choose ], [ %taken, %claim ], [ %taken_more, %finished ]
  %ticket = load atomic i64, ptr %ticket_at acquire, align 8
  %first = and i64 %ticket, 4095
  %shifted = lshr i64 %ticket, 12
  %past = and i64 %shifted, 4095
  %none = icmp eq i64 %first, %past
  br i1 %none, label %exhausted, label %claim
exhausted:
  %next_turn = add i64 %turn, 1
  br label %part
claim:
  %fn_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 1
  %ctx_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 2
  %total_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 3
  %chunk_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 4
  %fn = load atomic ptr, ptr %fn_at monotonic, align 8
  %ctx = load atomic ptr, ptr %ctx_at monotonic, align 8
  %total = load atomic i64, ptr %total_at monotonic, align 8
  %chunk = load atomic i64, ptr %chunk_at monotonic, align 8
  %last = sub i64 %past, 1
  %index = select i1 %mine, i64 %first, i64 %last
  %step = select i1 %mine, i64 1, i64 -4096
  %next_ticket = add i64 %ticket, %step
  %swap = cmpxchg ptr %ticket_at, i64 %ticket, i64 %next_ticket acq_rel monotonic, align 8
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %look
run:
  %taken_more = add i32 %taken, 1
  %status = load atomic i32, ptr @unity.pool.status monotonic, align 4
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %finished, label %call
call:
  %begin = mul i64 %index, %chunk
  %left = sub i64 %total, %begin
  %short = icmp slt i64 %left, %chunk
  %size = select i1 %short, i64 %left, i64 %chunk
  %end = add i64 %begin, %size
  %result = call i32 %fn(ptr %ctx, i64 %begin, i64 %end)
  %error = icmp ne i32 %result, 0
  br i1 %error, label %report, label %finished
report:
  %reported = cmpxchg ptr @unity.pool.status, i32 0, i32 %result acq_rel monotonic, align 4
  br label %finished
finished:
  br label %look
done:
  ret i32 %taken_before
}

define internal ptr @unity.pool.worker(ptr %argument) {
entry:
  %own = ptrtoint ptr %argument to i64
  br label %idle
idle:
  %done = phi i64 [ -1, %entry ], [ %done, %awake ], [ %latest, %work ], [ %latest, %tell ], [ %latest, %rouse ]
  br label %spin
spin:
  %turn = phi i32 [ 0, %idle ], [ %next_turn, %again ]
  %latest = call i64 @unity.pool.latest()
  %ready = icmp ne i64 %latest, %done
  br i1 %ready, label %work, label %check
check:
  %stop = load atomic i32, ptr @unity.pool.stopping monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %leave, label %again
again:
  call void @PAUSE@
  %next_turn = add i32 %turn, 1
  %patient = icmp slt i32 %next_turn, @WORKER_SPINS@
  br i1 %patient, label %spin, label %prepare
prepare:
  ; announce, read the wake word, look once more: whoever opens a region after that look sees the announcement
  %was = atomicrmw add ptr @unity.pool.sleepers, i32 1 seq_cst
  %seen = load atomic i32, ptr @unity.pool.wake seq_cst, align 4
  %latest_now = call i64 @unity.pool.latest()
  %ready_now = icmp ne i64 %latest_now, %done
  %stop_now = load atomic i32, ptr @unity.pool.stopping seq_cst, align 4
  %stopped_now = icmp ne i32 %stop_now, 0
  %stay = or i1 %ready_now, %stopped_now
  br i1 %stay, label %awake, label %sleep
sleep:
  call void @unity.pool.sleep(ptr @unity.pool.wake, i32 %seen)
  br label %awake
awake:
  %is = atomicrmw sub ptr @unity.pool.sleepers, i32 1 seq_cst
  br label %idle
work:
  %taken = call i32 @unity.pool.run_chunks(i64 %own)
  %before = atomicrmw sub ptr @unity.pool.unfinished, i32 %taken seq_cst
  %last = icmp eq i32 %before, %taken
  %some = icmp ne i32 %taken, 0
  %completed = and i1 %last, %some
  br i1 %completed, label %tell, label %idle
tell:
  %waiting = load atomic i32, ptr @unity.pool.waiting seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %rouse, label %idle
rouse:
  call void @unity.pool.rouse(ptr @unity.pool.unfinished, i32 1)
  br label %idle
leave:
  ret ptr null
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)

define i32 @unity_parallel_for(ptr %fn, ptr %ctx, i64 %total, i64 %chunk_wish) {
entry:
  %nothing = icmp sle i64 %total, 0
  br i1 %nothing, label %empty, label %size
empty:
  ret i32 0
size:
  ; at least one element a chunk, at most so many chunks that their numbers fit into a ticket
  %less = sub i64 %total, 1
  %least = udiv i64 %less, @MAX_CHUNKS@
  %least_wide = add i64 %least, 1
  %larger = icmp sgt i64 %chunk_wish, %least_wide
  %chunk = select i1 %larger, i64 %chunk_wish, i64 %least_wide
  %single = icmp sle i64 %total, %chunk
  br i1 %single, label %serial, label %try
serial:
  %serial_result = call i32 %fn(ptr %ctx, i64 0, i64 %total)
  ret i32 %serial_result
try:
  %swap = cmpxchg ptr @unity.pool.lock, i32 0, i32 1 acquire monotonic, align 4
  %locked = extractvalue { i32, i1 } %swap, 1
  br i1 %locked, label %own, label %serial
own:
  %workers = load i32, ptr @unity.pool.workers
  %alone = icmp eq i32 %workers, 0
  br i1 %alone, label %give_up, label %ensure
give_up:
  store atomic i32 0, ptr @unity.pool.lock release, align 4
  br label %serial
ensure:
  %running = load i32, ptr @unity.pool.running
  %started = icmp eq i32 %running, %workers
  br i1 %started, label %open, label %start
start:
  call void @unity.pool.start()
  br label %open
open:
  %whole = udiv i64 %less, %chunk
  %chunks = add i64 %whole, 1
  %chunks32 = trunc i64 %chunks to i32
  %fn_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 1
  %ctx_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 2
  %total_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 3
  %chunk_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 4
  store atomic ptr %fn, ptr %fn_at monotonic, align 8
  store atomic ptr %ctx, ptr %ctx_at monotonic, align 8
  store atomic i64 %total, ptr %total_at monotonic, align 8
  store atomic i64 %chunk, ptr %chunk_at monotonic, align 8
  store atomic i32 0, ptr @unity.pool.status monotonic, align 4
  store atomic i32 %chunks32, ptr @unity.pool.unfinished monotonic, align 4
  %threads32 = add i32 %workers, 1
  %threads = zext i32 %threads32 to i64
  %few = icmp ult i64 %chunks, %threads
  %parts = select i1 %few, i64 %chunks, i64 %threads
  %parts_at = getelementptr %unity.pool.job, ptr @unity.pool.job, i64 0, i32 5
  store atomic i64 %parts, ptr %parts_at monotonic, align 8
  %before_this = load atomic i64, ptr @unity.pool.job monotonic, align 8
  %generation = add i64 %before_this, 1
  %tag = shl i64 %generation, 24
  br label %part
part:
  %number = phi i64 [ 0, %open ], [ %next_number, %part ]
  %begin = phi i64 [ 0, %open ], [ %past, %part ]
  %next_number = add i64 %number, 1
  %scaled = mul i64 %chunks, %next_number
  %past = udiv i64 %scaled, %parts
  %high = shl i64 %past, 12
  %range = or i64 %high, %begin
  %ticket = or i64 %tag, %range
  %ticket_at = getelementptr %unity.pool.part, ptr @unity.pool.part, i64 %number, i32 0
  store atomic i64 %ticket, ptr %ticket_at release, align 8
  %more_parts = icmp ult i64 %next_number, %parts
  br i1 %more_parts, label %part, label %announce
announce:
  store atomic i64 %generation, ptr @unity.pool.job seq_cst, align 8
  %sleepers = load atomic i32, ptr @unity.pool.sleepers seq_cst, align 4
  %asleep = icmp sgt i32 %sleepers, 0
  br i1 %asleep, label %rouse, label %work
rouse:
  %woken = atomicrmw add ptr @unity.pool.wake, i32 1 seq_cst
  %useful = sub i32 %chunks32, 1
  call void @unity.pool.rouse(ptr @unity.pool.wake, i32 %useful)
  br label %work
work:
  %taken = call i32 @unity.pool.run_chunks(i64 0)
  %before = atomicrmw sub ptr @unity.pool.unfinished, i32 %taken seq_cst
  br label %spin
spin:
  %turn = phi i32 [ 0, %work ], [ %next_turn, %again ]
  %unfinished = load atomic i32, ptr @unity.pool.unfinished acquire, align 4
  %complete = icmp sle i32 %unfinished, 0
  br i1 %complete, label %close, label %again
again:
  call void @PAUSE@
  %next_turn = add i32 %turn, 1
  %patient = icmp slt i32 %next_turn, @CALLER_SPINS@
  br i1 %patient, label %spin, label %wait
wait:
  store atomic i32 1, ptr @unity.pool.waiting seq_cst, align 4
  br label %test
test:
  %left = load atomic i32, ptr @unity.pool.unfinished seq_cst, align 4
  %complete_now = icmp sle i32 %left, 0
  br i1 %complete_now, label %waited, label %sleep
sleep:
  call void @unity.pool.sleep(ptr @unity.pool.unfinished, i32 %left)
  br label %test
waited:
  store atomic i32 0, ptr @unity.pool.waiting seq_cst, align 4
  br label %close
close:
  %status = load atomic i32, ptr @unity.pool.status acquire, align 4
  store atomic i32 0, ptr @unity.pool.lock release, align 4
  ret i32 %status
}
"""


def pool_ir() -> str:
    """The pool as one LLVM module text for this machine. Raises FFIError E730 on a processor or system it is not for."""
    machine = _MACHINES.get(platform.machine())
    if machine is None or platform.system() != "Linux":
        raise FFIError("E730", f"the thread pool needs Linux on x86_64 or aarch64, this is {platform.system()}")
    text = _IR + THREADS_IR
    for name, value in (
        ("FUTEX", machine[0]),
        ("PAUSE", machine[1]),
        ("PAUSE_DECLARATION", machine[2]),
        ("MAX_WORKERS", MAX_WORKERS),
        ("MAX_CHUNKS", MAX_CHUNKS),
        ("PARTS", MAX_WORKERS + 1),
        ("PART_BYTES", 128 * (MAX_WORKERS + 1)),
        ("WORKER_SPINS", WORKER_SPINS),
        ("CALLER_SPINS", CALLER_SPINS),
    ):
        text = text.replace(f"@{name}@", str(value))
    return text
