"""``I``: what is written at the level of a module. ``from unity.script import ir as I``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..ir import IRModule
from .decorator import decorate, decorate_later
from .names import namespace


@overload
def ir_module(mod: type) -> IRModule: ...
@overload
def ir_module(*, check_well_formed: bool = True, s_tir: bool = True) -> Callable[[type], IRModule]: ...
def ir_module(mod: type | None = None, *, check_well_formed: bool = True, s_tir: bool = True) -> Any:
    """Read the class ``mod`` as an IRModule: ``@I.ir_module`` or ``@I.ir_module(check_well_formed=False)``. ``s_tir``: accepted for
    TVM.
    """
    if mod is not None:
        return decorate(mod)
    return decorate_later


NAMES: dict[str, str] = {
    "I.module_attrs": "``I.module_attrs({...})``: attributes of the module.",
    "I.module_global_infos": "``I.module_global_infos({...})``: tables of the module, such as virtual devices.",
    "I.vdevice": '``I.vdevice("cuda", 0, "global")``: a virtual device.',
    "I.dummy_global_info": "``I.dummy_global_info()``: an entry without meaning.",
    "I.dynamic": '``n = I.dynamic("n", "int32")``: a symbol, int64 where no type is given.',
    "I.meta_var": "``I.meta_var(value)``: the value while reading, not a variable of the program.",
    "I.Range": "``I.Range(begin, end)``: a half-open interval.",
    "I.GlobalVar": '``I.GlobalVar("f")``: a reference to a function of the module by name.',
    "I.target": '``I.target("llvm")``: a target description.',
    "I.pyfunc": "A Python function inside a module: not read by this compiler (E117).",
}


__getattr__, __dir__ = namespace("I", __name__, lambda: NAMES, ir_module)
