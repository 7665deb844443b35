"""Case files for passes: text before and after, or the error that is expected.

A file under ``tests/golden/`` holds cases, each:

    #### name of the case
    # pass: simplify, remove_no_op          the pipeline, as it prints
    # target: llvm -mcpu=x86-64-v2          optional: the target of the pipeline (default: x86-64-v3)
    # run: main                             optional: the function run before and after (default: every public one)
    # tolerance: 1e-6                       optional: relative tolerance instead of equality
    <script before>
    ---- after
    <script after>        or, instead of an after part, the line  # error E502: part of the message

Each case is checked four ways: the text printed is the text after and structurally equal to it; the verifier holds before and
after; print-parse-print is a fixpoint; before and after agree in the reference interpreter on random arguments.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inputs import InputMaker

import unity.op
import unity.transform.relax.pipeline
import unity.transform.tir.pipeline  # the pipelines import every pass
from unity.ir import Function, IRModule, PrimFunc
from unity.ir.interpret import run
from unity.ir.structural import first_difference
from unity.ir.verifier.verifier import verify
from unity.script.printer.show import script
from unity.script.reader.module import parse
from unity.support.errors import UnityError
from unity.transform.infra.passes import Pipeline

GOLDEN = Path(__file__).parent / "golden"
_SETTING = re.compile(r"# (pass|target|run|tolerance): (.*)")
_ERROR = re.compile(r"\s*# error (E\d+): (.*)")


@dataclass
class Case:
    """One case of a file."""

    file: Path
    name: str
    settings: dict[str, str] = field(default_factory=dict)
    before: str = ""
    after: str = ""
    error: tuple[str, str] | None = None

    def text(self) -> str:
        """The case as it stands in the file."""
        lines = [
            f"#### {self.name}",
            *[f"# {key}: {value}" for key, value in self.settings.items()],
            self.before.strip("\n"),
        ]
        if self.error is None:
            lines += ["---- after", self.after.strip("\n")]
        else:
            lines.append(f"# error {self.error[0]}: {self.error[1]}")
        return "\n".join(lines) + "\n"


def read_cases(file: Path) -> list[Case]:
    """All cases of a file. Raises ValueError for a file that is not well formed."""
    cases: list[Case] = []
    part = "before"
    for line in file.read_text().splitlines():
        if line.startswith("#### "):
            cases.append(Case(file, line[5:].strip()))
            part = "before"
            continue
        if not cases:
            if line.strip():
                raise ValueError(f"{file}: text before the first case: {line!r}")
            continue
        case = cases[-1]
        setting, error = _SETTING.fullmatch(line), _ERROR.fullmatch(line)
        if line.strip() == "---- after":
            part = "after"
        elif setting and part == "before":
            case.settings[setting.group(1)] = setting.group(2).strip()
        elif error:
            case.error = (error.group(1), error.group(2).strip())
        else:
            setattr(case, part, getattr(case, part) + line + "\n")
    for case in cases:
        if "pass" not in case.settings:
            raise ValueError(f"{file}: case {case.name!r} names no pass")
    return cases


def all_cases() -> list[Any]:
    """Every case of every file, for ``pytest.mark.parametrize``."""
    return [
        pytest.param(case, id=f"{file.stem}-{case.name}")
        for file in sorted(GOLDEN.rglob("*.case"))
        for case in read_cases(file)
    ]


def as_module(program: IRModule | Function | PrimFunc) -> IRModule:
    """A function alone becomes a module of one function."""
    if isinstance(program, IRModule):
        return program
    return IRModule({str(program.attrs.get("global_symbol", "main")): program}, {}, {})


def canonical(mod: IRModule) -> str:
    """Printed text with one newline at the end."""
    return script(mod).rstrip("\n") + "\n"


def check_case(case: Case, update: bool = False) -> str | None:
    """Run the checks; returns the new text of the after part when it differs and ``update`` is set."""
    before = as_module(parse(case.before, name=f"{case.file.name}:{case.name}"))
    verify(before)
    if case.error is not None:
        with pytest.raises(UnityError) as caught:
            apply(case, before)
        assert caught.value.code == case.error[0] and case.error[1] in caught.value.message, str(caught.value)
        return None
    result = apply(case, before)
    verify(result)
    text = canonical(result)
    again = as_module(parse(text))
    assert canonical(again) == text, "print-parse-print is no fixpoint"
    difference = first_difference(again, result)
    assert difference is None, f"what is printed reads as something else: {difference}"
    assert_agree(before, result, case.settings)
    if text != case.after.strip("\n") + "\n":
        if update:
            return text
        expected = as_module(parse(case.after))
        difference = first_difference(result, expected)
        assert text == canonical(expected), f"{case.name}: {difference}\n---- result\n{text}"
        assert difference is None, difference
        raise AssertionError(f"{case.name}: the after part is not in canonical form; run with --update-golden\n{text}")
    return None


def apply(case: Case, mod: IRModule) -> IRModule:
    """What the case's pipeline makes of a module, for the case's target, whatever machine this is."""
    with unity.Target(case.settings.get("target", "llvm -mcpu=x86-64-v3")):
        return Pipeline.parse(case.settings["pass"])(mod)


def assert_agree(before: IRModule, after: IRModule, settings: dict[str, str], seeds: int = 2) -> None:
    """The public functions of both modules give the same results in the reference interpreter."""
    names = settings.get("run", "").replace(",", " ").split()
    if names == ["none"]:
        return
    rtol = float(settings.get("tolerance", "0"))
    for name in names or [n for n, fn in before.functions.items() if "global_symbol" in fn.attrs]:
        for seed in range(seeds):
            arguments = InputMaker(seed).arguments(before[name])
            first, second = [_results(mod, name, copy.deepcopy(arguments)) for mod in (before, after)]
            assert len(first) == len(second)
            for x, y in zip(first, second):
                if rtol:
                    np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)
                else:
                    np.testing.assert_array_equal(x, y)


def _results(mod: IRModule, name: str, arguments: list[Any]) -> list[Any]:
    value = run(mod, name, *arguments)
    outputs = [a for a in arguments if isinstance(a, np.ndarray)] if isinstance(mod[name], PrimFunc) else []
    return [*_flat(value), *outputs]


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [item for field_ in value for item in _flat(field_)]
    return [] if value is None else [value]


def update_file(file: Path, changed: dict[str, str]) -> None:
    """Write new after parts into a file."""
    cases = read_cases(file)
    for case in cases:
        if case.name in changed:
            case.after = changed[case.name]
    file.write_text("\n".join([case.text() for case in cases]))
