from collections.abc import Callable
from typing import Any, overload

from ..ir import IRModule, Var

class _Module(IRModule):
    """A module read from a class; ``M.f`` means its function ``f`` inside of script."""

    def __getattr__(self, name: str) -> Any: ...

@overload
def ir_module(mod: type) -> _Module: ...
@overload
def ir_module(*, check_well_formed: bool = True, s_tir: bool = True) -> Callable[[type], _Module]:
    """Read the class as an IRModule."""

def module_attrs(attrs: dict[str, Any]) -> None:
    """Attributes of the module."""

def module_global_infos(infos: dict[str, Any]) -> None:
    """Tables of the module, such as virtual devices."""

def vdevice(target: Any = "llvm", id: int = 0, scope: str = "global") -> Any:
    """A virtual device."""

def dummy_global_info() -> Any:
    """An entry without meaning."""

def dynamic(name: str, dtype: str = "int64") -> Var:
    """A symbol."""

def meta_var(value: Any) -> Any:
    """The value while reading, not a variable of the program."""

def Range(begin: Any, end: Any = None) -> Any:
    """A half-open interval."""

def GlobalVar(name: str) -> Any:
    """A reference to a function of the module by name."""

def target(config: Any, host: Any = None) -> Any:
    """A target description."""

def pyfunc(fn: Callable[..., Any]) -> Any:
    """A Python function inside a module: not read by this compiler (E117)."""
