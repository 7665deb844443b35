"""LLVM IR of the helpers that read, make and wrap tensors; ``native_helpers`` fills in the offsets and compiles it.

``{name}`` stands for a byte offset (a word of the runtime table, or a field of numpy's array object).
"""

EXTRACT_IR = """
; Read a tensor of the host: leaf.{{data, object, dims, ndim}}; strides receives {{ptr strides, i64 unit}} where it is not null.
define i1 @unity_extract(ptr %o, ptr %leaf, i64 %dtype, i32 %dl, i32 %ndim, i32 %flags, i64 %mask, ptr %strides) {{
  %cpu = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {cpu})
  %fits = call i1 @unity_extract_any(ptr %o, ptr %leaf, i64 %dtype, i32 %dl, i32 %ndim, i32 %flags, i64 %mask, ptr %strides,
    ptr %cpu, i1 true, i64 1)
  ret i1 %fits
}}
; The same for a tensor of a device, by the object of that and DLPack's (type, index << 32): arrays of numpy do not fit.
define i1 @unity_extract_on(ptr %o, ptr %leaf, i64 %dtype, i32 %dl, i32 %ndim, i32 %flags, i64 %mask, ptr %strides,
  ptr %device, i64 %place) {{
  %fits = call i1 @unity_extract_any(ptr %o, ptr %leaf, i64 %dtype, i32 %dl, i32 %ndim, i32 %flags, i64 %mask, ptr %strides,
    ptr %device, i1 false, i64 %place)
  ret i1 %fits
}}
define internal i1 @unity_extract_any(ptr %o, ptr %leaf, i64 %dtype, i32 %dl, i32 %ndim, i32 %flags, i64 %mask, ptr %strides,
  ptr %device, i1 %host, i64 %place) alwaysinline {{
entry:
  %dlt = alloca [6 x i64], align 8
  %tp = getelementptr i8, ptr %o, i64 8
  %type = load ptr, ptr %tp
  %ndt = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {ndarray})
  %isnd = icmp eq ptr %type, %ndt
  %isarray = and i1 %isnd, %host
  br i1 %isarray, label %numpy, label %nottensor
nottensor:
  %tt = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {tensor})
  %istt = icmp eq ptr %type, %tt
  br i1 %istt, label %unity, label %trytorch
unity:
  %off = load i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {tensor_array})
  %ap = getelementptr i8, ptr %o, i64 %off
  %inner = load ptr, ptr %ap
  %isnull = icmp eq ptr %inner, null
  br i1 %isnull, label %no, label %where
where:
  %dof = load i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {tensor_device})
  %dp = getelementptr i8, ptr %o, i64 %dof
  %lies = load ptr, ptr %dp
  %there = icmp eq ptr %lies, %device
  br i1 %there, label %unity2, label %no
unity2:
  %itp = getelementptr i8, ptr %inner, i64 8
  %itype = load ptr, ptr %itp
  %isarr = icmp eq ptr %itype, %ndt
  br i1 %isarr, label %numpy, label %no
numpy:
  %a = phi ptr [ %o, %entry ], [ %inner, %unity2 ]
  %nfp = getelementptr i8, ptr %a, i64 {flags}
  %nf = load i32, ptr %nfp
  %nfm = and i32 %nf, %flags
  %nfok = icmp eq i32 %nfm, %flags
  br i1 %nfok, label %numpy2, label %no
numpy2:
  %ndp = getelementptr i8, ptr %a, i64 {ndim}
  %nd = load i32, ptr %ndp
  %anynd = icmp slt i32 %ndim, 0
  %ndeq = icmp eq i32 %nd, %ndim
  %ndok = or i1 %anynd, %ndeq
  br i1 %ndok, label %numpy3, label %no
numpy3:
  %anyt = icmp slt i64 %dtype, 0
  br i1 %anyt, label %numpy4, label %descr
descr:
  %dsp = getelementptr i8, ptr %a, i64 {descr}
  %ds = load ptr, ptr %dsp
  %wantp = getelementptr i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {dtypes}), i64 %dtype
  %want = load ptr, ptr %wantp
  %dsok = icmp eq ptr %ds, %want
  br i1 %dsok, label %numpy4, label %no
numpy4:
  %dap = getelementptr i8, ptr %a, i64 {data}
  %nda = load ptr, ptr %dap
  %dip = getelementptr i8, ptr %a, i64 {dims}
  %ndi = load ptr, ptr %dip
  %wants = icmp ne ptr %strides, null
  br i1 %wants, label %numpy5, label %done
numpy5:
  %stp = getelementptr i8, ptr %a, i64 {strides}
  %st = load ptr, ptr %stp
  store ptr %st, ptr %strides
  %unitp = getelementptr i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {itemsizes}), i64 %dtype
  %unit = load i64, ptr %unitp
  %strides1 = getelementptr i8, ptr %strides, i64 8
  store i64 %unit, ptr %strides1
  br label %done
trytorch:
  %to = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {torch_tensor})
  %isto = icmp eq ptr %type, %to
  %tpa = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {torch_parameter})
  %ispa = icmp eq ptr %type, %tpa
  %istorch = or i1 %isto, %ispa
  %plain = icmp eq ptr %strides, null
  %usetorch = and i1 %istorch, %plain
  br i1 %usetorch, label %torch, label %no
torch:
  %fn = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {torch_exchange})
  %rc = call i32 %fn(ptr %o, ptr %dlt)
  %rcok = icmp eq i32 %rc, 0
  br i1 %rcok, label %torch2, label %torcherr
torcherr:
  call void @PyErr_Clear()
  br label %no
torch2:
  %devp = getelementptr i8, ptr %dlt, i64 8
  %dev = load i64, ptr %devp
  %devok = icmp eq i64 %dev, %place
  br i1 %devok, label %torch3, label %no
torch3:
  %tndp = getelementptr i8, ptr %dlt, i64 16
  %tnd = load i32, ptr %tndp
  %tany = icmp slt i32 %ndim, 0
  %tneq = icmp eq i32 %tnd, %ndim
  %tnok = or i1 %tany, %tneq
  br i1 %tnok, label %torch4, label %no
torch4:
  %tdp = getelementptr i8, ptr %dlt, i64 20
  %td = load i32, ptr %tdp
  %anydt = icmp eq i32 %dl, 0
  %tdeq = icmp eq i32 %td, %dl
  %tdok = or i1 %anydt, %tdeq
  br i1 %tdok, label %torch5, label %no
torch5:
  %tdata = load ptr, ptr %dlt
  %tofp = getelementptr i8, ptr %dlt, i64 40
  %tof = load i64, ptr %tofp
  %tda = getelementptr i8, ptr %tdata, i64 %tof
  %tdip = getelementptr i8, ptr %dlt, i64 24
  %tdi = load ptr, ptr %tdip
  %tstp = getelementptr i8, ptr %dlt, i64 32
  %tst = load ptr, ptr %tstp
  %nostr = icmp eq ptr %tst, null
  br i1 %nostr, label %contig0, label %contig
contig0:
  %plain0 = icmp eq i32 %tnd, 0
  br i1 %plain0, label %askneg, label %done
contig:  ; from the last dimension: stride == product of the extents behind it. DLPack does not say that a tensor is negated, as
  ; imaginary parts of conjugated tensors are: those have other strides, left to Python for an extent of 1, or no dimension
  %n64 = sext i32 %tnd to i64
  %scalar = icmp eq i32 %tnd, 0
  br i1 %scalar, label %askneg, label %cloop
askneg:
  %negf = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {torch_is_neg})
  store ptr %o, ptr %dlt
  %isneg = call ptr @PyObject_Vectorcall(ptr %negf, ptr %dlt, i64 1, ptr null)
  %negerr = icmp eq ptr %isneg, null
  br i1 %negerr, label %torcherr, label %negknown
negknown:
  call void @Py_DecRef(ptr %isneg)
  %false = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {False})
  %notneg = icmp eq ptr %isneg, %false
  br i1 %notneg, label %done, label %no
cloop:
  %ci = phi i64 [ %n64, %contig ], [ %cj, %cnext ]
  %cp = phi i64 [ 1, %contig ], [ %cp2, %cnext ]
  %cbad = phi i1 [ false, %contig ], [ %cbad2, %cnext ]
  %cend = icmp eq i64 %ci, 0
  br i1 %cend, label %cdone, label %cnext
cnext:
  %cj = add i64 %ci, -1
  %cep = getelementptr i64, ptr %tdi, i64 %cj
  %ce = load i64, ptr %cep
  %csp = getelementptr i64, ptr %tst, i64 %cj
  %cs = load i64, ptr %csp
  %cne = icmp ne i64 %cs, %cp
  %cbad2 = or i1 %cbad, %cne
  %cp2 = mul i64 %cp, %ce
  br label %cloop
cdone:  ; a tensor without elements is contiguous whatever its strides
  %full = icmp ne i64 %cp, 0
  %bad = and i1 %cbad, %full
  br i1 %bad, label %no, label %done
done:
  %data = phi ptr [ %nda, %numpy4 ], [ %nda, %numpy5 ], [ %tda, %cdone ], [ %tda, %contig0 ], [ %tda, %negknown ]
  %dims = phi ptr [ %ndi, %numpy4 ], [ %ndi, %numpy5 ], [ %tdi, %cdone ], [ %tdi, %contig0 ], [ %tdi, %negknown ]
  %rank = phi i32 [ %nd, %numpy4 ], [ %nd, %numpy5 ], [ %tnd, %cdone ], [ %tnd, %contig0 ], [ %tnd, %negknown ]
  %addr = ptrtoint ptr %data to i64
  %low = and i64 %addr, %mask
  %alok = icmp eq i64 %low, 0
  br i1 %alok, label %yes, label %no
yes:
  %rank64 = sext i32 %rank to i64
  store ptr %data, ptr %leaf
  %l1 = getelementptr i8, ptr %leaf, i64 8
  store ptr %o, ptr %l1
  %l2 = getelementptr i8, ptr %leaf, i64 16
  store ptr %dims, ptr %l2
  %l3 = getelementptr i8, ptr %leaf, i64 24
  store i64 %rank64, ptr %l3
  ret i1 true
no:
  ret i1 false
}}
"""

