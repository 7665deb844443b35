"""Write the stubs of the script namespaces, ``unity/script/{ir,relax,tir}.pyi``, and of the primitives of schedules,
``unity/transform/schedule/methods.pyi``, for editors and type checkers.

The forms with their own syntax are written by hand in ``tools/stub_parts``; operators, intrinsics, node forms, data types
and earlier names come from the tables. ``--check`` exits 1 when a stub is not current.
"""

from __future__ import annotations

import inspect
import keyword
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from unity.ir import OPS  # noqa: E402
from unity.ir.intrinsic import INTRINSICS, Intrinsic  # noqa: E402
from unity.ir.op import REQUIRED, OpInfo, Param  # noqa: E402
from unity.ir.types import OBJECT  # noqa: E402
from unity.op.composite import COMPOSITES  # noqa: E402
from unity.script import ir, relax, tir  # noqa: E402
from unity.script.spelling.spelling import CANONICAL, DTYPE_DEFAULT, DTYPE_FIRST, DTYPES, FOLDED, NODE_FORMS  # noqa: E402
from unity.transform.schedule import ROWS, Row  # noqa: E402

PARTS = ROOT / "tools" / "stub_parts"
OUT = ROOT / "unity" / "script"
METHODS = ROOT / "unity" / "transform" / "schedule" / "methods.pyi"
NAMESPACES = {"ir": ir, "relax": relax, "tir": tir}
HEAD = "# Made by tools/make_stubs.py from tools/stub_parts and the tables; do not edit."
TOP = re.compile(r"^(?:def|class) (\w+)|^(\w+)(?:: [^=]+)? = ", re.M)
LANES = (2, 4, 8, 16, 32, 64)
WIDE = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64",
)  # fmt: skip
FIELDS = {1: ("x",), 2: ("a", "b"), 3: ("a", "b", "c")}
SPECIAL_FIELDS = {"T.if_then_else": ("condition", "then_value", "else_value")}


def doc_lines(text: str, indent: str) -> list[str]:
    """A docstring."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if len(lines) == 1 and len(lines[0]) > 120:
        lines = textwrap.wrap(lines[0], 120 - len(indent))
    if len(lines) == 1:
        return [f'{indent}"""{lines[0]}"""']
    return [f'{indent}"""{lines[0]}', *[f"{indent}{line}".rstrip() for line in lines[1:]], f'{indent}"""']


def signature(name: str, params: list[str], result: str, indent: str = "") -> list[str]:
    """The line of a function, or one line per parameter where it is too long."""
    line = f"{indent}def {name}({', '.join(params)}) -> {result}:"
    if len(line) <= 120:
        return [line]
    return [f"{indent}def {name}(", *[f"{indent}    {param}," for param in params], f"{indent}) -> {result}:"]


# ------------------------------------------------------------------------------------------------------ tensor programs


def intrinsic(row: Intrinsic) -> list[str]:
    """Signature of an intrinsic: arguments by arity; the result's data type first or last, as script has it."""
    least, most = row.arity
    names = SPECIAL_FIELDS.get(row.name) or FIELDS.get(least) or tuple(f"arg{k}" for k in range(least))
    params = [f"{name}: Any" for name in names]
    if row.name == "T.undef" or row.name in DTYPE_FIRST:
        params.insert(0, "dtype: Any")
    if most < 0:
        params.append("*args: Any")
    else:
        params += [f"arg{k}: Any = ..." for k in range(least, most)]
        params += ["/"] if params else []
    if row.result == "given" and row.name not in DTYPE_FIRST and row.name != "T.undef":
        default = f'"{DTYPE_DEFAULT[row.name]}"' if row.name in DTYPE_DEFAULT else "..."
        params += ([] if most < 0 else ["*"]) + [f"dtype: Any = {default}"]
    effect = {"pure": "", "read": " It reads memory.", "effect": " It has an effect."}[row.effect]
    result = "None" if row.result == "void" else "Any"
    return [*signature(row.name[2:], params, result), *doc_lines(row.doc + effect, "    ")]


