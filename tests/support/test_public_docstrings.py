"""Public functions describe their parameters by name, and name the errors that they raise themselves."""

import importlib
import inspect
import re
import textwrap

import pytest

import unity

SPELLED = {"te": {"x", "y", "a", "b"}}
"""Operands, which need no words."""
PACKAGES = ("te", "transform", "vm", "ffi", "script", "target", "arith", "frontend", "op", "ir", "runtime", "testing")


def functions(space):
    """Functions and methods of classes that a package hands on, each where it is met first."""
    found = {}
    for name in getattr(space, "__all__", None) or dir(space):
        given = getattr(space, name, None)
        members = vars(given).items() if inspect.isclass(given) else [(name, given)]
        for member, fn in members:
            if inspect.isfunction(fn) and fn.__module__.startswith("unity") and not member.startswith("_"):
                found.setdefault(fn, f"{name}.{member}" if inspect.isclass(given) else name)
    return found


def lacking(space, spelled):
    """Functions with the parameters that their docstrings leave out."""
    found = {}
    for fn, name in functions(space).items():
        words = set(re.findall(r"\w+", inspect.getdoc(fn) or ""))
        missing = set(inspect.signature(fn).parameters) - words - {"self", "cls"} - spelled
        if missing:
            found[name] = sorted(missing)
    return found


def test_functions_of_unity():
    assert {name: missing for name, missing in lacking(unity, set()).items() if "." not in name} == {}


@pytest.mark.parametrize("name", PACKAGES)
def test_functions_of_packages(name):
    assert lacking(importlib.import_module(f"unity.{name}"), SPELLED.get(name, set())) == {}


def raised(fn):
    """Class and code of each error that a function makes and raises."""
    text = textwrap.dedent(inspect.getsource(inspect.unwrap(fn)))
    return re.findall(r"\braise (\w+Error)\(\s*\"(E\d+)\"", text)


@pytest.mark.parametrize("name", [*PACKAGES, "relax", "relax.dpl", "tir", "tir.schedule", "topi", "meta_schedule"])
def test_errors_are_named(name):
    found = {}
    for fn, called in functions(importlib.import_module(f"unity.{name}")).items():
        doc = inspect.getdoc(fn) or ""
        found[called] = [error for error in raised(fn) if not any(part in doc for part in error)]
    assert {called: errors for called, errors in found.items() if errors} == {}
