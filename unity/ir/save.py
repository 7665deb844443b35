"""TVM's ``tvm.ir.save_json`` and ``load_json``: a module or function as JSON that holds its script.

Not here: reading and printing, which the script room does. Invariant: what is loaded is structurally equal to what was saved.
"""

from __future__ import annotations

import json

from ..support.errors import VerifyError
from .function import Function, PrimFunc
from .module import IRModule
from .node import script_hook

_KEY = "unity.script"


def save_json(node: IRModule | Function | PrimFunc) -> str:
    """A module or function as JSON. Raises VerifyError E716 for another node."""
    if not isinstance(node, (IRModule, Function, PrimFunc)):
        raise VerifyError("E716", f"a {type(node).__name__} is not saved alone", help="put it into a module")
    return json.dumps({_KEY: node.script()}, indent=1)


def load_json(text: str) -> IRModule | Function | PrimFunc:
    """The node that ``save_json`` saved. Raises VerifyError E716 for another text, ScriptError for a damaged script."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise VerifyError("E716", f"this is not JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get(_KEY), str):
        raise VerifyError("E716", "this JSON was not written by unity.ir.save_json",
                          help="a module of TVM: print mod.script() there, and unity.script.parse reads it")  # fmt: skip
    return script_hook("parse")(found[_KEY])  # type: ignore[no-any-return]
