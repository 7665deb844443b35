"""IRModule: named functions of both levels, attributes, module-level tables.

Passes make new modules (``with_functions``), and give back the module itself where nothing changes. Only users change one in
place, as in TVM (``mod[name] = function``). All who hold it see that: ``clone()`` makes one for those who should not. Functions
never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from ..support.arguments import guarded_class
from ..support.errors import VerifyError
from .expr import ExternFunc, GlobalVar
from .function import Attributed, BaseFunc, Function, PrimFunc
from .node import Aside, node, printed, set_field

ModuleMember = Function | PrimFunc | ExternFunc


@guarded_class
@node
class IRModule(Attributed):
    """Functions by name (in order), attributes, and tables such as virtual devices (``global_infos``)."""

    functions: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    global_infos: dict[str, Any] = field(default_factory=dict)
    name: str = "Module"
    checked: Aside[bool] = True
    """False where its text says ``check_well_formed=False``."""

    def __post_init__(self) -> None:
        if any([isinstance(key, GlobalVar) for key in self.functions]):
            set_field(self, "functions", {_key(name): function for name, function in self.functions.items()})
        for name, function in self.functions.items():
            _check_member(name, function)

    def __getitem__(self, name: str | GlobalVar) -> Any:
        found = self.functions.get(_key(name))
        if found is None:
            raise self._absent(name)
        return found

    def __setitem__(self, name: str | GlobalVar, function: ModuleMember) -> None:
        """Put a function under a name, in place: everybody who holds this module sees it. Raises VerifyError E330."""
        _check_member(_key(name), function)
        set_field(self, "functions", {**self.functions, _key(name): function})

    def __delitem__(self, name: str | GlobalVar) -> None:
        """Remove a function, in place. Raises VerifyError E301 for a name that the module does not have."""
        functions = dict(self.functions)
        if functions.pop(_key(name), None) is None:
            raise self._absent(name)
        set_field(self, "functions", functions)

    def _absent(self, name: str | GlobalVar) -> VerifyError:
        known = ", ".join(self.functions) or "none"
        return VerifyError("E301", f"the module has no function {_key(name)!r}", help=f"it has: {known}")

    def update_func(self, var: str | GlobalVar, function: ModuleMember) -> None:
        """TVM's name of ``mod[var] = function``. Raises VerifyError E330."""
        self[var] = function

    def clone(self) -> IRModule:
        """A module with the same functions, whose changes in place this one does not see."""
        return IRModule(self.functions, self.attrs, self.global_infos, self.name, self.checked)

    @staticmethod
    def from_expr(function: ModuleMember) -> IRModule:
        """A module of one function, under its ``global_symbol``, else ``main``."""
        name = function.name if isinstance(function, ExternFunc) else function.attrs.get("global_symbol", "main")
        return IRModule({name: function})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A module is a program, which does not run by itself. Raises VerifyError E305."""
        raise VerifyError("E305", "a module is not called: it has to be compiled first",
                          help='vm = unity.VirtualMachine(unity.compile(mod)); vm["main"](x)')  # fmt: skip

    def __contains__(self, name: str | GlobalVar) -> bool:
        return _key(name) in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def get_global_var(self, name: str) -> GlobalVar:
        """Return a reference, with its type, to the function ``name``."""
        fn = self[name]
        return GlobalVar(name, fn.ty) if isinstance(fn, (Function, ExternFunc)) else GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """References to all functions in order."""
        return [self.get_global_var(name) for name in self.functions]

    def items(self) -> list[tuple[str, Any]]:
        """(name, function) in order."""
        return list(self.functions.items())

    def functions_items(self) -> list[tuple[GlobalVar, Any]]:
        """(reference, function) in order, as TVM gives them."""
        return [(self.get_global_var(name), function) for name, function in self.functions.items()]

    def prim_funcs(self) -> dict[str, PrimFunc]:
        """The tensor programs by name."""
        return {n: f for n, f in self.functions.items() if type(f) is PrimFunc}

    def graph_functions(self) -> dict[str, Function]:
        """The graph functions by name."""
        return {n: f for n, f in self.functions.items() if type(f) is Function}

    def with_functions(self, changes: Mapping[Any, Any]) -> IRModule:
        """A module with functions added or replaced (value None removes), by name or reference; the same object if nothing
        changes."""
        functions = dict(self.functions)
        for given, fn in changes.items():
            name = _key(given)
            if fn is None:
                functions.pop(name, None)
            else:
                functions[name] = fn
        if functions == self.functions and list(functions) == list(self.functions):
            return self
        return IRModule(functions, self.attrs, self.global_infos, self.name)

    def with_graph_functions(
        self, change: Callable[[Function], Any], more: Mapping[str, Any] | None = None
    ) -> IRModule:
        """The module with each graph function as ``change`` gives it, and with ``more`` functions that this may have added to."""
        return self.with_functions({name: change(fn) for name, fn in self.graph_functions().items()} | dict(more or {}))

    def fresh_name(self, hint: str) -> str:
        """A function name not yet in the module: ``hint``, else ``hint1``, ``hint2``, ..."""
        if hint not in self.functions:
            return hint
        count = 1
        while f"{hint}{count}" in self.functions:
            count += 1
        return f"{hint}{count}"

    def __str__(self) -> str:
        return printed(self)


def _check_member(name: str, function: Any) -> None:
    if not isinstance(function, (BaseFunc, ExternFunc)):
        raise VerifyError("E330", f"function {name!r} of a module is a {type(function).__name__}",
                          help="a Function, a PrimFunc or an ExternFunc")  # fmt: skip


def _key(name: str | GlobalVar) -> str:
    return name.name if isinstance(name, GlobalVar) else name


def module(functions: Mapping[str, Any], **attrs: Any) -> IRModule:
    """A module from named functions."""
    return IRModule(dict(functions), dict(attrs), {})
