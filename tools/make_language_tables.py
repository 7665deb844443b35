"""The tables of ``docs/language.md``, from ``unity/script/spelling/spelling.py``; the text around them is written by hand."""

from __future__ import annotations

import re
from pathlib import Path

from unity.script.spelling.spelling import (
    AXES,
    AXIS_CANONICAL,
    CANONICAL,
    DTYPE_ALIASES,
    DTYPES,
    INFIX,
    KEYWORDS,
    LOOP_CANONICAL,
    LOOPS,
    REORDERED,
    TVM_NAMES,
)  # fmt: skip

PAGE = Path(__file__).resolve().parent.parent / "docs" / "language.md"
PART = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.S)

OTHER = (
    ('`A: T.Buffer[(16,), "float32"]`', '`A: T.Buffer((16,), "float32")`'),
    ('`n = T.var("int64")`', "`n = T.int64()`"),
    ("`p: T.Ptr(T.float32)`", '`p: T.handle("float32")`'),
    ("`x: T.let = e`, `x: T.let[T.float32] = e`, `x = T.bind(e)`, `with T.LetStmt(e) as x:`", "`x: T.float32 = e`"),
    ('`p = T.allocate([16], "float32", "global")`', '`p = T.allocate_buffer((16,), "float32")`'),
    ('`T.allocate_const([1, 2], "int32", [2])`', '`T.alloc_const([1, 2], "int32")`'),
    ("`T.ret(x)`", "`return x`"),
    ("`A.vstore([0], v)`, `T.buffer_store(A, v, [0])`", "`A[0] = v`"),
    ("`with T.If(c):` with `T.Then()`, `T.Else()`; `with T.While(c):`; `with T.Assert(c, \"...\"):`",
     "`if c:`, `while c:`, `assert c, \"...\"`"),
    ('`R.call_dps((n, m), f, [x])`, `R.call_tir(f, (x,), (n, m), dtype="float32")`, '
     '`R.call_dps_packed("f", (x,), out_sinfo=...)`', '`R.call_dps(f, (x,), R.Tensor((n, m), "float32"))`'),
    ("`R.match_shape(x, (n, m))`", '`R.match_cast(x, R.Tensor((n, m), "float32"))`'),
    ("`x: R.Tensor((n, m), \"float32\")` with names nothing defines", '`x: R.Tensor(("n", "m"), "float32")`'),
    ("`@tvm.script.ir_module`, `from tvm.script import tir as T` ...", "the same with `unity.script`"),
)  # fmt: skip


def table(head: str, rows: list[tuple[str, ...]]) -> str:
    """A table of Markdown."""
    columns = head.count("|") + 1
    lines = [f"| {head} |", "|" + "---|" * columns]
    return (
        "\n".join([*lines, *["| " + " | ".join([cell.replace("|", "\\|") for cell in row]) + " |" for row in rows]])
        + "\n"
    )


def renamed() -> str:
    """Names of other eras."""
    rows = [(f"`{old}`", f"`{new}`") for old, new in CANONICAL.items() if old not in REORDERED]
    rows += [(f"`T.{old}`", f"`T.{new}`") for old, new in DTYPE_ALIASES.items() if f"T.{old}" not in CANONICAL]
    rows += [(f"`{old}=`", f"`{new}=`") for old, new in KEYWORDS.items() if old != new and new != "out_ty"]
    return table("read | becomes", [*rows, *OTHER])


def tvm() -> str:
    """Names of the TVM dialect."""
    return table("unity | dialect `tvm`", [(f"`{ours}`", f"`{theirs}`") for ours, theirs in TVM_NAMES.items()])


def operators() -> str:
    """Infix operators, loosest first."""
    rows = [
        (f"`{row.text}`", f"`{row.node or row.op}`" if row.node or row.op else "none", f"`{row.graph}`")
        for row in sorted(INFIX.values(), key=lambda row: row.level)
    ]
    return table("operator | on scalars | on tensors", rows)


def loops() -> str:
    """Loops and axes."""
    rows = []
    for kind, name in reversed(LOOP_CANONICAL.items()):
        also = [f"`{text}`" for text, other in LOOPS.items() if other == kind and text != name]
        rows.append((f"`{name}`", f"{kind} loop", ", ".join(also)))
    for kind, name in reversed(AXIS_CANONICAL.items()):
        also = [f"`{text}`" for text, other in AXES.items() if other == kind and text != name]
        rows.append(
            (f"`{name}`", {"S": "spatial axis", "R": "reduction axis"}.get(kind, f"{kind} axis"), ", ".join(also))
        )
    return table("name | meaning | also", rows)


def dtypes() -> str:
    """Data types."""
    return ", ".join([f"`{name}`" for name in DTYPES]) + ".\n"


PARTS = {"renamed": renamed, "tvm": tvm, "operators": operators, "loops": loops, "dtypes": dtypes}


def build() -> str:
    """The page with its tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    names = [match.group(2) for match in PART.finditer(text)]
    assert sorted(names) == sorted(PARTS), f"docs/language.md holds the tables {names}"
    return PART.sub(lambda match: match.group(1) + PARTS[match.group(2)]() + match.group(3), text)
