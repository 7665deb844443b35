"""Systematic edits of the data in a saved file, with right checksums: what a file of a stranger may hold.

``edits(data, rng)`` gives, for data as JSON has it, changed copies: every place deleted, doubled, emptied, of another type, out of range,
huge, exchanged with its neighbour. ``run`` loads what was made and runs it. As a script: ``python tests/vm/damage.py FILE SEED COUNT``
tries COUNT edits in this process and prints what came out of each; a crash ends the process, which the test beside it sees, and so
does, after ``SECONDS``, a program without an end, which is no defect: the test goes on behind it.
"""

from __future__ import annotations

import copy
import faulthandler
import json
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import unity
from unity.support.errors import UnityError
from unity.vm.executable import artifact

STRANGE = [None, True, False, 0, 1, -1, 2, 3, 7, 64, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 0.5, float("nan"), "", "x", "main",
           "float32", "float64", "int64", "handle", "kernel", "packed", "builtin", "os:system", "builtins:eval", "torch.ops.aten.relu.default",
           [], {}, [[]], ["r", 0], ["c", 0], ["i", None], ["s", 1, "int64"], ["s", ["sym", 0], "int64"], ["sym", 0], ["b", 0], ["f@", 0]]  # fmt: skip


SECONDS = 10
"""Of CPU time, for one edit."""


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place below data."""
    keys = data.keys() if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(data[key], (*path, key))


def edited(data: Any, path: tuple[Any, ...], how: str, rng: random.Random) -> Any:
    """A copy of data with one place changed."""
    made = copy.deepcopy(data)
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    key = path[-1]
    old = inside[key]
    if how == "delete":
        del inside[key]
    elif how == "double" and isinstance(inside, list):
        inside.insert(key, copy.deepcopy(old))
    elif how == "exchange":
        other = rng.choice(list(places(data)))
        there = made
        for step in other[:-1]:
            there = there[step]
        there[other[-1]], inside[key] = copy.deepcopy(old), copy.deepcopy(there[other[-1]])
    elif how == "reorder" and isinstance(old, list):
        rng.shuffle(old)
    elif how == "near" and type(old) is int:
        inside[key] = old + rng.choice((-2, -1, 1, 2))
    elif how == "repeat" and isinstance(old, list):
        inside[key] = old * 200
    elif how == "nest":
        for _ in range(rng.choice((1, 40))):
            old = [old]
        inside[key] = old
    else:
        inside[key] = copy.deepcopy(rng.choice(STRANGE))
    return made


HOWS = ("delete", "double", "exchange", "reorder", "near", "near", "repeat", "nest", "strange", "strange", "strange")


def run(path: Path, model: bool, trust: bool, mode: str) -> None:
    """Load a file and call it as its owner does."""
    if model:
        import torch  # noqa: PLC0415

        f = unity.load_model(path, trust=trust, exec_mode=mode)
        cache = type("Anything", (), {})()
        for args, kwargs in (
            ((torch.ones(3, 8),), {}),
            ((torch.ones(2, 8), {"k": torch.ones(2, 8)}), {}),
            ((cache,), {}),
        ):
            try:
                f(*args, **kwargs)
            except UnityError as error:
                last = error
        del last
        return
    executable = unity.load(path, trust=trust)
    str(executable), executable.as_text()
    vm = unity.VirtualMachine(executable, exec_mode=mode)
    x, w = np.ones((3, 4), np.float32), np.ones((4, 3), np.float32)
    refused = []
    for name in ("main", "second", "mm", "loop"):
        for args in ((x, w), (x,), (x, w, np.ones((3, 3), np.float32)), (np.int64(3), x)):
            try:
                vm[name](*args)
            except UnityError as error:
                refused.append(error)


def main(file: str, seed: int, count: int, first: int = 0) -> None:
    """Try edits from the first one on; print a line of JSON for each: its number, and the code of its error or what was wrong."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    sections = {name: bytes(part) for name, part in artifact.read_sections(file).items()}
    parsed = {name: json.loads(sections[name]) for name in ("meta", "bytecode", "model") if sections[name]}
    every = {name: list(places(data)) for name, data in parsed.items()}
    for number in range(count):
        name = rng.choice(list(parsed))
        path, how = rng.choice(every[name]), rng.choice(HOWS)
        mode, trust = rng.choice(("native", "bytecode")), rng.random() < 0.9
        changed = json.dumps(edited(parsed[name], path, how, rng)).encode()
        if number < first:
            continue
        case = f"{number} {name} {path} {how} {mode} trust={trust}"
        print(case, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "edited"
            artifact.write_sections(made, {**sections, name: changed})
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            found = "runs"
            try:
                run(made, "model" in parsed, trust, mode)
            except UnityError as error:
                found = error.code or "E000"
            except Exception as error:  # what the test is for
                found = f"wrong: {case}: {type(error).__name__}: {error}"[:400]
            signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([number, found]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