def tir_rows() -> list[str]:
    """Generated part of ``tir.pyi``, without names of the hand-written part."""
    rows: dict[str, list[str]] = {}
    for name, fields in NODE_FORMS.items():
        what = f"``{FOLDED[name]}`` of its arguments" if name in FOLDED else f"The node ``{name[2:]}``, kept as written"
        params = [f"{field}: Any" for field in fields]
        rows[name[2:]] = [*signature(name[2:], params, "Any"), *doc_lines(f"{what}.", "    ")]
    for name, row in INTRINSICS.items():
        rows[name[2:]] = intrinsic(row)
    for dtype in DTYPES:
        doc = f"``T.{dtype}(value)``: a {dtype} scalar; ``T.{dtype}`` its type."
        rows[dtype] = [f"class {dtype}(_Value):", *doc_lines(doc, "    ")]
    for dtype in WIDE:
        for lanes in LANES:
            rows[f"{dtype}x{lanes}"] = [
                f"class {dtype}x{lanes}(_Value):",
                *doc_lines(f"{lanes} lanes of {dtype}.", "    "),
            ]
    for old, new in CANONICAL.items():
        if old.startswith("T."):
            rows[old[2:]] = [f"{old[2:]} = {new[2:]}"]
    return flat(rows, (PARTS / "tir.pyi").read_text(encoding="utf-8"))


def flat(rows: dict[str, list[str]], written: str) -> list[str]:
    """The rows whose names are not written by hand; earlier names last."""
    known = {a or b for a, b in TOP.findall(written)}
    kept = {name: lines for name, lines in rows.items() if name not in known}
    ordered = [lines for lines in kept.values() if len(lines) > 1] + [
        lines for lines in kept.values() if len(lines) == 1
    ]
    return [line for lines in ordered for line in ["", *lines]]


# ------------------------------------------------------------------------------------------------------ graph functions


def parameter(param: Param) -> str:
    """One parameter of an operator."""
    name = param.name + ("_" if keyword.iskeyword(param.name) else "")
    if param.kind == "exprs":
        return f"*{name}: Any"
    kind = {bool: "builtins.bool", str: "builtins.str"}.get(type(param.default), "Any")
    return f"{name}: {kind}" + ("" if param.default is REQUIRED else f" = {default_text(param.default)}")


def default_text(value: Any) -> str:
    """A default as written in a stub."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def operator(info: OpInfo, indent: str) -> list[str]:
    """Signature and docstring of an operator."""
    params = [parameter(param) for param in info.params]
    required = [param.default is REQUIRED for param in info.params]
    if sorted(required, reverse=True) != required and "exprs" not in [param.kind for param in info.params]:
        params.insert(required.index(False), "*")
    return [*signature(info.name.rpartition(".")[2], params, "Any", indent), *doc_lines(info.doc, indent + "    ")]


def combination(name: str) -> OpInfo:
    """A combination of operators as a row."""
    function = COMPOSITES[name]
    given = [
        Param(p.name, default=REQUIRED if p.default is p.empty else p.default)
        for p in inspect.signature(function).parameters.values()
    ]
    return OpInfo(
        name, tuple(given), lambda call: OBJECT, " ".join((function.__doc__ or "").partition("\n\n")[0].split())
    )


def relax_rows() -> list[str]:
    """Generated part of ``relax.pyi``."""
    rows: dict[str, list[str]] = {}
    groups: dict[str, list[str]] = {}
    known = {**OPS, **{name: combination(name) for name in COMPOSITES}}
    for name in sorted(known):
        path = name.split(".")[1:]
        if len(path) == 1:
            rows[path[0]] = operator(known[name], "")
        else:
            group, rest = path[0], path[1:]
            assert len(rest) == 1, f"{name}: groups of groups are not written"
            groups.setdefault(group, []).extend(["", "    @staticmethod", *operator(known[name], "    ")])
    for group, lines in groups.items():
        rows[group] = [f"class {group}:", f'    """Operators ``R.{group}.*``."""', *lines]
    for old, new in CANONICAL.items():
        if old.startswith("R."):
            rows.setdefault(old[2:], [old[2:] + (": Any = ..." if old == "R.Any" else f" = {new[2:]}")])
    rows.pop("Any", None)
    return flat(rows, (PARTS / "relax.pyi").read_text(encoding="utf-8"))


# ----------------------------------------------------------------------------------------------------------- schedules

SCHEDULE_HEAD = """# Made by tools/make_stubs.py from the table of primitives; do not edit.
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...arith.index_map import IndexMap
from ...ir.buffer import Buffer
from ...ir.types import Expr
from .traces.values import BlockRV, ExprRV, LoopRV

