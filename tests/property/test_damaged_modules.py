"""Damaged modules made in Python: only UnityError leaves the compiler. A field of a node holds something else, one of its
children is missing, doubled or replaced, a variable is bound nowhere.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import unity
from unity.ir import Op, Var, prim_type
from unity.ir.node import Node, set_field
from unity.ir.types import PrimType
from unity.script import parse
from unity.support.errors import UnityError
from unity.vm.stages import as_module

sys.path.append(str(Path(__file__).parents[1]))  # this file is a program as well
from child import apart
from fuzz import SEED, TIMES

FORMS = json.loads((Path(__file__).parents[1] / "script" / "syntax_forms.json").read_text(encoding="utf-8"))
TEXTS = [row["text"] for row in FORMS if not row["needs_python"]]
COUNT = 64 * TIMES
SHARED = (Op, PrimType)
"""Nodes that other modules hold too."""


def nodes(top: Any) -> list[Node]:
    """Every node below a value, each once."""
    found: list[Node] = []
    seen: set[int] = set()
    stack = [top]
    while stack:
        at = stack.pop()
        if isinstance(at, (tuple, list)):
            stack += at
        elif isinstance(at, dict):
            stack += at.values()
        elif isinstance(at, Node) and id(at) not in seen and not isinstance(at, SHARED):
            seen.add(id(at))
            found.append(at)
            stack += [getattr(at, name) for name, _ in at.plan]
    return found


def damage(rng: random.Random, mod: Any) -> str:
    """Change one field of one node; what was done."""
    known = nodes(dict(mod.functions))
    node = rng.choice([n for n in known if n.plan])
    name = rng.choice([name for name, _ in node.plan])
    old = getattr(node, name)
    inside = [n for n in rng.sample(known, min(8, len(known))) if node not in nodes(n)]  # a tree stays one
    dtype = rng.choice(["int8", "float16", "bool", "handle", "int32x4", "void"])
    other = [None, "text", -1, 10**30, object(), (old, old), prim_type(dtype), Var("free", prim_type("int64")), *inside]
    new = rng.choice(other)
    if isinstance(old, tuple) and rng.random() < 0.6:
        items = list(old)
        at = rng.randrange(len(items) + 1)
        items[at : at + 1] = rng.choice([[], [new], [*items[:1], *items[:1]]])
        new = tuple(items)
    set_field(node, name, new)
    return f"{type(node).__name__}.{name} = {type(new).__name__}"


def outcome(rng: random.Random) -> str:
    """What becomes of a damaged module: compiled, or the code of the error."""
    try:
        mod = as_module(parse(rng.choice(TEXTS)))
    except UnityError:
        return "no module"
    what = damage(rng, mod)
    try:
        unity.compile(mod)
    except UnityError as problem:
        return problem.code
    except Exception as problem:
        raise AssertionError(f"{what}: {type(problem).__name__} left the compiler") from problem
    return "compiled"


def said_of(case: int) -> str:
    """The outcome of a case; an internal error is a fault."""
    said = apart(outcome, case)
    return f"case {case} of seed {SEED}\nis the internal error {said}" if said.startswith("E9") else said


def main() -> None:
    """Try all cases."""
    unity.compile(parse(TEXTS[0]))  # loads what every process needs
    found = [said_of(case) for case in range(COUNT)]
    print(Counter([code for code in found if "\n" not in code]).most_common())
    wrong = [said for said in found if "\n" in said]
    assert len(set(found)) > 4 and not wrong, f"{len(wrong)} of {COUNT}:\n" + "\n".join(wrong[:5])


def test_damaged_modules() -> None:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=600 * TIMES)
    assert done.returncode == 0, done.stderr[-2000:]


if __name__ == "__main__":
    main()
