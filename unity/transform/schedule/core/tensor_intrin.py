"""Tensor intrinsics: pairs of a description (plain loops) and an implementation (instructions), by name.

Here the registry and the rules a pair obeys; the pairs shipped are in ``target/tensor_intrin``. Invariant: description and
implementation take the same buffers, so that one can stand where the other stood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from ....ir.buffer import Buffer
from ....ir.build import int_value
from ....ir.function import PrimFunc
from ....ir.module import IRModule
from ....ir.stmt import AllocBuffer, BlockRealize, Stmt, statements_of
from ....ir.verifier.verifier import verify
from ....support.arguments import checked_class
from ....support.errors import VerifyError
from ....support.lazy import load

Maker = Callable[[], tuple[PrimFunc, PrimFunc]]
Family = Callable[..., tuple[PrimFunc, PrimFunc]]
"""Makes the pair of a name from the groups of the pattern that the name matches."""


@checked_class
@dataclass(slots=True, frozen=True, eq=False)
class TensorIntrin:
    """A registered pair. ``desc`` says what is computed, ``impl`` how; parameter k of both is the same buffer."""

    name: str
    desc: PrimFunc
    impl: PrimFunc

    _table: ClassVar[dict[str, TensorIntrin | Maker]] = {}
    _families: ClassVar[dict[str, Family]] = {}
    _given: ClassVar[list[str]] = []

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Check a pair and register it. Raises VerifyError E381 for a name that is taken, E382 and E383 for a pair that is none."""
        if name in TensorIntrin._table and not override:
            raise VerifyError(
                "E381", f"tensor intrinsic {name!r} is registered already", help="pass override=True to replace it"
            )
        made = TensorIntrin._table[name] = _checked(name, desc, impl)
        TensorIntrin._given[:] = [*dict.fromkeys([*TensorIntrin._given, name])]
        return made

    @staticmethod
    def register_maker(name: str, make: Maker) -> None:
        """Register a pair that is made and checked when it is first asked for."""
        if name in TensorIntrin._table:
            raise VerifyError("E381", f"tensor intrinsic {name!r} is registered already", help="choose another name")
        TensorIntrin._table[name] = make

    @staticmethod
    def register_family(pattern: str, make: Family) -> None:
        """Register pairs that differ in numbers of their names: a name that matches the regular expression ``pattern`` is made
        by ``make`` from the groups (text, None where a group did not take part)."""
        TensorIntrin._families[pattern] = make

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The pair of a name, registered or shipped; None, or VerifyError E380, where there is none."""
        if name not in TensorIntrin._table:
            load("compiler")
        found = TensorIntrin._table.get(name)
        if found is None:
            matches = [(make, re.fullmatch(pattern, name)) for pattern, make in TensorIntrin._families.items()]
            for make, match in matches:
                if match is not None:
                    found = TensorIntrin._table[name] = _checked(name, *make(*match.groups()))
        if found is None:
            if allow_missing:
                return None
            near = ", ".join([known for known in TensorIntrin.names() if known.split("_")[0] == name.split("_")[0]][:6])
            raise VerifyError(
                "E380", f"no tensor intrinsic is registered as {name!r}",
                help=f"there are: {near}" if near else "TensorIntrin.names() lists them",
            )  # fmt: skip
        if not isinstance(found, TensorIntrin):
            found = TensorIntrin._table[name] = _checked(name, *found())
        return found

    @staticmethod
    def names() -> Iterator[str]:
        """Names of all registered pairs, sorted."""
        return iter(sorted(TensorIntrin._table))


def given_intrinsics() -> list[str]:
    """Names of the pairs that were registered by ``register``, in order: those of users, not the shipped ones."""
    return list(TensorIntrin._given)


def _checked(name: str, desc: PrimFunc, impl: PrimFunc) -> TensorIntrin:
    for what, func in (("description", desc), ("implementation", impl)):
        if type(func) is not PrimFunc:
            raise VerifyError("E382", f"{name}: the {what} must be a tensor program, got {type(func).__name__}")
        verify(IRModule({"main": func}, {}, {}))
        scalars = [p.name for p in func.params if p not in func.buffer_map]
        if scalars:
            raise VerifyError("E382", f"{name}: parameter {scalars[0]} of the {what} is not a buffer", func.span)
        if _root(func.body) is None:
            raise VerifyError(
                "E383", f"{name}: the {what} is not one block", func.span,
                help='put everything into `with T.block("root"):` with T.reads and T.writes',
            )  # fmt: skip
    if len(desc.params) != len(impl.params):
        text = f"{name}: the description has {len(desc.params)} parameters, the implementation {len(impl.params)}"
        raise VerifyError("E382", text, impl.span)
    for position, (a, b) in enumerate(zip(desc.params, impl.params)):
        difference = _difference(desc.buffer_map[a], impl.buffer_map[b])
        if difference:
            raise VerifyError("E382", f"{name}: parameter {position} differs in {difference}", impl.span)
    return TensorIntrin(name, desc, impl)


def _root(body: Stmt) -> BlockRealize | None:
    """The one block with declared regions that a body consists of."""
    parts = list(statements_of(body))
    while parts and type(parts[0]) is AllocBuffer:
        parts.pop(0)
    if len(parts) != 1 or type(parts[0]) is not BlockRealize:
        return None
    block = parts[0].block
    return parts[0] if block.reads is not None and block.writes is not None and not block.iter_vars else None


def _difference(a: Buffer, b: Buffer) -> str:
    if a.dtype is not b.dtype:
        return f"type: {a.dtype.name} and {b.dtype.name}"
    if a.scope != b.scope:
        return f"scope: {a.scope} and {b.scope}"
    shapes = [tuple([int_value(e) for e in x.shape]) for x in (a, b)]
    if None in (*shapes[0], *shapes[1]):
        return "shape: it must be constant"
    return f"shape: {shapes[0]} and {shapes[1]}" if shapes[0] != shapes[1] else ""
