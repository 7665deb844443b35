"""LLVM IR of the helpers for numbers, tuples, calls into Python and the GIL; compiled by ``native_helpers``.

``{name}`` stands for the byte offset of a word of the runtime table.
"""

OBJECTS_IR = """
define ptr @unity_none() {{
  %n = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {None})
  call void @Py_IncRef(ptr %n)
  ret ptr %n
}}
define ptr @unity_bool(i1 %v) {{
  %t = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {True})
  %f = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {False})
  %r = select i1 %v, ptr %t, ptr %f
  call void @Py_IncRef(ptr %r)
  ret ptr %r
}}
; Numbers out of objects: 0, or -1 with the Python error set.
define i32 @unity_as_int(ptr %o, ptr %out) {{
  %v = call i64 @PyLong_AsLongLong(ptr %o)
  store i64 %v, ptr %out
  %maybe = icmp eq i64 %v, -1
  br i1 %maybe, label %ask, label %ok
ask:
  %e = call ptr @PyErr_Occurred()
  %bad = icmp ne ptr %e, null
  br i1 %bad, label %unsigned, label %ok
unsigned:  ; numbers of uint64 are kept as int64 of the same bits
  call void @PyErr_Clear()
  %u = call i64 @PyLong_AsUnsignedLongLong(ptr %o)
  store i64 %u, ptr %out
  %e2 = call ptr @PyErr_Occurred()
  %bad2 = icmp ne ptr %e2, null
  %r = sext i1 %bad2 to i32
  ret i32 %r
ok:
  ret i32 0
}}
define i32 @unity_as_float(ptr %o, ptr %out) {{
  %v = call double @PyFloat_AsDouble(ptr %o)
  store double %v, ptr %out
  %maybe = fcmp oeq double %v, -1.0
  br i1 %maybe, label %ask, label %ok
ask:
  %e = call ptr @PyErr_Occurred()
  %bad = icmp ne ptr %e, null
  %r = sext i1 %bad to i32
  ret i32 %r
ok:
  ret i32 0
}}
; A tuple of %n objects; takes over their references, also when it fails. An item that is null makes the result null.
define ptr @unity_tuple(ptr %items, i64 %n) {{
entry:
  br label %scan
scan:
  %s = phi i64 [ 0, %entry ], [ %s2, %scan2 ]
  %bad = phi i1 [ false, %entry ], [ %bad2, %scan2 ]
  %send = icmp eq i64 %s, %n
  br i1 %send, label %scanned, label %scan2
scan2:
  %sp = getelementptr ptr, ptr %items, i64 %s
  %so = load ptr, ptr %sp
  %snull = icmp eq ptr %so, null
  %bad2 = or i1 %bad, %snull
  %s2 = add i64 %s, 1
  br label %scan
scanned:
  br i1 %bad, label %drop, label %new
new:
  %t = call ptr @PyTuple_New(i64 %n)
  %none = icmp eq ptr %t, null
  br i1 %none, label %drop, label %loop
loop:
  %i = phi i64 [ 0, %new ], [ %i2, %next ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %next
next:
  %p = getelementptr ptr, ptr %items, i64 %i
  %o = load ptr, ptr %p
  %rc = call i32 @PyTuple_SetItem(ptr %t, i64 %i, ptr %o)
  %i2 = add i64 %i, 1
  br label %loop
done:
  ret ptr %t
drop:
  %d = phi i64 [ 0, %scanned ], [ 0, %new ], [ %d2, %dnext ]
  %dend = icmp eq i64 %d, %n
  br i1 %dend, label %fail, label %dnext
dnext:
  %dp = getelementptr ptr, ptr %items, i64 %d
  %do = load ptr, ptr %dp
  call void @Py_DecRef(ptr %do)
  %d2 = add i64 %d, 1
  br label %drop
fail:
  ret ptr null
}}
; A tuple of integers.
define ptr @unity_shape(ptr %values, i64 %n) {{
entry:
  %t = call ptr @PyTuple_New(i64 %n)
  %none = icmp eq ptr %t, null
  br i1 %none, label %fail, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i2, %set ]
  %end = icmp eq i64 %i, %n
  br i1 %end, label %done, label %next
next:
  %p = getelementptr i64, ptr %values, i64 %i
  %v = load i64, ptr %p
  %o = call ptr @PyLong_FromLongLong(i64 %v)
  %bad = icmp eq ptr %o, null
  br i1 %bad, label %drop, label %set
set:
  %rc = call i32 @PyTuple_SetItem(ptr %t, i64 %i, ptr %o)
  %i2 = add i64 %i, 1
  br label %loop
drop:
  call void @Py_DecRef(ptr %t)
  br label %fail
fail:
  ret ptr null
done:
  ret ptr %t
}}
; Call a Python function with borrowed arguments; the caller holds the GIL.
define ptr @unity_call(ptr %f, ptr %args, i64 %n) {{
  %r = call ptr @PyObject_Vectorcall(ptr %f, ptr %args, i64 %n, ptr null)
  ret ptr %r
}}
; The same for its effect alone: 0, or -1 with the Python error set.
define i32 @unity_call_status(ptr %f, ptr %args, i64 %n) {{
  %r = call ptr @PyObject_Vectorcall(ptr %f, ptr %args, i64 %n, ptr null)
  call void @Py_DecRef(ptr %r)
  %bad = icmp eq ptr %r, null
  %s = sext i1 %bad to i32
  ret i32 %s
}}
"""
