"""Old spellings of script rewritten to the present ones inside a Python file; everything else stays byte for byte.

Here: the rewrites, as edits of the text at the places the concrete syntax gives. Not here: finding script in a file
(``embedded.py``), edits and the text around a node (``rewriter.py``), the names (``script/spelling/spelling.py``). Invariant:
what is read from the result equals what was read before, and upgrading twice changes nothing more. Nothing is executed.

Read but left as written, because the change would move whole lines: frames (``with T.LetStmt``, ``with T.allocate``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..ffi.dtype import DataType
from ..ir import TensorType
from ..support.recursion import deep_recursion
from ..support.source import Source
from .embedded import Definition, definitions, dotted, logical_lines, namespaces, tree_of
from .parser import syntax as s
from .parser.syntax import bound_names, nodes_of
from .reader.common.scope import dtype_name
from .rewriter import Edits, Rewriter
from .spelling.spelling import CANONICAL, DPS_KEYWORDS, DTYPE_ALIASES, KEYWORDS, REORDERED, UNQUALIFIED

_DPS = frozenset(("R.call_dps", "R.call_inplace", "R.call_dps_with_grad"))
_BRACKETED = frozenset(("T.Buffer", "T.Ptr", "T.handle", "R.Tensor", "R.Shape", "R.Tuple", "R.Callable"))
_KEPT_FRAMES = frozenset(("T.allocate", "T.allocate_const"))


def upgrade(text: str, *, name: str = "<script>") -> str:
    """The text of a Python file with the old spellings in its script rewritten.

    Script is what stands under a decorator of script (``@I.ir_module``, ``@R.function``, ``@T.prim_func``, macros), by the
    names the file imports. Raises ScriptError where such a definition cannot be read.
    """
    source = Source(name, text)
    lines = logical_lines(text)
    names = namespaces(text, lines)
    found = definitions(text, lines, names)
    outside = _outside(text, found)
    edits = Edits(text)
    with deep_recursion():
        for definition in found:
            tree, base = tree_of(definition, source)
            _Upgrader(source, edits, base, names, outside, definition).run(tree)
    return edits.apply(0, len(text))


def _outside(text: str, found: list[Definition]) -> str:
    parts, last = [], 0
    for definition in found:
        parts.append(text[last : definition.begin])
        last = definition.end
    return "\n".join([*parts, text[last:]])


class _Upgrader(Rewriter):
    """Edits for one definition. Nodes are visited children first, so that an edit may take along those inside it."""

    def __init__(
        self, source: Source, edits: Edits, base: int, names: Mapping[str, str], outside: str, definition: Definition
    ) -> None:
        super().__init__(source, edits, base, names, definition)
        self.file_names = names
        self.outside = outside
        self.direct: dict[int, bool] = {}  # allocations directly in a block -> the block is written T.sblock
        self.assigned: set[str] = set()  # names the body of the module assigns

    # ------------------------------------------------------------------------------------------------------------- walk

    def run(self, tree: s.Syntax) -> None:
        """Visit a definition and, with their own names, the functions inside it."""
        pending = [tree]
        while pending:
            top = pending.pop()
            hidden = bound_names(top) if isinstance(top, s.FunctionDef) else set()
            self.names = {name: full for name, full in self.file_names.items() if name not in hidden}
            taken = hidden | set(self.file_names)
            self.bare = {name: CANONICAL.get(path, path) for name, path in UNQUALIFIED.items() if name not in taken}
            inner = nodes_of(top)
            if not isinstance(top, s.FunctionDef):
                self.assigned = {
                    t.name for node in inner if type(node) is s.Assign for t in node.targets if type(t) is s.Name
                }
            pending += [node for node in inner if isinstance(node, s.FunctionDef) and not self._python(node)]
            self.direct |= _direct_calls(inner, self.path)
            frames = {id(item.value) for node in inner if type(node) is s.With for item in node.items}
            if isinstance(top, s.FunctionDef):
                self.signature(top)
            for node in reversed(inner):
                if id(node) not in frames or type(node) is not s.Call or self.path(node.func) not in _KEPT_FRAMES:
                    self.visit(node)

    def _python(self, node: s.FunctionDef) -> bool:
        """A function inside a module that is plain Python."""
        paths = [self.path(d.func if type(d) is s.Call else d) for d in node.decorators]
        return "I.pyfunc" in paths

    def visit(self, node: s.Syntax) -> None:
        """Edits at one node."""
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(self, node)

    # ------------------------------------------------------------------------------------------------------------ names

    def attribute(self, node: s.Attribute) -> None:
        """``T.sblock`` -> ``T.block``: the last part of the name."""
        path = self.path(node)
        if path is None:
            return
        new = path.rpartition(".")[2]
        if path.startswith("T.") and node.name in DTYPE_ALIASES:
            new = DTYPE_ALIASES[node.name]
        elif path == "T.Ptr":
            new = "handle"
        else:
            old = f"{path[0]}.{node.name}"
            if old not in CANONICAL or old in REORDERED or old in ("T.let", "T.sblock_alloc_buffer"):
                return
        end = node.end + self.base
        self.edits.replace(end - len(node.name), end, new)

    def annotated(self, node: s.AnnAssign) -> None:
        """``x: T.let[T.float32] = v`` -> ``x: T.float32 = v``."""
        written = node.annotation
        if type(written) is s.Subscript and self.path(written.value) == "T.Let" and len(written.items) == 1:
            self.edits.replace(*self.at(written), self.take(written.items[0]))

    def subscript(self, node: s.Subscript) -> None:
        """``T.Buffer[(16,), "float32"]`` -> ``T.Buffer((16,), "float32")``."""
        if self.path(node.value) not in _BRACKETED or any([type(item) is s.Slice for item in node.items]):
            return
        opening = self.source.text.index("[", node.value.end + self.base)
        end = node.end + self.base
        self.edits.replace(opening, opening + 1, "(")
        self.edits.replace(end - 1, end, ")")
        if self.path(node.value) in ("T.Ptr", "T.handle"):
            self._pointer(node.items)

    def statement(self, node: s.ExprStmt) -> None:
        """``T.ret(x)`` -> ``return x``."""
        call = node.value
        if type(call) is s.Call and self.path(call.func) == "T.ret" and len(call.args) == 1 and not call.keywords:
            low, high = self.argument(call, call.args[0])
            self.edits.replace(*self.at(call), "return " + self.edits.apply(low, high))

    def signature(self, function: s.FunctionDef) -> None:
        """``R.Tensor((n, 4))`` -> ``R.Tensor(("n", 4))`` where nothing defines ``n``: the bare symbols of 2021."""
        known = {param.name for param in function.type_params} | self.assigned
        types = [param.annotation for param in function.params] + [function.returns]
        for node in [inner for ty in types if ty is not None for inner in [ty, *nodes_of(ty)]]:
            if not isinstance(node, (s.Call, s.Subscript)):
                continue
            called, items = (node.func, node.args) if isinstance(node, s.Call) else (node.value, node.items)
            if self.path(called) not in ("R.Tensor", "R.Shape"):
                continue
            for dim in items[0].items if items and isinstance(items[0], (s.TupleLit, s.ListLit)) else ():
                used = {part.name for part in [dim, *nodes_of(dim)] if isinstance(part, s.Name)}
                if (
                    used
                    and not used & known
                    and isinstance(dim, (s.Name, s.BinOp))
                    and not any([self._outer(n) for n in used])
                ):
                    start, end = self.at(dim)
                    self.edits.replace(start, end, f'"{self.source.text[start:end]}"')

    def _outer(self, name: str) -> bool:
        """The file says something of the name outside of script."""
        return re.search(rf"\b{re.escape(name)}\b", self.outside) is not None

    # ------------------------------------------------------------------------------------------------------------ calls

    def call(self, node: s.Call) -> None:
        """Calls whose arguments changed."""
        written = dotted(node.func)
        path = self.path(node.func)
        if path is None:
            self.keywords(node)
        elif path == "T.var":
            self._symbol(node)
        elif path == "T.Ptr":
            self._pointer(node.args)
        elif path == "T.Let" and written is not None and written.endswith(".let"):
            self.rename(node.func, "Let")
        elif path == "T.allocate" and len(node.args) <= 3 and not [k for k in node.keywords if k.name == "condition"]:
            self.rename(node.func, "allocate_buffer")
        elif path == "T.allocate_const":
            self.rename(node.func, "alloc_const")
        elif path == "T.alloc_buffer" and id(node) in self.direct:
            self._alloc_in_block(node)
        elif path == "R.match_cast" and written is not None and written.rpartition(".")[2] == "match_shape":
            self._match_shape(node)
        elif path in _DPS:
            self._call_dps(node)
        else:
            self.keywords(node)

    def keywords(self, node: s.Call) -> None:
        """``sinfo_args=`` -> ``ty_args=``."""
        for keyword in node.keywords:
            new = KEYWORDS.get(keyword.name or "")
            if new == "ty_args" and keyword.name != new:
                assert keyword.name is not None
                start = keyword.start + self.base
                self.edits.replace(start, start + len(keyword.name), new)

    def _alloc_in_block(self, node: s.Call) -> None:
        """Directly in a ``T.sblock``, ``T.alloc_buffer`` was a statement and ``T.sblock_alloc_buffer`` memory of the block."""
        written = (dotted(node.func) or "").rpartition(".")[2]
        if written != "alloc_buffer":
            self.rename(node.func, "alloc_buffer")
        elif self.direct[id(node)]:
            self.rename(node.func, "allocate_buffer")

    def _symbol(self, node: s.Call) -> None:
        """``T.var("int64")`` -> ``T.int64()``."""
        given = [*node.args, *[k.value for k in node.keywords if k.name == "dtype"]]
        if len(given) != 1 or len(node.args) + len(node.keywords) != 1 or type(node.func) is not s.Attribute:
            return
        dtype = given[0].value if type(given[0]) is s.String else None
        if dtype is not None and dtype_name(f"T.{dtype}") is not None:
            start = node.func.end + self.base - len(node.func.name)
            self.edits.replace(start, node.end + self.base, f"{dtype}()")

    def _pointer(self, args: list[s.Syntax]) -> None:
        """``T.Ptr(T.float32)`` -> ``T.handle("float32")``; the name itself is changed where it stands."""
        if args:
            path = self.path(args[0])
            dtype = dtype_name(path) if path is not None else None
            if dtype is not None:
                self.edits.replace(*self.at(args[0]), f'"{dtype}"')

    def _match_shape(self, node: s.Call) -> None:
        """``R.match_shape(x, (n, m))`` -> ``R.match_cast(x, R.Tensor((n, m), "float32"))``, by the type that is read."""
        types = self.types_at(node)
        if len(node.args) != 2 or node.keywords or len(types) != 1:
            return
        low, high = self.argument(node, node.args[1])
        ty = types[0]
        shape = self.edits.apply(low, high)
        if isinstance(ty, TensorType):
            new = self.tensor(node, shape, None if ty.dtype is None else f'"{ty.dtype.name}"')
        else:
            new = f"{self.graph(node)}.Shape({shape})"
        self.rename(node.func, "match_cast")
        self.edits.replace(low, high, new)

    # --------------------------------------------------------------------------------------------------------- call_dps

    def _call_dps(self, node: s.Call) -> None:
        """The call family of every era -> ``R.call_dps(f, (x, w), R.Tensor(...))``."""
        written = dotted(node.func)
        assert written is not None
        new_name = CANONICAL.get("R." + written.rpartition(".")[2])
        if new_name is not None:
            self.rename(node.func, new_name[2:])
        args = node.args
        dtype = next((k for k in node.keywords if k.name == "dtype"), None)
        if len(args) >= 3 and isinstance(args[0], (s.TupleLit, s.ListLit)):
            self._shape_first(node, dtype)
        elif len(args) >= 3 and isinstance(args[2], (s.TupleLit, s.ListLit, s.Number)):
            self._as_tuple(args[1])
            self._bare_shape(node, args[2], dtype)
        elif len(args) >= 2:
            self._as_tuple(args[1])
        for index, keyword in enumerate(node.keywords):
            new = DPS_KEYWORDS.get(keyword.name or "")
            if new is None or keyword.name is None:
                continue
            start = keyword.start + self.base
            if new == "out_ty" and index == 0 and len(args) == 2:
                self.edits.replace(start, keyword.value.start + self.base, "")
                if isinstance(keyword.value, (s.TupleLit, s.Number, s.ListLit)):
                    self._bare_shape(node, keyword.value, dtype)
            elif new != keyword.name:
                self.edits.replace(start, start + len(keyword.name), new)

    def _shape_first(self, node: s.Call, dtype: s.Keyword | None) -> None:
        """``R.call_dps((n, m), f, [x])``: the order of 2021."""
        shape, func, operands = node.args[:3]
        self._as_tuple(operands)
        self._bare_shape(node, shape, dtype)
        places = [self.argument(node, arg) for arg in (shape, func, operands)]
        texts = [self.edits.apply(*place) for place in places]
        for place, text in zip(places, [texts[1], texts[2], texts[0]]):
            self.edits.replace(*place, text)

    def _as_tuple(self, node: s.Syntax) -> None:
        """``[x]`` -> ``(x,)``."""
        if type(node) is not s.ListLit:
            return
        start, end = self.at(node)
        self.edits.replace(start, start + 1, "(")
        inside = self.source.text[node.items[-1].end + self.base : end - 1] if node.items else ""
        self.edits.replace(end - 1, end, ",)" if len(node.items) == 1 and "," not in inside else ")")

    def _bare_shape(self, node: s.Call, shape: s.Syntax, dtype: s.Keyword | None) -> None:
        """A shape with ``dtype=``, or with the type of the first operand, -> tensor types."""
        items = shape.items if isinstance(shape, (s.TupleLit, s.ListLit)) else []
        shapes = items if items and all([isinstance(item, (s.TupleLit, s.ListLit)) for item in items]) else [shape]
        if shapes[0] is shape and any([not isinstance(item, (s.Name, s.Number, s.BinOp, s.String)) for item in items]):
            return
        written = self._dtypes(node, dtype, len(shapes))
        if len(written) != len(shapes):
            return
        for item, text in zip(shapes, written):
            start, end = self.at(item)
            self.edits.replace(start, end, self.tensor(node, self.edits.apply(start, end), text))
        if dtype is not None:
            before = [arg.end for arg in [*node.args, *node.keywords] if arg.end <= dtype.start]
            comma = self.source.text.rindex(",", max(before) + self.base, dtype.start + self.base)
            self.edits.replace(comma, dtype.end + self.base, "")

    def _dtypes(self, node: s.Call, dtype: s.Keyword | None, count: int) -> list[str]:
        """Texts of the data types of the outputs, as written or as read; empty when neither is known."""
        if dtype is not None and isinstance(dtype.value, (s.TupleLit, s.ListLit)):
            return [self.take(item) for item in dtype.value.items]
        if dtype is not None:
            return [self.take(dtype.value)] * count
        found: list[DataType] = [
            ty.dtype for ty in self.types_at(node) if isinstance(ty, TensorType) and ty.dtype is not None
        ]
        return [f'"{item.name}"' for item in found]


def _direct_calls(nodes: list[s.Syntax], path: Callable[[s.Syntax], str | None]) -> dict[int, bool]:
    """Calls assigned directly in the body of a block, and whether that block is written ``T.sblock``."""
    found: dict[int, bool] = {}
    for node in nodes:
        items = [item.value for item in node.items if type(item.value) is s.Call] if type(node) is s.With else []
        blocks = [call for call in items if path(call.func) == "T.block"]
        if blocks:
            assert type(node) is s.With
            late = (dotted(blocks[-1].func) or "").endswith("sblock")
            values = [stmt.value for stmt in node.body if isinstance(stmt, (s.Assign, s.AnnAssign))]
            found |= {id(value): late for value in values}
    return found


_RULES: dict[type, Callable[[_Upgrader, Any], None]] = {
    s.Attribute: _Upgrader.attribute,
    s.AnnAssign: _Upgrader.annotated,
    s.Subscript: _Upgrader.subscript,
    s.ExprStmt: _Upgrader.statement,
    s.Call: _Upgrader.call,
}
