"""Random graph functions over the whole operator table with symbolic sizes: interpreter, bytecode and native code agree.

Each program calls a few operators, with the sizes of their inputs as symbols where the type rules allow it, joins the results
through ``if``, tuples, ``match_cast`` and calls of other graph functions, and runs once with the sizes of the case and once
with other sizes (0, 1, odd).
"""

from __future__ import annotations

import copy
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import SEED, TIMES

import unity
from unity.ir import (
    BlockBuilder,
    Expr,
    If,
    IRModule,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    build as b,
    prim_type,
)
from unity.ir.builder import join_branches
from unity.ir.expr import BindingBlock
from unity.ir.interpret import run
from unity.ir.op import OPS
from unity.ir.relation import dims, tensor_type
from unity.ir.types import TensorType, TupleType
from unity.op import OPERATORS
from unity.script import parse
from unity.support.errors import TypeRuleError, UnityError
from unity.transform.infra.passes import Pipeline
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

sys.path += [str(Path(__file__).parents[1] / room) for room in ("op", "gpu")]
from device_choice import device_or_emulated
from op_cases import CASES, Shape

COUNT = 12 * TIMES
I64 = prim_type("int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SORTED = ("searchsorted", "nn.grouped_matmul")
"""Operators of sorted data, which data of another size are not."""
USED = [case for case in CASES if callable(OPS[f"R.{case[0]}"].lower)]


@dataclass
class Graph:
    """A program under construction: parameters, their data, and the symbol of each size of the case at hand."""

    rng: random.Random
    params: list[Var] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    sizes: dict[Var, int] = field(default_factory=dict)

    def parameter(self, array: np.ndarray, symbols: dict[int, Var]) -> Var:
        shape: list[Expr] = []
        for extent in array.shape:
            if extent in symbols:
                shape.append(symbols[extent])
            else:
                shape.append(b.const(extent, "int64"))
        var = Var(f"x{len(self.params)}", tensor_type(shape, str(array.dtype)))
        self.params.append(var)
        self.arrays.append(array)
        return var

    def argument(self, value: Any, symbols: dict[int, Var]) -> Any:
        if isinstance(value, np.ndarray):
            return self.parameter(value, symbols)
        if isinstance(value, Shape):
            return ShapeExpr(tuple([symbols.get(int(v)) or b.const(int(v), "int64") for v in value]))
        return Tuple(tuple([self.argument(v, symbols) for v in value])) if isinstance(value, tuple) else value

    def call(self, case: tuple[str, list[Any], dict[str, Any]]) -> Expr:
        """A call of the case, with sizes as symbols unless the type rule wants numbers."""
        name, inputs, attrs = case
        extents = {n for value in inputs for x in (value if type(value) is tuple else [value])
                   if isinstance(x, np.ndarray) for n in x.shape}  # fmt: skip
        chosen = [n for n in sorted(extents) if n > 1 and self.rng.random() < 0.7 and name not in SORTED]
        symbols = {n: Var(f"n{len(self.sizes) + k}", I64) for k, n in enumerate(chosen)}
        before = len(self.params)
        try:
            made = OPERATORS[f"R.{name}"](*[self.argument(x, symbols) for x in inputs], **attrs)
        except TypeRuleError:
            del self.params[before:], self.arrays[before:]
            symbols = {}
            made = OPERATORS[f"R.{name}"](*[self.argument(x, symbols) for x in inputs], **attrs)
        self.sizes |= {var: n for n, var in symbols.items()}
        return made

    def join(self, bb: BlockBuilder, value: Var, flag: Var) -> Var:
        """The value sent through another form of expression."""
        pick, known = self.rng.randrange(5), dims(value.ty)
        if pick == 0:
            other = self.unary(value)
            branches = [self.branch(bb, other), self.branch(bb, value)]
            return bb.emit(If(flag, branches[0], branches[1], join_branches(branches[0], branches[1])))
        if pick == 1:
            return bb.emit(TupleGetItem(bb.emit(Tuple((flag, value))), 1))
        if pick == 2 and known:
            fresh = tuple([Var(bb.get_unique_name("m"), I64) for _ in known])
            return bb.match_cast(value, tensor_type(fresh, value.ty.dtype))
        if pick == 3 and known:
            return bb.emit(OPERATORS["R.reshape"](bb.emit(OPERATORS["R.flatten"](value)), ShapeExpr(known)))
        return bb.emit(self.unary(value))

    def unary(self, value: Var) -> Expr:
        """An operator that keeps the type."""
        dtype = value.ty.dtype
        if dtype is None or dtype.is_bool:
            return OPERATORS["R.zeros_like"](value)
        name = self.rng.choice(
            ("R.abs", "R.nn.relu", "R.add", "R.maximum") if dtype.is_float else ("R.maximum", "R.bitwise_and")
        )
        return OPERATORS[name](value, value) if len(OPS[name].params) == 2 else OPERATORS[name](value)

    def branch(self, bb: BlockBuilder, value: Expr) -> SeqExpr:
        if isinstance(value, Var):
            value = self.unary(value)
        var = Var(bb.get_unique_name("b"), value.ty)
        return SeqExpr((BindingBlock((VarBinding(var, value),)),), var)


def random_graph(rng: random.Random) -> tuple[Graph, IRModule]:
    """``main`` with a few operators, and its parameters' data."""
    graph = Graph(rng)
    calls = [graph.call(rng.choice(USED)) for _ in range(rng.randint(1, 4))]
    flag = Var("flag", tensor_type((), "bool"))
    bb = BlockBuilder(IRModule({}, {}, {}))
    with bb.function("main", [*graph.params, flag]):
        results: list[Expr] = []
        for call in calls:
            if rng.random() < 0.5:
                with bb.dataflow():
                    out = bb.emit_output(call)
            else:
                out = bb.emit(call)
            results.append(out)
            if isinstance(out.ty, TensorType) and out.ty.ndim >= 0:
                results.append(graph.join(bb, out, flag))
            elif isinstance(out.ty, TupleType) and out.ty.fields and rng.random() < 0.5:
                results.append(bb.emit(TupleGetItem(out, rng.randrange(len(out.ty.fields)))))
        bb.emit_func_output(results[0] if len(results) == 1 else Tuple(tuple(results)))
    graph.arrays.append(np.array(rng.random() < 0.5))
    return graph, bb.get()


def resized(graph: Graph) -> list[np.ndarray]:
    """The arguments with other sizes for the symbols."""
    new = {var: graph.rng.choice((0, 1, 3, 5, 7)) for var in graph.sizes}
    arrays = []
    for param, array in zip(graph.params, graph.arrays):
        known = dims(param.ty)
        shape = tuple([new.get(d, n) for d, n in zip(known or (), array.shape)])
        arrays.append(np.resize(array, shape).astype(array.dtype) if array.size else np.zeros(shape, array.dtype))
    return [*arrays, graph.arrays[-1]]


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [np.asarray(value.numpy() if hasattr(value, "numpy") else value)]


def same(actual: Any, expected: Any, place: str) -> None:
    for x, y in zip(flat(actual), flat(expected), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, f"{place}\n{x.dtype} {x.shape}, expected {y.dtype} {y.shape}"
        if str(x.dtype) not in FLOATS:
            np.testing.assert_array_equal(x, y, err_msg=place)
            continue
        loose = str(x.dtype) in ("float16", "bfloat16")
        left, right = x.astype("float64"), y.astype("float64")
        wide = float(np.max(np.abs(right[np.isfinite(right)]), initial=1.0))
        np.testing.assert_allclose(
            left, right, rtol=2e-2 if loose else 1e-4, atol=(2e-2 if loose else 1e-5) * wide, err_msg=place
        )


def outcome(run_it: Any) -> Any:
    """The result, or the error's class for a call that is refused at run time."""
    try:
        with np.errstate(all="ignore"):
            return run_it()
    except UnityError as problem:
        return problem


def check(seed: int) -> int:
    graph, mod = random_graph(random.Random(seed))
    place = f"seed {seed}\n{mod.script()}"
    assert unity.ir.structural_equal(mod, parse(mod.script())), place
    inputs = [graph.arrays] + ([resized(graph)] if graph.sizes else [])
    expected = [outcome(lambda: run(mod, "main", *copy.deepcopy(args))) for args in inputs]
    assert not isinstance(expected[0], UnityError), f"{place}\n{expected[0]}"
    try:
        unity.compile(mod)
    except TypeRuleError as problem:
        assert problem.code == "E218" and problem.help, f"{place}\n{problem}"  # a shape that must be named first
        return 0
    after = mod
    for step in DEFAULT_PIPELINE:
        after = Pipeline((step,))(after)
        with np.errstate(all="ignore"):
            same(
                run(after, "main", *copy.deepcopy(inputs[0])),
                expected[0],
                f"pass {step.name}, {place}\n{after.script()}",
            )
    for mode in ("bytecode", "native"):
        machine = unity.VirtualMachine(unity.compile(mod, exec_mode=mode), exec_mode=mode)
        for args, wanted in zip(inputs, expected):
            got = outcome(lambda: machine["main"](*[unity.tensor(a) for a in copy.deepcopy(args)]))
            if isinstance(wanted, UnityError):
                continue  # sizes the program refuses; machine code may have met the same problem or none
            assert not isinstance(got, UnityError), f"{mode}, sizes {[a.shape for a in args]}, {place}\n{got}"
            same(got, wanted, f"{mode}, sizes {[a.shape for a in args]}, {place}")
    return len(graph.sizes)


@pytest.mark.parametrize("part", range(2))
def test_operators_in_graphs(part: int) -> None:
    symbols = [check(SEED + case) for case in range(part * COUNT // 2, (part + 1) * COUNT // 2)]
    assert any(symbols)


def check_on_device(seed: int, arch: str) -> None:
    """The same graphs on the device of this machine, or on an emulated one, where nothing is found in the kernels."""
    graph, mod = random_graph(random.Random(seed))
    place = f"seed {seed}, {arch}\n{mod.script()}"
    inputs = [graph.arrays] + ([resized(graph)] if graph.sizes else [])
    expected = [outcome(lambda: run(mod, "main", *copy.deepcopy(args))) for args in inputs]
    try:
        compiled = unity.compile(mod, target=f"cuda -arch={arch}")
    except TypeRuleError:
        return  # a shape that must be named first
    with device_or_emulated(arch, launched=False):
        machine = unity.VirtualMachine(compiled, unity.cuda(0))
        for args, wanted in zip(inputs, expected):
            got = outcome(lambda: machine["main"](*copy.deepcopy(args)))
            if isinstance(wanted, UnityError):
                return  # sizes the program refuses
            shapes = [a.shape for a in args]
            assert not isinstance(got, UnityError), f"sizes {shapes}, {place}\n{got}"
            same(got, wanted, f"sizes {shapes}, {place}")


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(TIMES))
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_operators_in_graphs_on_devices(arch: str, part: int) -> None:
    for case in range(4):
        check_on_device(SEED + 1000 + 4 * part + case, arch)


@pytest.mark.parametrize("mode", ["bytecode", "native"])
def test_fewer_elements_than_topk_keeps(mode: str) -> None:
    text = '@R.function\ndef main(x: R.Tensor((3, "n"), "float32")):\n    return R.topk(x, k=2, axis=1)\n'
    machine = unity.VirtualMachine(
        unity.compile(IRModule({"main": parse(text)}, {}, {}), exec_mode=mode), exec_mode=mode
    )
    for size in (0, 1, 2, 5):
        x = np.random.default_rng(size).random((3, size), "float32")
        values, indices = machine["main"](x)
        assert np.asarray(values).shape == (3, min(2, size))
        np.testing.assert_array_equal(np.asarray(values), -np.sort(-x, 1)[:, :2])
        np.testing.assert_array_equal(np.asarray(indices), np.argsort(-x, 1)[:, :2])
