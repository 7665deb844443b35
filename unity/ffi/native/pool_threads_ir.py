"""Workers of the thread pool as LLVM IR text: starting and joining them, and what a forked child forgets.

Not here: what they do (``pool_ir.py``, which this text is a part of, with its globals).
"""

from __future__ import annotations

THREADS_IR = """\
; In the child of a fork: the workers are gone, no region is open.
define internal void @unity.pool.after_fork() {
  call void @llvm.memset.p0.i64(ptr @unity.pool.part, i8 0, i64 @PART_BYTES@, i1 false)
  store atomic i32 0, ptr @unity.pool.unfinished monotonic, align 4
  store atomic i32 0, ptr @unity.pool.waiting monotonic, align 4
  store atomic i32 0, ptr @unity.pool.sleepers monotonic, align 4
  store atomic i32 0, ptr @unity.pool.stopping monotonic, align 4
  store i32 0, ptr @unity.pool.running
  store atomic i32 0, ptr @unity.pool.lock seq_cst, align 4
  ret void
}

; Start the workers, with all signals blocked in them. The lock is held.
define internal void @unity.pool.start() noinline {
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %known = load i32, ptr @unity.pool.registered
  %fresh = icmp eq i32 %known, 0
  br i1 %fresh, label %register, label %block
register:
  %r0 = call i32 @__register_atfork(ptr null, ptr null, ptr @unity.pool.after_fork, ptr null)
  store i32 1, ptr @unity.pool.registered
  br label %block
block:
  %r1 = call i32 @pthread_sigmask(i32 0, ptr %all, ptr %old)
  %wanted = load i32, ptr @unity.pool.workers
  br label %test
test:
  %count = phi i32 [ 0, %block ], [ %next, %made ]
  %enough = icmp sge i32 %count, %wanted
  br i1 %enough, label %finish, label %create
create:
  %slot = getelementptr i64, ptr @unity.pool.handles, i32 %count
  %own = add i32 %count, 1
  %own64 = zext i32 %own to i64
  %argument = inttoptr i64 %own64 to ptr
  %r2 = call i32 @pthread_create(ptr %slot, ptr null, ptr @unity.pool.worker, ptr %argument)
  %refused = icmp ne i32 %r2, 0
  br i1 %refused, label %finish, label %made
made:
  %next = add i32 %count, 1
  br label %test
finish:
  ; where the system refuses threads, the pool goes on with those it has
  store i32 %count, ptr @unity.pool.running
  store i32 %count, ptr @unity.pool.workers
  %r3 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret void
}

define void @unity_pool_set_threads(i32 %threads) {
entry:
  br label %try
try:
  %swap = cmpxchg ptr @unity.pool.lock, i32 0, i32 1 acquire monotonic, align 4
  %locked = extractvalue { i32, i1 } %swap, 1
  br i1 %locked, label %stop, label %busy
busy:
  %r0 = call i32 @sched_yield()
  br label %try
stop:
  store atomic i32 1, ptr @unity.pool.stopping seq_cst, align 4
  %woken = atomicrmw add ptr @unity.pool.wake, i32 1 seq_cst
  call void @unity.pool.rouse(ptr @unity.pool.wake, i32 2147483647)
  %running = load i32, ptr @unity.pool.running
  br label %test
test:
  %index = phi i32 [ 0, %stop ], [ %next, %join ]
  %more = icmp slt i32 %index, %running
  br i1 %more, label %join, label %finish
join:
  %slot = getelementptr i64, ptr @unity.pool.handles, i32 %index
  %handle = load i64, ptr %slot
  %r1 = call i32 @pthread_join(i64 %handle, ptr null)
  %next = add i32 %index, 1
  br label %test
finish:
  store i32 0, ptr @unity.pool.running
  store atomic i32 0, ptr @unity.pool.stopping seq_cst, align 4
  %workers = sub i32 %threads, 1
  store i32 %workers, ptr @unity.pool.workers
  store atomic i32 0, ptr @unity.pool.lock release, align 4
  ret void
}
"""
