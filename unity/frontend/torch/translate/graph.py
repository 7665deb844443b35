"""From a graph of ATen calls (torch.fx nodes with metadata) to bindings: looks each operator up in the table.

Invariant: every value has the dtype and the sizes torch inferred for it. Sizes that cannot be proven equal become a match_cast,
which checks them when the program runs; a translation of another type is discarded for a call back into torch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .... import op
from ....ir.expr import Call, Constant, IntImm, Op, TupleGetItem, Var
from ....ir.op import OPS
from ....ir.relation import Answer, is_subtype, tensor_type
from ....ir.types import Expr, TensorType, prim_type
from ....support.errors import FFIError, FrontendError, TypeRuleError
from ....support.source import Span
from ..context.context import Args, Context, Result, bind, dtype_name, is_node, leaves, mapped
from ..context.fallback import Deferred, call_torch, complex_of, memory_order
from ..context.report import Gap, ImportReport, MemoryGap, module_path, traced_line
from ..operators.complex import COMPLEX, Pair, evaluate, resolved
from ..operators.table import ATEN
from ..runtime.arguments import PLACES, refuse_tensor
from .control import ASSERTIONS, READS, Parts, conditional, float_number, read_number, rounded_size
from .decompose import traced
from .flex import flex_attention
from .loops import LOOPS

_CHECKS_OF_TORCH = ("aten._assert_tensor_metadata.default", "aten.sym_constrain_range_for_size.default",
                    "aten.sym_constrain_range.default", "aten._linalg_check_errors.default",
                    "aten.promote_types.default")  # fmt: skip
_FORMS: dict[str, Callable[[Parts], list[Any]]] = {"cond": conditional, "flex_attention": flex_attention, **LOOPS}
"""torch's functions of functions."""
EFFECTS, TOKEN = "with_effects", ()
"""The function by which AOT autograd orders effects, (token, operator, *arguments) to (token, *results), and a token: assertions
keep their order without."""


