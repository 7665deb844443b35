"""Write docs/operators.md from the operator table. ``--check`` fails where the file is not current."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from op_samples import Draw, Sample, read_samples, sample_call, short_type

from unity.ir.op import OPS, OpInfo
from unity.op import usage
from unity.op.common.parameters import DESCRIPTIONS
from unity.op.composite import COMPOSITES
from unity.support.errors import TypeRuleError

TARGET = Path(__file__).parent.parent / "docs" / "operators.md"
FAMILIES = ("unary", "binary", "compare", "reduce", "linalg", "manipulate", "index", "create", "dtype", "nn", "core")
KINDS = {"float32": "float", "int32": "integer", "bool": "bool"}
"""A data type of each kind."""


def _part(value: object, word: str) -> str:
    return word if callable(value) else "-"


def _example(info: OpInfo) -> str:
    """The arguments of the first sample and the type of the call."""
    sample = next(read_samples(info.samples), None)
    return f"`{sample}` gives `{short_type(sample_call(info, sample).ty)}`" if sample else ""


def _flat(values: list[Any]) -> list[Any]:
    return [part for v in values for part in (v if isinstance(v, list) else [v])]


def _types(info: OpInfo) -> str:
    """The kinds of data types that the type rule takes for the first tensor of a sample, and all others of its data type."""
    count = len([p for p in info.params if p.kind == "expr"])
    sample = next(read_samples(info.samples), Sample([Draw("float32", (3,))] * count if info.pointwise else [], {}))
    given = next((v.dtype for v in _flat(sample.inputs) if isinstance(v, Draw)), "")
    taken = [word for dtype, word in KINDS.items() if given and _takes(info, sample, given, dtype)]
    return "any" if len(taken) == len(KINDS) else ", ".join(taken) or "-"


def _takes(info: OpInfo, sample: Sample, given: str, dtype: str) -> bool:
    def drawn(value: Any) -> Any:
        if isinstance(value, list):
            return [drawn(v) for v in value]
        return replace(value, dtype=dtype) if isinstance(value, Draw) and value.dtype == given else value

    try:
        sample_call(info, replace(sample, inputs=drawn(sample.inputs)))
    except TypeRuleError:
        return False
    return True


def _row(info: OpInfo) -> str:
    effect = "" if info.pure is True else " Has effects."
    own = "; ".join([f"`{p.name}`: {p.doc}" for p in info.params if DESCRIPTIONS.get(p.name) != p.doc])
    columns = [
        f"`{usage(info)}`",
        info.doc + effect + (f" {own}." if own else ""),
        _types(info),
        _part(info.lower, "yes"),
        _part(info.grad, "yes"),
        _part(info.ref, "yes"),
        _example(info),
    ]
    return "| " + " | ".join([c.replace("|", "\\|") for c in columns]) + " |"


def render() -> str:
    """The page as text."""
    lines = [
        "# Graph operators",
        "",
        f"{len(OPS)} operators, written from the rows in `unity/op` by `python tools/make_op_docs.py`.",
        "",
        "| column | says |",
        "|---|---|",
        "| types | data types of the first tensor; a result has its data type, a test gives bool, unless the row says more |",
        "| lowering | there is a tensor program; the others run in the VM |",
        "| gradient | there is one; where it needs a layout, a reduction or constant sizes, it says so (E214, E218) |",
        "| numpy | there is a numpy meaning that the tests compare with |",
        '| example | arguments and the type of the result; `f32[3, 4]` is `R.Tensor((3, 4), "float32")` |',
        "",
        "Operators without an example work by element and broadcast the shapes of their operands as numpy does. They compute",
        "float16 and bfloat16 in float32 and round once. NaN, infinities and overflow are treated as in numpy, unless the row says",
        "more.",
        "",
        "## Parameters that operators share",
        "",
        "A parameter that means something else to an operator is described in its row.",
        "",
        "| parameter | meaning |",
        "|---|---|",
        *[f"| `{name}` | {doc} |" for name, doc in sorted(DESCRIPTIONS.items())],
    ]
    known = {info.family for info in OPS.values()}
    for family in [*[f for f in FAMILIES if f in known], *sorted(known - set(FAMILIES))]:
        rows = sorted([info for info in OPS.values() if info.family == family], key=lambda info: info.name)
        lines += [
            "",
            f"## {family}",
            "",
            "| operator | meaning | types | lowering | gradient | numpy | example |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_row(info) for info in rows]
    lines += [
        "",
        "## Combinations",
        "",
        "Names for combinations of operators: a call makes the calls it stands for.",
        "",
    ]
    lines += ["| call | meaning |", "|---|---|"]
    for name, function in sorted(COMPOSITES.items()):
        names = ", ".join(inspect.signature(function).parameters)
        lines.append(f"| `{name}({names})` | {' '.join((function.__doc__ or '').split())} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or compare with ``--check``."""
    text = render()
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != text:
            print("docs/operators.md is not current: run python tools/make_op_docs.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
