"""Write docs/schedule.md from the table of schedule primitives: docstrings, and each example with what it makes of the
program."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import unity
import unity.target.tensor_intrin  # registers the shipped intrinsics
from unity.script import parse
from unity.transform.schedule import FAMILIES, ROWS, Row, Schedule
from unity.transform.schedule.schedule import INSTEAD

TARGET = Path(__file__).parent.parent / "docs" / "schedule.md"
HEAD = Path(__file__).parent / "schedule_head.md"
PROGRAM = """@I.ir_module
class Example:
    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
        C = T.alloc_buffer((16, 16), "float32")
        for i, j, k in T.grid(16, 16, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(16, 16):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))
"""
START = "sch = unity.Schedule(Example, seed=0)"


def example_module() -> Any:
    """The program that every example starts from."""
    return parse(PROGRAM)


def execute(example: str) -> Schedule:
    """Run an example; the schedule it leaves."""
    names: dict[str, Any] = {"unity": unity, "Example": example_module()}
    exec(f"{START}\n{example}", names)
    found = names["sch"]
    assert isinstance(found, Schedule)
    return found


def signature(row: Row) -> str:
    """The call as a reader writes it."""
    shown = []
    for parameter in row.signature.parameters.values():
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
        shown.append(f"{star}{parameter.name}{default}")
    return f"{row.name}({', '.join(shown)})"


def changed_lines(before: str, after: str) -> list[str]:
    """The lines of a program from the first that changed to the last."""
    old, new = before.splitlines(), after.splitlines()
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    stop = 0
    while stop < min(len(old), len(new)) - start and old[-1 - stop] == new[-1 - stop]:
        stop += 1
    return new[start : len(new) - stop]


def section(row: Row) -> list[str]:
    """One primitive."""
    lines = ["", f"### {row.name}", "", f"`{signature(row)}`", "", *row.doc.splitlines()]
    if row.rewrite:
        lines += ["", f"Rewrite: `{row.rewrite}`"]
    if row.checks:
        lines += ["", f"Conditions: {', '.join(row.checks)}."]
    if row.unsafe:
        lines += ["", "Unsafe: the step may change what the program computes."]
    if row.example:
        lines += ["", "```python", START, *row.example.splitlines(), "```"]
        after = changed_lines(example_module().script(), execute(row.example).mod.script())
        if after:
            lines += ["", "The lines that changed:", "", "```", *after, "```"]
    return lines


def render() -> str:
    """The page as text."""
    absent = "".join([f"| `{name}` | {instead} |\n" for name, instead in INSTEAD.items()])
    lines = [HEAD.read_text(encoding="utf-8").replace("PROGRAM\n", PROGRAM).replace("ABSENT\n", absent).rstrip()]
    for family in FAMILIES:
        rows = [row for row in ROWS.values() if row.family == family.__name__.rsplit(".", 1)[-1]]
        title = " ".join((family.__doc__ or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        lines += ["", f"## {title}"]
        for row in rows:
            lines += section(row)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