class GraphImporter:
    """Translates nodes in order; ``values`` maps nodes to expressions (or lists of them)."""

    def __init__(self, context: Context, strict: bool, report: ImportReport, trains: bool = False) -> None:
        self.context = context
        context.symbols.read = partial(rounded_size, context)
        self.trains = trains
        """Operators of training are taken; those that draw random numbers run in torch."""
        self.strict = strict
        self.report = report
        self.values = context.values
        self._unknown: dict[Any, str] = {}
        """Scalars that cannot be expressed, and why: an error where one is used."""
        self._spans: dict[tuple[str, str], Span | None] = {}

    def run(self, nodes: Iterable[Any]) -> None:
        """Translate all operator nodes; placeholders must stand in ``values`` already."""
        builder = self.context.builder
        outer = builder.span
        for node in nodes:
            if node.op == "call_function":
                builder.span = self.span(node) or outer
                self.values[node] = self._node(node)
        builder.span = outer

    def parameter(self, node: Any, others: Sequence[Var] = ()) -> Var:
        """The parameter of a placeholder, which is its value; a number that is one of the ``others`` is its own the second time.

        Raises FrontendError E013 and E015 for what programs do not take.
        """
        c, value, what = self.context, node.meta["val"], f"the input {node.name}"
        if isinstance(value, c.torch.Tensor):
            refuse_tensor(c.torch, what, value, PLACES)
            real = self._as_pairs(value)
            try:
                shape = [c.symbols.bind(d) for d in real.shape]
                var = Var(node.name, tensor_type(shape, dtype_name(real.dtype)))
            except (Gap, FFIError) as error:
                raise FrontendError("E015", f"{what} cannot be imported: {error}") from error
            self.values[node] = complex_of(var, value) if value.is_complex() else var
            return var
        if not isinstance(value, (int, c.torch.SymInt)):
            raise FrontendError("E013", f"{what} of type {type(value).__name__} cannot be imported")
        var, bound = Var(node.name, prim_type("int64")), c.symbols.bind(value)
        if isinstance(bound, Var) and all([bound is not other for other in others]):
            var = bound
        self.values[node] = var
        return var

    def value_of(self, raw: Any) -> Any:
        """An argument of a node with nodes replaced by their values."""
        return mapped(self._value, raw)

    def _value(self, raw: Any) -> Any:
        if not is_node(raw):
            return raw
        found = self.values.get(raw)
        if found is None and raw in self._unknown:
            raise self._refused(raw, self._unknown[raw])
        if found is None:
            raise FrontendError("E012", f"{raw.name} has no value at this place", help="report this model")
        return found

    def _node(self, node: Any) -> Result:
        c = self.context
        name = str(node.target)
        c.value, c.node_target = node.meta.get("val"), name
        c.node = node
        c.used = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
        if node.target is operator.getitem:
            return self.value_of(node.args[0])[node.args[1]]
        if name in _CHECKS_OF_TORCH or (name in READS and c.value is None and not node.users):
            return None  # of a number that the trace knew
        try:
            if name == "aten._assert_scalar.default":
                return self._assert(node)
            if name in ASSERTIONS:
                return self._assert_tensor(*node.args)
            if name == EFFECTS and (target := str(node.args[1])) in (*ASSERTIONS, *_CHECKS_OF_TORCH):
                if target in ASSERTIONS:
                    self._assert_tensor(*node.args[2:])
                return [TOKEN, None]
            if (
                name in READS
                and isinstance(c.value, (c.torch.SymInt, c.torch.SymBool))
                and not c.symbols.knows([c.value])
            ):
                return read_number(c, self.value_of(node.args[0]))
            if isinstance(c.value, (int, c.torch.SymInt, c.torch.SymBool)):
                return self._scalar(node)
            if isinstance(c.value, c.torch.SymFloat):
                return float_number(c, node, [self.value_of(a) for a in node.args])
            if name in _FORMS:
                return _FORMS[name](Parts(c, self.values, node, self.run, self.value_of))
        except Gap as gap:
            raise self._refused(node, str(gap)) from gap
        if not isinstance(node.target, c.torch._ops.OpOverload):
            raise self._refused(node, "it is not an operator but a function of functions")
        return self._operator(node)

    def _scalar(self, node: Any) -> Expr | None:
        """A size or a condition on sizes."""
        try:
            return self.context.symbols.expr(self.context.value)
        except Gap as gap:
            self._unknown[node] = str(gap)
            return None

    def _assert(self, node: Any) -> None:
        raw = node.args[0]
        if raw in self._unknown and _asks_offset(raw):
            return  # where a view starts in torch's memory: here every tensor has its own
        cond = self.value_of(raw) if is_node(raw) else raw
        if isinstance(cond, Expr) and type(cond) is not IntImm:
            self.context.emit(op.assert_op(cond, format=str(node.args[1])))

    def _assert_tensor(self, raw: Any, message: str = "an assertion failed") -> None:
        """A tensor of one bool that must hold when the program runs."""
        c = self.context
        cond = c.reshape(c.cast(self.value_of(raw), "bool"), [])
        c.emit(op.assert_op(c.emit(cond), format=str(message)))

    def _operator(self, node: Any) -> Result:
        c = self.context
        args, kwargs = self.value_of([node.args, node.kwargs])
        given = leaves([args, kwargs])
        target, name = node.target, str(node.target)
        if not self.trains:
            self._check_mode(node, bind(target, args, kwargs))
        deferred = any([isinstance(value, Deferred) for value in given])
        dense = _is_dense(c.value, given)
        entry = ATEN.get(name)
        reason = "no graph operator expresses it"
        pairs = name in COMPLEX and (deferred or _is_complex(c.value))
        if entry is None and not pairs and dense:
            try:
                return self._decompose(node)
            except Gap as gap:
                reason = str(gap)
        if deferred and not _is_complex(c.value):
            entry = lambda c, _: evaluate(c, target, (args, kwargs))  # noqa: E731
        if entry is not None and not _is_complex(c.value) and dense:
            try:
                made = self._finish(node, c.translated(entry, bind(target, args, kwargs)))
                self.report.imported += 1
                return made
            except MemoryGap as gap:
                raise self._refused(node, str(gap)) from gap
            except Gap as gap:
                reason = str(gap)
            except TypeRuleError as error:
                reason = error.message
            except TypeError:
                if not c.holds_number([args, kwargs]):
                    raise
                reason = "it takes a number that only the data knows"
        pure = c.torch.Tag.nondeterministic_seeded not in target.tags
        if (pure or name in COMPLEX) and (_is_complex(c.value) or not dense):
            made = Deferred(target, args, kwargs, c.value, node)
            sized = not _is_complex(c.value) or c.symbols.knows(c.value.shape)
            laid = name.startswith("aten.as_strided")  # in a call of torch its operand may lie in another way
            if sized and (not _is_complex(c.value) or (len(node.users) < 2 and not laid)):
                return made
            try:
                resolved(c, made)  # once for all users; it binds its size, which they may ask for first
                return made
            except Gap as gap:
                if not sized or laid:
                    raise self._refused(node, str(gap)) from gap
                reason = str(gap)
        if self.strict:
            raise FrontendError("E010", f"{name} has no translation here: {reason}", self.span(node),
                                help=f"module {module_path(node)}; without strict=True it runs in torch")  # fmt: skip
        try:
            axes = () if pure else memory_order(c.value)
            args, kwargs = mapped(self._with_pairs, [args, kwargs])
            call = call_torch(target, args, kwargs, c.open_type_of(self._as_pairs(c.value)), pure, c.numbers, axes)
            made = c.builder.emit(call, node.name)
        except Gap as gap:
            raise self._refused(node, f"{reason}; and as a call into torch: {gap}") from gap
        self.report.add(name, reason, self.place(node), self._bytes(node))
        if not isinstance(c.value, (list, tuple)):
            return self._part(made, c.value)
        return [self._part(c.builder.emit(TupleGetItem(made, i)), value) for i, value in enumerate(c.value)]

    def _decompose(self, node: Any) -> Result:
        """The results of the operators into which torch takes an operator apart. Raises Gap."""
        c = self.context
        graph, inputs = traced(c, node.target, list(node.args), node.kwargs, self.trains)
        self.values |= zip([n for n in graph.nodes if n.op == "placeholder"], self.value_of(inputs))
        for inner in graph.nodes:
            inner.meta |= {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
        self.run(graph.nodes)
        results = next(n for n in graph.nodes if n.op == "output").args[0]
        made, leaves = self.value_of(results), c.torch.utils._pytree.tree_leaves
        for value, inner in zip(leaves(node.meta["val"]), leaves(results)):
            for size, twin in zip(getattr(value, "shape", ()), inner.meta["val"].shape if is_node(inner) else ()):
                if not c.symbols.knows([size]):  # only the data knows it: the graph has a symbol of its own
                    c.symbols.define(size, c.symbols.expr(twin))
        c.value, c.node_target, c.node = node.meta["val"], str(node.target), node
        return made

    def _part(self, made: Any, value: Any) -> Any:
        """A result of a call into torch, of which ``value`` is torch's example."""
        part = self._bind_unbacked(made, self._as_pairs(value))
        return complex_of(part, value) if _is_complex(value) else part

    def _with_pairs(self, value: Any) -> Any:
        """An argument of a call into torch; a complex one that is computed already as the pair that it is."""
        c = self.context
        if not isinstance(value, Deferred) or value.target is c.torch.ops.aten.view_as_complex.default:
            return value
        known = c.pairs.get(value)
        if known is None:
            return replace(
                value, args=mapped(self._with_pairs, value.args), kwargs=mapped(self._with_pairs, value.kwargs)
            )
        return complex_of(c.emit(op.stack([known.real, known.imag], axis=len(value.value.shape))), value.value)

    def _as_pairs(self, value: Any) -> Any:
        """The results that torch infers for a call, complex ones as the pairs of real numbers that it gives."""
        real = self.context.torch.view_as_real
        return mapped(lambda v: real(v.resolve_conj()) if _is_complex(v) else v, value)

    def as_real(self, value: Deferred, node: Any) -> Expr:
        """A complex result with real and imaginary part along a last axis. Raises FrontendError E015 for sparse ones."""
        c = self.context
        self.require_complex(value, node)
        target = c.torch.ops.aten.view_as_real.default
        c.value = self._as_pairs(value.value)
        if value.value.is_conj():
            value = replace(value, target=c.torch.ops.aten.resolve_conj.default, args=[value], kwargs={})
        try:
            return c.emit(evaluate(c, target, ([value], {})))
        except Gap as gap:
            if self.strict:
                raise FrontendError("E010", f"{value.target} has no translation here: {gap}",
                                    help="without strict=True it runs in torch") from gap  # fmt: skip
            self.report.add(str(value.target), str(gap), self.place(node), self._bytes(node))
            return c.builder.emit(
                call_torch(target, [self._with_pairs(value)], {}, c.type_of(c.value), True, c.numbers)
            )

    def require_complex(self, value: Deferred, node: Any) -> None:
        """Raise FrontendError E015 for a result that is sparse or quantised."""
        if not value.value.is_complex():
            raise FrontendError("E015", f"the result {node.name} is sparse or quantised", self.span(node),
                                help="return it after to_dense() or dequantize()")  # fmt: skip

    def _bytes(self, node: Any) -> int:
        """The bytes that a call reads and writes; symbolic sizes count as in the example."""
        values = [self.context.value, *[n.meta.get("val") for n in node.all_input_nodes]]
        leaves = self.context.torch.utils._pytree.tree_leaves(values)
        found = 0
        for leaf in leaves:
            if isinstance(leaf, self.context.torch.Tensor):
                found += math.prod([_hint(d) for d in leaf.shape]) * leaf.element_size()
        return found

    def _bind_unbacked(self, made: Var, value: Any) -> Expr:
        """The result of a call with sizes only the data knows bound to symbols."""
        if isinstance(made.ty, TensorType) and made.ty.shape is None:
            for size in value.shape:
                self.context.symbols.bind(size)
            return self.context.builder.match_cast(made, self.context.type_of(value), made.name)
        return made

    def _check_mode(self, node: Any, a: Args) -> None:
        """Refuse operators of training. Raises FrontendError E011."""
        name = str(node.target)
        drops = "dropout" in name and getattr(a, "train", False) and getattr(a, "p", 0)
        batch = name.startswith("aten.batch_norm") and a.training and a.running_mean is not None
        layers = name.startswith(("aten.lstm.", "aten.gru.", "aten.rnn_")) and getattr(a, "train", False) and a.dropout
        if drops or batch or layers:
            raise FrontendError("E011", f"{module_path(node)} is in training mode", self.span(node),
                                help="call model.eval() before the model is exported")  # fmt: skip

    # ---- results

    def _finish(self, node: Any, made: Result) -> Result:
        value = self.context.value
        if not isinstance(made, list):
            return self._checked(made.real if isinstance(made, Pair) else made, value, node.name)
        if any([made[i] is None for i in self.context.used]):
            raise Gap("an output besides the first is used")
        return [None if m is None else self._one_of(m, v, node.name) for m, v in zip(made, value)]

    def _one_of(self, made: Expr | Pair, value: Any, name: str) -> Expr | Deferred:
        """One of several results; a complex one keeps its parts at hand."""
        if not isinstance(made, Pair):
            return self._checked(made, value, name)
        c = self.context
        found = complex_of(c.emit(op.stack([made.real, made.imag], axis=len(value.shape))), value)
        c.pairs[found] = made
        return found

    def _checked(self, expr: Expr, value: Any, name: str) -> Expr:
        c = self.context
        wanted = c.type_of(value)
        answer = is_subtype(expr.ty, wanted)
        if answer is Answer.NO or not isinstance(expr.ty, TensorType) or expr.ty.dtype is not wanted.dtype:  # type: ignore[attr-defined]
            raise Gap(f"the translation has type {expr.ty}, torch's result {wanted}")
        if expr.ty.shape is None and type(expr) is Call and _is_lowered(expr):
            raise Gap("its operands have sizes that cannot be proven to fit")
        if not isinstance(expr, (Var, Constant)):
            expr = c.builder.emit(expr, name)
        return expr if answer is Answer.YES else c.builder.match_cast(expr, wanted, name)

    # ---- where a node comes from

    def span(self, node: Any) -> Span | None:
        """The line of the model's source a node was traced from, owned by its module; None where torch kept no trace."""
        key = (node.meta.get("stack_trace") or "", module_path(node))
        found = self._spans.get(key)
        if found is None and key[0]:
            found = self._spans[key] = traced_line(*key)
        return found

    def place(self, node: Any) -> str:
        """Module path and source line of a node, for reports."""
        span = self.span(node)
        return span.place if span is not None else module_path(node)

    def _refused(self, node: Any, reason: str) -> FrontendError:
        return FrontendError("E012", f"{node.target} cannot be imported: {reason}", self.span(node),
                             help=f"it stands in {module_path(node)}")  # fmt: skip


def _is_lowered(call: Call) -> bool:
    """True if an operator becomes a tensor program, which needs the sizes of its result."""
    info = OPS.get(call.op.name) if type(call.op) is Op else None
    return info is not None and callable(info.lower)


def _asks_offset(node: Any) -> bool:
    """True if a condition is about the storage offset of a tensor."""
    return any([str(n.target).startswith("aten.sym_storage_offset") for n in node.all_input_nodes])


def _is_complex(value: Any) -> bool:
    return bool(getattr(getattr(value, "dtype", None), "is_complex", False))


def _is_dense(value: Any, arguments: Sequence[Any]) -> bool:
    """True if the result is neither sparse nor quantised. What torch infers for the latter says nothing: their dtype is an
    argument."""
    kinds = [str(a) for a in arguments if type(a).__name__ == "dtype"]
    quantised = any([kind.startswith(("torch.q", "torch.uint4")) for kind in kinds])
    return str(getattr(value, "layout", "torch.strided")) == "torch.strided" and not quantised


def _hint(size: Any) -> int:
    """A size, or that of the example; 1 where only the data knows it."""
    return size if isinstance(size, int) else int(size.node.hint) if size.node.has_hint() else 1
