"""``BlockBuilder`` with tensor expressions: ``emit_te(topi.matmul, x, w)`` puts a tensor program into the module and calls it.

Here: graph arguments as inputs of a function on te.Tensors, and its results as a call. Building bindings: ``ir/builder.py``.
Symbols of the arguments' shapes are the same variables inside the tensor expression, so that result types keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ... import te
from ...ir import builder
from ...ir.expr import Call, FloatImm, GlobalVar, IntImm, ShapeExpr, StringImm, Tuple, TupleGetItem, Var
from ...ir.module import IRModule
from ...ir.relation import dims, tensor_type
from ...ir.types import Expr, PrimType, ShapeType, TensorType, TupleType, Type
from ...support.arguments import guarded_class
from ...support.errors import TypeRuleError
from ...te.kernel_table import KernelTable
from .. import core as _core  # noqa: F401 - the row of R.call_dps
from ..common.table import R, to_expr
from .call_inputs import KernelInputs, kernel_call


class _Inputs(KernelInputs):
    """Arguments of a TE function: placeholders and scalars, with the graph values passed for them."""

    def __init__(self, bb: BlockBuilder) -> None:
        super().__init__()
        self.bb = bb

    def convert(self, arg: Any) -> Any:
        """The value that the TE function receives for an argument."""
        if isinstance(arg, (list, tuple)):
            return [self.convert(a) for a in arg]
        if isinstance(arg, Mapping):
            return {key: self.convert(a) for key, a in arg.items()}
        if isinstance(arg, StringImm):
            return arg.value
        if not isinstance(arg, Expr):
            return arg
        value = self.bb.as_argument(arg)
        ty, name = value.ty, _letter(len(self.given))
        if isinstance(ty, TensorType):
            shape = dims(ty)
            if shape is None or ty.dtype is None:
                raise _unknown(ty)
            return self.tensor(value, shape, ty.dtype, name)
        if type(value) is Tuple:
            return [self.convert(f) for f in value.fields]
        if isinstance(ty, TupleType):
            return [self.convert(TupleGetItem(value, i)) for i in range(len(ty.fields))]
        if isinstance(ty, ShapeType):
            known = value.values if type(value) is ShapeExpr else ty.values
            if known is None:
                raise _unknown(ty)
            return [te.Value(d) for d in known]
        if isinstance(ty, PrimType):
            literal = isinstance(value, (IntImm, FloatImm)) or ty.dtype.name == "int64"
            return te.Value(value) if literal else self.scalar(value, ty, name.lower())
        return value


def _letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else f"A{index}"


def _unknown(ty: Type) -> TypeRuleError:
    return TypeRuleError(
        "E218",
        f"the shape of {ty} is not known at compile time",
        help="name it first: y = bb.match_cast(x, tensor_type((n, m), dtype))",
    )


@guarded_class
class BlockBuilder(builder.BlockBuilder):
    """Builds functions into a module, with tensor programs made from tensor expressions on the way.

    >>> bb = BlockBuilder()
    >>> with bb.function("main", [x, w]):
    ...     with bb.dataflow():
    ...         y = bb.emit_te(topi.matmul, x, w)
    ...         z = bb.emit_output(relax.op.nn.relu(y))
    ...     bb.emit_func_output(z)
    >>> mod = bb.get()
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        super().__init__(mod)
        self._kernels = KernelTable(self._module)

    def emit(self, expr: Any, name_hint: str = "", output: bool = False) -> Var:
        """Bind an expression (normalised) to a fresh variable and return it; numbers, arrays and tuples of expressions count."""
        return super().emit(to_expr(expr), name_hint, output)

    def emit_func_output(self, expr: Any, params: Var | Sequence[Var] | None = None) -> GlobalVar:
        """Set the value the function returns, and its parameters where ``function`` was not given them; return a reference."""
        return super().emit_func_output(to_expr(expr), params)

    @contextmanager
    def testing_scope(self, def_vars: Sequence[Any] = ()) -> Iterator[None]:
        """A place for bindings outside a function, forgotten at its end: what ``emit`` gives can be looked at."""
        with self.new_sequence():
            yield

    def as_argument(self, value: Expr) -> Expr:
        """The expression, bound to a variable where it cannot stand as an argument."""
        return self._leaf(value)

    def call_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Call:
        """A call of the tensor program that ``func`` describes: it receives te.Tensors for tensor arguments (lists of them
        for tuples, te.Values for scalars and dimensions), other values as they are, and returns one tensor or several.

        Equal programs of the module are shared. Raises TypeRuleError E217 for a function that returns no tensor, E218 for an
        argument of unknown shape.
        """
        inputs = _Inputs(self)
        out = func(*[inputs.convert(a) for a in args], **{k: inputs.convert(v) for k, v in kwargs.items()})
        several = isinstance(out, (tuple, list))
        results = list(out) if several else [out]
        for result in results:
            if not isinstance(result, te.Tensor):
                raise TypeRuleError(
                    "E217",
                    f"{_name(func)} returned a {type(result).__name__}, not a tensor",
                    help="return te.compute(...)",
                )
        outputs = [_computed(r, results[:i]) for i, r in enumerate(results)]
        attrs = {"tir.noalias": True, **(primfunc_attrs or {})}
        program, symbols = te.create_prim_func_with_symbols([*inputs.params, *outputs], attrs=attrs)
        self._kernels.mod = self._module
        ref = self._kernels.add(program, primfunc_name_hint or _name(func))
        if ref.name not in self._module:
            self._module = self._module.with_functions({ref.name: program})
        types = tuple([tensor_type(t.shape, t.data_type) for t in outputs])
        return kernel_call(GlobalVar(ref.name), inputs.values, symbols, TupleType(types) if several else types[0])

    def emit_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Var:
        """Bind ``call_te(func, ...)`` to a fresh variable and return it."""
        call = self.call_te(func, *args, primfunc_name_hint=primfunc_name_hint, primfunc_attrs=primfunc_attrs, **kwargs)
        return self.emit(call)

    def call_te_with_grad(
        self,
        func: Callable[..., Any],
        *args: Any,
        te_grad_name: str,
        te_grad_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Call:
        """As ``call_te``, naming the gradient of the program (``register_te_gradient``) and what that takes beside the inputs."""
        result = self.call_te(func, *args, **kwargs)
        attrs = {"te_grad_name": te_grad_name, "te_grad_kwargs": dict(te_grad_kwargs) if te_grad_kwargs else None}
        return Call(R.call_dps_with_grad.op, result.args, attrs, result.ty_args, result.ty)

    def emit_te_with_grad(self, func: Callable[..., Any], *args: Any, **options: Any) -> Var:
        """Bind ``call_te_with_grad(func, ...)`` to a fresh variable and return it."""
        return self.emit(self.call_te_with_grad(func, *args, **options))


def _name(func: Callable[..., Any]) -> str:
    found = str(getattr(func, "__name__", "te_func"))
    return "te_func" if found == "<lambda>" else found


def _computed(tensor: te.Tensor, before: list[te.Tensor]) -> te.Tensor:
    """The tensor; a copy where it is an input or given twice, since an output has memory of its own."""
    if tensor.op is not None and tensor not in before:
        return tensor
    return te.compute(tensor.shape, lambda *i: tensor[i], "copy")