TENSORS_IR = """
define ptr @unity_handler_malloc(ptr %c, i64 %n) {{
  %p = call ptr @unity_memory_alloc(i64 64, i64 %n)
  ret ptr %p
}}
define ptr @unity_handler_calloc(ptr %c, i64 %n, i64 %m) {{
  %p = call ptr @calloc(i64 %n, i64 %m)
  ret ptr %p
}}
define ptr @unity_handler_realloc(ptr %c, ptr %old, i64 %n) {{
  %p = call ptr @unity_memory_realloc(ptr %old, i64 %n)
  ret ptr %p
}}
define void @unity_handler_free(ptr %c, ptr %p, i64 %n) {{
  call void @unity_memory_free(ptr %p)
  ret void
}}

; Raise the error with this number (see the table in docs/calling_convention.md).
define void @unity_raise(i64 %code, i64 %a, i64 %b) noinline cold {{
  %f = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {raise})
  call void @unity_raise_by(ptr %f, i64 %code, i64 %a, i64 %b)
  ret void
}}
; Call a Python function that raises an error described by three integers.
define void @unity_raise_by(ptr %f, i64 %code, i64 %a, i64 %b) noinline cold {{
  %args = alloca [3 x ptr], align 8
  %c0 = call ptr @PyLong_FromLongLong(i64 %code)
  %c1 = call ptr @PyLong_FromLongLong(i64 %a)
  %c2 = call ptr @PyLong_FromLongLong(i64 %b)
  %p1 = getelementptr ptr, ptr %args, i64 1
  %p2 = getelementptr ptr, ptr %args, i64 2
  store ptr %c0, ptr %args
  store ptr %c1, ptr %p1
  store ptr %c2, ptr %p2
  %n0 = icmp ne ptr %c0, null
  %n1 = icmp ne ptr %c1, null
  %n2 = icmp ne ptr %c2, null
  %n01 = and i1 %n0, %n1
  %ok = and i1 %n01, %n2
  br i1 %ok, label %go, label %out
go:
  %r = call ptr @PyObject_Vectorcall(ptr %f, ptr %args, i64 3, ptr null)
  call void @Py_DecRef(ptr %r)
  br label %out
out:
  call void @Py_DecRef(ptr %c0)
  call void @Py_DecRef(ptr %c1)
  call void @Py_DecRef(ptr %c2)
  ret void
}}

; A new numpy array with uninitialised memory at a multiple of 64 bytes; its address goes to %out.
define ptr @unity_new_array(i64 %dtype, i64 %nd, ptr %dims, ptr %out) {{
entry:
  %itemp = getelementptr i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {itemsizes}), i64 %dtype
  %item = load i64, ptr %itemp
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i2, %next ]
  %size = phi i64 [ %item, %entry ], [ %size2, %next ]
  %zero = phi i1 [ false, %entry ], [ %zero2, %next ]
  %end = icmp eq i64 %i, %nd
  br i1 %end, label %sized, label %step
step:
  %dp = getelementptr i64, ptr %dims, i64 %i
  %d = load i64, ptr %dp
  %neg = icmp slt i64 %d, 0
  br i1 %neg, label %negative, label %product
product:  ; numpy bounds the product of the other extents also where one is zero
  %iszero = icmp eq i64 %d, 0
  %zero2 = or i1 %zero, %iszero
  %factor = call i64 @llvm.umax.i64(i64 %d, i64 1)
  %m = call {{ i64, i1 }} @llvm.smul.with.overflow.i64(i64 %size, i64 %factor)
  %over = extractvalue {{ i64, i1 }} %m, 1
  br i1 %over, label %toolarge, label %next
next:
  %size2 = extractvalue {{ i64, i1 }} %m, 0
  %i2 = add i64 %i, 1
  br label %loop
negative:
  call void @unity_raise(i64 1, i64 %d, i64 %i)
  ret ptr null
toolarge:
  call void @unity_raise(i64 2, i64 140737488355328, i64 0)
  ret ptr null
sized:
  %bytes = select i1 %zero, i64 0, i64 %size
  %huge = icmp ugt i64 %bytes, 140737488355328
  br i1 %huge, label %toolarge, label %allocate
allocate:
  %data = call ptr @unity_handler_malloc(ptr null, i64 %bytes)
  %nomem = icmp eq ptr %data, null
  br i1 %nomem, label %memory, label %make
memory:
  call void @unity_raise(i64 3, i64 %bytes, i64 0)
  ret ptr null
make:
  store ptr %data, ptr %out
  %arr = call ptr @unity_array_over(i64 %dtype, i64 %nd, ptr %dims, ptr %data)
  %bad = icmp eq ptr %arr, null
  br i1 %bad, label %release, label %own
release:
  call void @unity_memory_free(ptr %data)
  ret ptr null
own:  ; numpy frees the memory through our handler, stored in the array
  %fp = getelementptr i8, ptr %arr, i64 {flags}
  %f = load i32, ptr %fp
  %f2 = or i32 %f, 4
  store i32 %f2, ptr %fp
  %hp = getelementptr i8, ptr %arr, i64 {handler}
  %h = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {memory_handler})
  call void @Py_IncRef(ptr %h)
  store ptr %h, ptr %hp
  ret ptr %arr
}}
; A numpy array over memory it does not own.
define internal ptr @unity_array_over(i64 %dtype, i64 %nd, ptr %dims, ptr %data) {{
  %descrp = getelementptr i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {dtypes}), i64 %dtype
  %descr = load ptr, ptr %descrp
  call void @Py_IncRef(ptr %descr)
  %type = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {ndarray})
  %fn = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {numpy_new})
  %nd32 = trunc i64 %nd to i32
  %arr = call ptr %fn(ptr %type, ptr %descr, i32 %nd32, ptr %dims, ptr null, ptr %data, i32 {carray}, ptr null)
  ret ptr %arr
}}
; A unity.Tensor around a numpy array; takes over the reference to the array (null stays null).
define ptr @unity_wrap_tensor(ptr %arr) {{
entry:
  %none = icmp eq ptr %arr, null
  br i1 %none, label %fail, label %make
make:
  %type = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {tensor})
  %t = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %bad = icmp eq ptr %t, null
  br i1 %bad, label %drop, label %fill
drop:
  call void @Py_DecRef(ptr %arr)
  br label %fail
fail:
  ret ptr null
fill:
  %oa = load i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {tensor_array})
  %pa = getelementptr i8, ptr %t, i64 %oa
  store ptr %arr, ptr %pa
  %cpu = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {cpu})
  call void @Py_IncRef(ptr %cpu)
  %od = load i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {tensor_device})
  %pd = getelementptr i8, ptr %t, i64 %od
  store ptr %cpu, ptr %pd
  ret ptr %t
}}
; A unity.Tensor (taken over, null stays null) that was just made over memory of a device, labelled so.
define ptr @unity_on(ptr %t, ptr %device) {{
entry:
  %none = icmp eq ptr %t, null
  br i1 %none, label %done, label %label
label:
  %od = load i64, ptr getelementptr (i8, ptr @unity_runtime, i64 {tensor_device})
  %pd = getelementptr i8, ptr %t, i64 %od
  %old = load ptr, ptr %pd
  call void @Py_IncRef(ptr %device)
  store ptr %device, ptr %pd
  call void @Py_DecRef(ptr %old)
  br label %done
done:
  ret ptr %t
}}
; A new unity.Tensor with uninitialised memory.
define ptr @unity_new_tensor(i64 %dtype, i64 %nd, ptr %dims, ptr %out) {{
  %a = call ptr @unity_new_array(i64 %dtype, i64 %nd, ptr %dims, ptr %out)
  %t = call ptr @unity_wrap_tensor(ptr %a)
  ret ptr %t
}}
; A unity.Tensor over memory that %owner (borrowed, may be null) keeps alive.
define ptr @unity_view_tensor(i64 %dtype, i64 %nd, ptr %dims, ptr %data, ptr %owner) {{
entry:
  %a = call ptr @unity_array_over(i64 %dtype, i64 %nd, ptr %dims, ptr %data)
  %bad = icmp eq ptr %a, null
  %free = icmp eq ptr %owner, null
  %skip = or i1 %bad, %free
  br i1 %skip, label %wrap, label %base
base:
  call void @Py_IncRef(ptr %owner)
  %fn = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {numpy_set_base})
  %rc = call i32 %fn(ptr %a, ptr %owner)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %wrap, label %drop
drop:
  call void @Py_DecRef(ptr %a)
  ret ptr null
wrap:
  %t = call ptr @unity_wrap_tensor(ptr %a)
  ret ptr %t
}}
; The unity.Tensor of a tensor leaf: itself, or a new one over the same memory.
define ptr @unity_leaf_tensor(ptr %leaf, i64 %dtype) {{
entry:
  %l1 = getelementptr i8, ptr %leaf, i64 8
  %o = load ptr, ptr %l1
  %tp = getelementptr i8, ptr %o, i64 8
  %type = load ptr, ptr %tp
  %tt = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {tensor})
  %is = icmp eq ptr %type, %tt
  br i1 %is, label %itself, label %other
itself:
  call void @Py_IncRef(ptr %o)
  ret ptr %o
other:
  %nd = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {ndarray})
  %isnd = icmp eq ptr %type, %nd
  br i1 %isnd, label %array, label %view
array:
  call void @Py_IncRef(ptr %o)
  %t = call ptr @unity_wrap_tensor(ptr %o)
  ret ptr %t
view:
  %data = load ptr, ptr %leaf
  %l2 = getelementptr i8, ptr %leaf, i64 16
  %dims = load ptr, ptr %l2
  %l3 = getelementptr i8, ptr %leaf, i64 24
  %n = load i64, ptr %l3
  %v = call ptr @unity_view_tensor(i64 %dtype, i64 %n, ptr %dims, ptr %data, ptr %o)
  ret ptr %v
}}
"""
