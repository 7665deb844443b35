"""LLVM IR of the native helpers: entering a device's program without Python, where nothing has changed since the last call.

A gate is what a kind of devices says about its state in words of memory (`Context.gate` in ``unity/ffi/cuda/context.py``):

    0  address of a word that is 1 while calls need no look by Python (the driver is in force, not lost, not of a parent process)
    1  handle of the context            2  address of the function that stores the thread's context
    3  address of the key of a thread's record of three words: the stream of launches, the context that the last one is for, the
       stream that the thread has chosen there, -1 for none
    4  sys.modules   5  "torch.cuda"   6  "_initialized"   7  torch's function for its stream, 0 while it is not known
    8  index of the device as an object
"""

DEVICE_IR = """
declare ptr @pthread_getspecific(i32)
; Torch's stream of the device: -1 where torch does not use devices, -2 where Python has to look.
define internal i64 @unity_torch_stream(ptr %gate) {{
  %args = alloca ptr
  %mp = getelementptr i64, ptr %gate, i64 4
  %modules = load ptr, ptr %mp
  %np = getelementptr i64, ptr %gate, i64 5
  %name = load ptr, ptr %np
  %module = call ptr @PyDict_GetItemWithError(ptr %modules, ptr %name)
  %absent = icmp eq ptr %module, null
  br i1 %absent, label %none, label %look
look:
  %dict = call ptr @PyModule_GetDict(ptr %module)
  %nodict = icmp eq ptr %dict, null
  br i1 %nodict, label %python, label %read
read:
  %ip = getelementptr i64, ptr %gate, i64 6
  %flag = load ptr, ptr %ip
  %value = call ptr @PyDict_GetItemWithError(ptr %dict, ptr %flag)
  %false = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {False})
  %unused = icmp eq ptr %value, %false
  br i1 %unused, label %none, label %used
used:
  %fp = getelementptr i64, ptr %gate, i64 7
  %function = load ptr, ptr %fp
  %unknown = icmp eq ptr %function, null
  br i1 %unknown, label %python, label %ask
ask:
  %xp = getelementptr i64, ptr %gate, i64 8
  %index = load ptr, ptr %xp
  store ptr %index, ptr %args
  %answer = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 1, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %python, label %answered
answered:
  %stream = call i64 @PyLong_AsLongLong(ptr %answer)
  call void @Py_DecRef(ptr %answer)
  ret i64 %stream
none:
  ret i64 -1
python:
  call void @PyErr_Clear()
  ret i64 -2
}}
; Enter a program whose arena is that of the stream %lane (-1: it has none). False where Python has to; undo: two words.
define i1 @unity_enter(ptr %gate, i64 %lane, ptr %undo) {{
  %place = alloca i64
  %ready.c = load ptr, ptr %gate
  %ready = load i64, ptr %ready.c
  %open = icmp eq i64 %ready, 1
  br i1 %open, label %context, label %no
context:
  %hp = getelementptr i64, ptr %gate, i64 1
  %handle = load i64, ptr %hp
  %cp = getelementptr i64, ptr %gate, i64 2
  %current = load ptr, ptr %cp
  store i64 0, ptr %place
  %status = call i32 %current(ptr %place)
  %here = load i64, ptr %place
  %good = icmp eq i32 %status, 0
  %same = icmp eq i64 %here, %handle
  %in = and i1 %good, %same
  br i1 %in, label %thread, label %no
thread:
  %kp = getelementptr i64, ptr %gate, i64 3
  %kc = load ptr, ptr %kp
  %key = load i32, ptr %kc
  %record = call ptr @pthread_getspecific(i32 %key)
  %unknown = icmp eq ptr %record, null
  br i1 %unknown, label %no, label %known
known:
  %op = getelementptr i64, ptr %record, i64 1
  %owner = load i64, ptr %op
  %valid = icmp eq i64 %owner, %handle
  br i1 %valid, label %choose, label %no
choose:
  %sp = getelementptr i64, ptr %record, i64 2
  %chosen = load i64, ptr %sp
  %torch = call i64 @unity_torch_stream(ptr %gate)
  %free = icmp eq i64 %chosen, -1
  %alone = icmp eq i64 %torch, -1
  %default = select i1 %alone, i64 0, i64 %torch
  %stream = select i1 %free, i64 %default, i64 %chosen
  %agree = icmp eq i64 %torch, %stream
  %ordered = or i1 %alone, %agree
  %ask = icmp eq i64 %torch, -2
  %settled = xor i1 %ask, true
  %any = icmp eq i64 %lane, -1
  %mine = icmp eq i64 %lane, %stream
  %fits = or i1 %any, %mine
  %a = and i1 %ordered, %settled
  %b = and i1 %a, %fits
  br i1 %b, label %go, label %no
go:
  %before = load i64, ptr %record
  store ptr %record, ptr %undo
  %up = getelementptr i64, ptr %undo, i64 1
  store i64 %before, ptr %up
  store i64 %stream, ptr %record
  ret i1 true
no:
  ret i1 false
}}
; The stream of launches is again what it was before.
define void @unity_leave(ptr %undo) {{
  %record = load ptr, ptr %undo
  %up = getelementptr i64, ptr %undo, i64 1
  %before = load i64, ptr %up
  store i64 %before, ptr %record
  ret void
}}
"""
