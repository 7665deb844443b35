"""A failed check as one Python file that shows it again: both modules as script, the inputs, the comparison."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

from ...ffi.dtype import DataType
from ...ir.module import IRModule
from ...support.errors import UnityError
from ...support.options import made_folder
from ..infra.passes import Pipeline
from .outcomes import outcome, outcomes_differ

_HEAD = '''"""{title}

Run this file: it runs {name} of both modules in the reference interpreter and says how the results differ; then the pass itself.
"""

from unity.script import parse
from unity.transform.validation.reproducer import array, replay

BEFORE = {before}

AFTER = {after}

INPUTS = {inputs}

if __name__ == "__main__":
    raise SystemExit(replay({name!r}, {step!r}, parse(BEFORE), parse(AFTER), INPUTS))
'''


def array(dtype: str, shape: tuple[int, ...], data: Any) -> np.ndarray:
    """An array from a list of numbers, or from the base64 text of its bytes."""
    kind = DataType(dtype).numpy
    if isinstance(data, str):
        return np.frombuffer(base64.b64decode(data), dtype=kind).reshape(shape).copy()
    return np.array(data, dtype=kind).reshape(shape)


def _input_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        dtype = DataType(str(value.dtype)).name
        plain = value.dtype.kind in "iub" or (value.dtype.kind == "f" and bool(np.isfinite(value).all()))
        data: Any = (
            value.reshape(-1).tolist() if plain and value.size <= 64 else base64.b64encode(value.tobytes()).decode()
        )
        return f"array({dtype!r}, {value.shape!r}, {data!r})"
    if isinstance(value, tuple):
        return f"({', '.join([_input_text(v) for v in value])}{',' if len(value) == 1 else ''})"
    return repr(value)


def _script_text(mod: IRModule) -> str:
    text = mod.script(show_meta=True)
    return f'r"""\n{text}\n"""' if '"""' not in text and not text.endswith("\\") else repr(text)


def save_failure(
    path: Path, title: str, step: str, name: str, before: IRModule, after: IRModule, arguments: list[Any]
) -> None:
    """Write the file."""
    inputs = "[\n" + "".join([f"    {_input_text(a)},\n" for a in arguments]) + "]"
    made_folder(path.parent)
    path.write_text(
        _HEAD.format(
            title=title.replace('"""', "'''").replace("\\", "/"), before=_script_text(before), after=_script_text(after),
            inputs=inputs, name=name, step=step,
        )
    )  # fmt: skip


def replay(name: str, step: str, before: IRModule, after: IRModule, inputs: list[Any], steps: int = 10_000_000) -> int:
    """Show the difference between both modules, and whether the pass still makes it; 1 where they differ, else 0."""
    first, second = outcome(before, name, inputs, steps), outcome(after, name, inputs, steps)
    found = outcomes_differ(first, second)
    print(f"{name} before and after {step}: {found or 'no difference'}")
    try:
        again = Pipeline.parse(step)(before)
    except UnityError as error:
        print(f"the pass cannot be run again here: {error.message}")
    else:
        now = outcomes_differ(first, outcome(again, name, inputs, steps))
        print(f"{step} run again: {now or 'no difference'}")
    return 1 if found else 0
