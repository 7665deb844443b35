"""LLVM IR of copies between layouts: a function for the thread pool, one for each element size; compiled by ``compact``.

A copy is cut into units: a run of rows of one plane (the last axis of the target, and the rows), for each index of the outer axes.
The context is words: {target, source, rows, columns, target row stride, source row stride, source column stride, rows in a unit,
outer axis that counts the runs, number of outer axes, then count, target stride and source stride of each}, strides in bytes.
Rows that lie together in the source are copied as they are. Columns that do are turned in squares inside registers.
"""

from __future__ import annotations

SIZES = (1, 2, 4, 8)
"""Element sizes in bytes."""
ROWS, TURNED = "unity_copy_rows", "unity_copy_turned"
"""``i32 fn(ptr context, i64 begin, i64 end)`` on a range of units: neighbours along a row lie together, or along a column."""


def side(size: int) -> int:
    """Rows and columns of a square: one cache line of elements, at most 16."""
    return min(16, 64 // size)


_UNITS = """\
define i32 @{name}(ptr %ctx, i64 %begin, i64 %end) {{
entry:
  %target = load ptr, ptr %ctx
{words}
  %source_at = getelementptr i64, ptr %ctx, i64 1
  %source = load ptr, ptr %source_at
  br label %units
units:
  %t = phi i64 [ %begin, %entry ], [ %t2, %copy ]
  %more = icmp slt i64 %t, %end
  br i1 %more, label %axes, label %done
axes:
  %k = phi i64 [ %outer, %units ], [ %k1, %axis ]
  %rest = phi i64 [ %t, %units ], [ %rest2, %axis ]
  %d = phi ptr [ %target, %units ], [ %d2, %axis ]
  %s = phi ptr [ %source, %units ], [ %s2, %axis ]
  %first = phi i64 [ 0, %units ], [ %first2, %axis ]
  %left = icmp sgt i64 %k, 0
  br i1 %left, label %axis, label %copy
axis:
  %k1 = sub i64 %k, 1
  %triple = mul i64 %k1, 3
  %place = add i64 %triple, 10
  %at0 = getelementptr i64, ptr %ctx, i64 %place
  %at1 = getelementptr i64, ptr %at0, i64 1
  %at2 = getelementptr i64, ptr %at0, i64 2
  %count = load i64, ptr %at0
  %dstep = load i64, ptr %at1
  %sstep = load i64, ptr %at2
  %i = urem i64 %rest, %count
  %rest2 = udiv i64 %rest, %count
  %doff = mul i64 %i, %dstep
  %soff = mul i64 %i, %sstep
  %d2 = getelementptr i8, ptr %d, i64 %doff
  %s2 = getelementptr i8, ptr %s, i64 %soff
  %runs = icmp eq i64 %k1, %axis_of_runs
  %begun = mul i64 %i, %run
  %first2 = select i1 %runs, i64 %begun, i64 %first
  br label %axes
copy:
  %remain = sub i64 %rows, %first
  %n = call i64 @llvm.smin.i64(i64 %remain, i64 %run)
  call void @unity.{name}(ptr %d, ptr %s, i64 %n, i64 %columns, i64 %drow, i64 %srow, i64 %scolumn)
  %t2 = add i64 %t, 1
  br label %units
done:
  ret i32 0
}}
"""

_FIELDS = ("rows", "columns", "drow", "srow", "scolumn", "run", "axis_of_runs", "outer")

_ROW_MAJOR = """\
define internal void @unity.unity_copy_rows(ptr %d, ptr %s, i64 %n, i64 %columns, i64 %drow, i64 %srow, i64 %scolumn) {{
entry:
  %bytes = mul i64 %columns, {size}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i2, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %doff = mul i64 %i, %drow
  %soff = mul i64 %i, %srow
  %to = getelementptr i8, ptr %d, i64 %doff
  %from = getelementptr i8, ptr %s, i64 %soff
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %i2 = add i64 %i, 1
  br label %loop
done:
  ret void
}}
"""

_TRANSPOSED = """\
; One element after the other: what squares leave over.
define internal void @unity.copy.single(ptr %d, ptr %s, i64 %r0, i64 %n, i64 %c0, i64 %columns, i64 %drow, i64 %scolumn) {{
entry:
  br label %rows
rows:
  %r = phi i64 [ %r0, %entry ], [ %r2, %next ]
  %rmore = icmp slt i64 %r, %n
  br i1 %rmore, label %columns_of, label %done
columns_of:
  %c = phi i64 [ %c0, %rows ], [ %c2, %one ]
  %cmore = icmp slt i64 %c, %columns
  br i1 %cmore, label %one, label %next
one:
  %doff = mul i64 %r, %drow
  %drow_at = getelementptr i8, ptr %d, i64 %doff
  %to = getelementptr {element}, ptr %drow_at, i64 %c
  %soff = mul i64 %c, %scolumn
  %scol_at = getelementptr i8, ptr %s, i64 %soff
  %from = getelementptr {element}, ptr %scol_at, i64 %r
  %value = load {element}, ptr %from, align 1
  store {element} %value, ptr %to, align 1
  %c2 = add i64 %c, 1
  br label %columns_of
next:
  %r2 = add i64 %r, 1
  br label %rows
done:
  ret void
}}
define internal void @unity.unity_copy_turned(ptr %d, ptr %s, i64 %n, i64 %columns, i64 %drow, i64 %srow, i64 %scolumn) {{
entry:
  %whole_rows = and i64 %n, -{side}
  %whole_columns = and i64 %columns, -{side}
  br label %rows
rows:
  %r = phi i64 [ 0, %entry ], [ %r2, %next ]
  %rmore = icmp slt i64 %r, %whole_rows
  br i1 %rmore, label %columns_of, label %rest
columns_of:
  %c = phi i64 [ 0, %rows ], [ %c2, %square ]
  %cmore = icmp slt i64 %c, %whole_columns
  br i1 %cmore, label %square, label %next
square:
  %doff = mul i64 %r, %drow
  %drow_at = getelementptr i8, ptr %d, i64 %doff
  %to = getelementptr {element}, ptr %drow_at, i64 %c
  %soff = mul i64 %c, %scolumn
  %scol_at = getelementptr i8, ptr %s, i64 %soff
  %from = getelementptr {element}, ptr %scol_at, i64 %r
{square}
  %c2 = add i64 %c, {side}
  br label %columns_of
next:
  %r2 = add i64 %r, {side}
  br label %rows
rest:
  call void @unity.copy.single(ptr %d, ptr %s, i64 0, i64 %whole_rows, i64 %whole_columns, i64 %columns, i64 %drow, i64 %scolumn)
  call void @unity.copy.single(ptr %d, ptr %s, i64 %whole_rows, i64 %n, i64 0, i64 %columns, i64 %drow, i64 %scolumn)
  ret void
}}
"""


def _square(size: int) -> str:
    """Load a square by columns, exchange halves, quarters, ... of neighbouring vectors, store it by rows."""
    n = side(size)
    vector = f"<{n} x i{8 * size}>"
    lines = []
    for k in range(n):
        lines += [
            f"%so{k} = mul i64 %scolumn, {k}",
            f"%sp{k} = getelementptr i8, ptr %from, i64 %so{k}",
            f"%v{k}.{n} = load {vector}, ptr %sp{k}, align 1",
        ]
    half = n // 2
    while half:
        for k in range(n):
            low, high = k & ~half, k | half
            upper = k & half
            picked = [(j if not j & half else j - half + n) + (half if upper else 0) for j in range(n)]
            mask = ", ".join([f"i32 {p}" for p in picked])
            lines.append(
                f"%v{k}.{half} = shufflevector {vector} %v{low}.{2 * half}, {vector} %v{high}.{2 * half}, <{n} x i32> <{mask}>"
            )
        half //= 2
    for k in range(n):
        lines += [
            f"%do{k} = mul i64 %drow, {k}",
            f"%dp{k} = getelementptr i8, ptr %to, i64 %do{k}",
            f"store {vector} %v{k}.1, ptr %dp{k}, align 1",
        ]
    return "\n".join([f"  {line}" for line in lines])


def copy_ir(size: int) -> str:
    """Both functions for elements of a size."""
    words = "\n".join(
        [
            f"  %{name}_at = getelementptr i64, ptr %ctx, i64 {2 + k}\n  %{name} = load i64, ptr %{name}_at"
            for k, name in enumerate(_FIELDS)
        ]
    )
    parts = [
        "declare i64 @llvm.smin.i64(i64, i64)\ndeclare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)\n",
        _ROW_MAJOR.format(size=size),
        _TRANSPOSED.format(element=f"i{8 * size}", side=side(size), square=_square(size)),
        *[_UNITS.format(name=name, words=words) for name in (ROWS, TURNED)],
    ]
    return "".join(parts)
