"""What rows say of themselves: the table of expected names, references to other rows."""

import ast
from pathlib import Path

import pytest
import row_samples

import unity.frontend  # noqa: F401 - fills the table of torch
from unity.ir.op import OPS
from unity.op import OPERATORS, SHIPPED, R

ROOT = Path(__file__).parent.parent.parent
NAMES = Path(__file__).parent / "operator_names.txt"


def line(name):
    row = OPS[name]
    parts = [word for word, has in (("lowered", callable(row.lower)), ("gradient", callable(row.grad))) if has]
    return " ".join([name, *parts, *[f"torch:{n}" for n in row.torch]])


def test_the_table_of_names():
    """An operator that comes, goes, or loses its gradient is a change of this table."""
    assert [line(n) for n in sorted(SHIPPED)] == NAMES.read_text().splitlines()


def references(path):
    """Paths below ``R``, where a file has it from the table of operators."""
    text = path.read_text()
    if "common.table" not in text:
        return
    tree = ast.parse(text)
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").endswith("common.table")]
    if not any([a.name == "R" and a.asname is None for n in imports for a in n.names]):
        return
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id == "R":
            yield ".".join(["R", *reversed(parts)])


def test_references_name_rows():
    """``R.nn.silu`` is looked up when it is reached: a name that is none would be found late."""
    found = {(path, name) for path in (ROOT / "unity").rglob("*.py") for name in references(path)}
    assert len(found) > 500
    namespaces = {name.rpartition(".")[0] for name in SHIPPED}
    wrong = []
    for path, name in found:
        bare = name.removesuffix(".name").removesuffix(".op").removesuffix(".info")
        if not any([n in SHIPPED or n in namespaces for n in (name, bare)]):
            wrong.append(f"{path}: {name}")
    assert wrong == []


def test_the_namespace():
    assert R.nn.silu is OPERATORS["R.nn.silu"] and R.nn.silu.op.name == R.nn.silu.name == "R.nn.silu"
    with pytest.raises(AttributeError, match=r"no operator R\.nn\.sillu"):
        R.nn.sillu  # noqa: B018
    with pytest.raises(TypeError, match=r"R\.nn is not an operator"):
        R.nn(1)


WITHOUT_SAMPLES = {
    *["call_dps", "call_inplace", "call_dps_with_grad", "call_packed", "call_pure_packed", "call_inplace_packed", "call_py_func", "call_builtin_with_ctx", "make_closure", "invoke_closure", "invoke_pure_closure", "null_value", "print", "assert_op", "vm.call_tir_dyn"],  # what they call decides
    *["to_vdevice", "hint_on_device", "builtin.stop_lift_params"],  # devices and passes
    *["builtin.alloc_tensor", "memory.alloc_storage", "memory.alloc_tensor", "memory.kill_tensor", "memory.kill_storage", "memory.view", "memory.ensure_zero_offset", "vm.alloc_storage", "vm.alloc_tensor", "vm.kill_object"],  # memory
}  # fmt: skip
"""Operators that no sample says enough of; every other one has some in its row, or is pointwise."""


def test_operators_have_samples():
    sampled = {name for name, _, _ in row_samples.CASES}
    assert {n.removeprefix("R.") for n in SHIPPED} - sampled == WITHOUT_SAMPLES
