"""Running a folder of dumped modules: ``python run.py`` in a folder of ``UNITY_DUMP``.

Each public function of each module runs in the reference interpreter on the same generated inputs; the first step after which a
result differs is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...ffi.dtype import DataType
from ...ffi.tensor import Tensor
from ...ir.function import Function, PrimFunc, has_global_symbol
from ...ir.module import IRModule
from ...script import parse
from ...support.errors import UnityError
from ..infra.inputs import Inputs, NoInput, make_inputs
from .outcomes import Memo, Outcome, outcome, outcomes_differ

STEPS = 3_000_000


def main(folder: Path, files: Sequence[str] = (), kind: str = "plain") -> int:
    """Run the files (all numbered ones when none is named); 1 where results differ, else 0."""
    paths = [folder / f for f in files] or sorted([p for p in folder.glob("*.py") if p.name[:1].isdigit()])
    memo = Memo()
    scope = constants(folder)
    known: dict[str, tuple[Inputs, Outcome, str]] = {}
    code = 0
    for path in paths:
        try:
            mod = parse(path.read_text(), name=path.name, scope=scope)
        except UnityError as error:  # what a wrong pass made
            print(f"{path.name}  is not a program: {error}")
            code = 1
            continue
        assert isinstance(mod, IRModule)
        if path.stem.endswith("_input"):
            known = {}
        for name, fn in mod.functions.items():
            if not isinstance(fn, (Function, PrimFunc)) or not has_global_symbol(fn):
                continue
            text = _run(mod, name, path.name, known, kind, memo)
            code = max(code, int("differs" in text))
            print(f"{path.name}  {name}: {text}")
    return code


def constants(folder: Path) -> dict[str, Tensor]:
    """The large constants dumped beside the scripts, by name."""
    found: dict[str, Tensor] = {}
    for path in sorted((folder / "constants").glob("*.npy")):
        name, dtype = path.name.split(".")[:2]
        raw = np.load(path, allow_pickle=False)
        found[name] = Tensor(raw.reshape(-1).view(DataType(dtype).numpy).reshape(raw.shape[:-1]))
    return found


def _run(
    mod: IRModule, name: str, file: str, known: dict[str, tuple[Inputs, Outcome, str]], kind: str, memo: Memo
) -> str:
    if name in known:
        inputs, first, source = known[name]
        if len(inputs.arguments) != len(mod[name].params):
            return "its parameters changed"
        found = outcome(mod, name, inputs.arguments, STEPS, memo)
        if found.kind == "skip" or first.kind != "value":
            return f"not judged: {found.text or first.text}"
        problem = outcomes_differ(first, found)
        return f"differs from {source}: {problem}" if problem else "agrees"
    try:
        inputs = make_inputs(mod[name], 0, kind)
    except NoInput as problem_text:
        return f"not judged: {problem_text}"
    found = outcome(mod, name, inputs.arguments, STEPS, memo)
    known[name] = (inputs, found, file)
    return "runs" if found.kind == "value" else f"not judged: {found.text}"
