"""Write docs/operators.md from the operator table. ``--check`` fails where the file is not current."""

from __future__ import annotations

import sys
from pathlib import Path

from unity.ir.op import OPS, OpInfo
from unity.op import usage
from unity.op.common.parameters import DESCRIPTIONS
from unity.op.common.samples import read_samples, sample_call, short_type

TARGET = Path(__file__).parent.parent / "docs" / "operators.md"
FAMILIES = ("unary", "binary", "compare", "reduce", "linalg", "manipulate", "index", "create", "dtype", "nn", "core")


def _part(value: object, word: str) -> str:
    return word if callable(value) else "-"


def _example(info: OpInfo) -> str:
    """The arguments of the first sample and the type of the call."""
    sample = next(read_samples(info.samples), None)
    return f"`{sample}` gives `{short_type(sample_call(info, sample).ty)}`" if sample else ""


def _row(info: OpInfo) -> str:
    effect = "" if info.pure is True else " Has effects."
    own = "; ".join([f"`{p.name}`: {p.doc}" for p in info.params if DESCRIPTIONS.get(p.name) != p.doc])
    columns = [
        f"`{usage(info)}`",
        info.doc + effect + (f" {own}." if own else ""),
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
        "Columns: lowers to a tensor program; has a gradient; has a numpy meaning that the tests compare with; the arguments of a",
        'call and the type of its result (`f32[3, 4]` is `R.Tensor((3, 4), "float32")`). Operators by element have no example:',
        "the shapes of their operands are broadcast. A gradient may need a layout, a reduction or constant sizes, and then says so",
        "(E214, E218).",
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
            "| operator | meaning | lowering | gradient | numpy | example |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(info) for info in rows]
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