Int = int | ExprRV | Expr
BlockRef = BlockRV | str
ItemRef = BlockRV | LoopRV | str

class Primitives:
    \"\"\"The primitives, methods of a schedule.\"\"\"
"""
TAKES = {"int": "Int", "list": "Sequence", "dict": "Mapping", "LoopRef": "LoopRV"}
GIVES = {"int": "ExprRV", "BlockRef": "BlockRV", "LoopRef": "LoopRV"}
"""What a method takes and gives for what a primitive does."""
UNTYPED = {
    "buffer": "Buffer | Sequence[str | int] | int", "index_map": "IndexMap | Callable[..., Any]",
    "consumer_blocks": "Sequence[BlockRef] | BlockRef | None",
}  # fmt: skip
"""Types of parameters that a primitive looks at itself."""


def primitive(row: Row) -> list[str]:
    """Signature and docstring of a primitive's method."""
    params, named = ["self"], False
    for parameter in row.signature.parameters.values():
        many = parameter.kind is parameter.VAR_POSITIONAL
        kind = row.annotations[parameter.name]
        kind = (
            UNTYPED.get(parameter.name, kind)
            if kind == "Any"
            else re.sub(r"\w+", lambda m: TAKES.get(m[0], m[0]), kind)
        )
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            params.append("*")
        named = named or many or parameter.kind is parameter.KEYWORD_ONLY
        default = "" if parameter.default is parameter.empty else f" = {default_text(parameter.default)}"
        params.append(f"{'*' if many else ''}{parameter.name}: {kind}{default}")
    result = re.sub(r"\w+", lambda m: GIVES.get(m[0], m[0]), row.returns)
    return [*signature(row.name, params, result, "    "), *doc_lines(row.doc, "        ")]


def methods() -> str:
    """The text of the stub of the primitives."""
    rows = [line for row in ROWS.values() for line in ["", *primitive(row)]]
    return "\n".join([SCHEDULE_HEAD.rstrip(), *rows]) + "\n"


# --------------------------------------------------------------------------------------------------------------- files


def build(name: str) -> str:
    """The text of one stub. Raises SystemExit when a name of the namespace is missing in it."""
    made = {"ir": lambda: [], "relax": relax_rows, "tir": tir_rows}[name]()
    text = "\n".join([HEAD, (PARTS / f"{name}.pyi").read_text(encoding="utf-8").rstrip(), *made]) + "\n"
    known = {a or b for a, b in TOP.findall(text)}
    missing = sorted(set(dir(NAMESPACES[name])) - known - {"Any"})
    if missing:
        raise SystemExit(f"unity/script/{name}.pyi lacks {', '.join(missing)}: add them to tools/stub_parts/{name}.pyi")
    return text


def pages() -> dict[Path, str]:
    """Texts by path."""
    return {**{OUT / f"{name}.pyi": build(name) for name in NAMESPACES}, METHODS: methods()}


def main() -> int:
    """Write or check the stubs."""
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run tools/make_docs.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(pages()[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
