"""Analyses on small programs whose answers are known."""

from __future__ import annotations

import pytest
from samples import I64, buffer, i64, load, loop, matmul, matmul_module, nest, prim_func

from unity import relax, tir
from unity.ir import (
    Add,
    AllocBuffer,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    FloorDiv,
    For,
    IRModule,
    IterVar,
    Mul,
    Range,
    Var,
    collect,
    prim_type,
    seq,
)  # fmt: skip
from unity.ir.analysis import (
    block_regions,
    call_graph,
    defined_symbols,
    definitions,
    detect_recursion,
    opaque_buffers,
    reachable_functions,
    use_counts,
    used_symbols,
    users,
    var_to_value,
)  # fmt: skip
from unity.ir.build import const, intrinsic
from unity.ir.node import Node, replace
from unity.ir.walk import nodes_in
from unity.script.reader.module import parse
from unity.support.errors import UnityError


def shown(regions):
    """Regions as {buffer: [(min, extent), ...]} with constants as numbers and variables as names."""

    def text(expr):
        return (
            expr.value
            if hasattr(expr, "value") and isinstance(expr.value, int)
            else getattr(expr, "name", type(expr).__name__)
        )

    return {r.buffer.name: [(text(x.min), text(x.extent)) for x in r.region] for r in regions}


def test_regions_of_a_reduction_equal_its_declaration():
    block = collect(matmul(), Block)[0]
    reads, writes = block_regions(block, derive=True)
    assert shown(reads) == {"A": [("vi", 1), ("vk", 1)], "B": [("vk", 1), ("vj", 1)]}
    assert shown(writes) == {"C": [("vi", 1), ("vj", 1)]}
    assert shown(block_regions(block)[0]) == shown(reads)


def test_inner_loops_widen_regions():
    a, b = buffer("A", (64,)), buffer("B", (16,))
    vi, inner = Var("vi", I64), loop("p", 4)
    at = Add(Mul(vi, i64(4), I64), inner[0], I64)
    body = nest([inner], BufferStore(b, load(a, at), (vi,)))
    block = Block((IterVar(vi, Range(i64(0), i64(16)), "S"),), None, None, (), (), {}, "b", body)
    reads, writes = block_regions(block)
    assert [x.extent.value for x in reads[0].region] == [4] and type(reads[0].region[0].min) is Mul
    assert shown(writes) == {"B": [("vi", 1)]}


def test_unknown_indices_cover_the_axis_and_neighbours_join():
    a, b, index = buffer("A", (64,)), buffer("B", (16,)), buffer("I", (16,), "int64")
    vi = Var("vi", I64)
    inner = loop("p", 4)
    value = Add(load(a, vi), load(a, Add(vi, i64(2), I64)), prim_type("float32"))
    gather = load(a, load(index, inner[0]))
    block = Block(
        (IterVar(vi, Range(i64(0), i64(16)), "S"),), None, None, (), (), {}, "b", BufferStore(b, value, (vi,))
    )
    assert shown(block_regions(block)[0]) == {"A": [("vi", 3)]}
    block = Block((), None, None, (), (), {}, "b", nest([inner], BufferStore(b, gather, (inner[0],))))
    assert shown(block_regions(block)[0])["A"] == [(0, 64)] and shown(block_regions(block)[1]) == {"B": [(0, 4)]}


def test_lowest_common_ancestor_of_accesses():
    a, t = buffer("A", (4, 4)), buffer("T", (4,))
    i, j, k = loop("i", 4), loop("j", 4), loop("k", 4)
    first = nest([j], BufferStore(t, const(0.0, "float32"), (j[0],)))
    second = nest([k], BufferStore(a, load(t, k[0]), (i[0], k[0])))
    fn = prim_func(seq(AllocBuffer(t), nest([i], seq(first, second))), a)
    outer = next(x for x in collect(fn, For) if x.loop_var is i[0])
    inner = next(x for x in collect(fn, For) if x.loop_var is k[0])
    found = tir.analysis.detect_buffer_access_lca(fn)
    assert found[t] is outer and found[a] is inner


def test_variables():
    fn = matmul()
    n = next(v for v in definitions(fn) if v.name == "n")
    assert defined_symbols(fn) == [n] and tir.analysis.undefined_vars(fn) == [] and n in used_symbols(fn)
    counts = use_counts(fn)
    by_name = {x.name: c for x, c in counts.items() if hasattr(x, "shape")}
    assert by_name["A"] == 2 and by_name["C"] == 4  # loads, stores and declared regions
    loops = collect(fn, For)
    assert definitions(fn)[loops[0].loop_var] is loops[0]
    assert tir.analysis.undefined_vars(loops[0].body) and loops[0].loop_var in tir.analysis.undefined_vars(
        loops[0].body
    )


def test_flops_and_bytes():
    a, t = buffer("A", (4, 8)), buffer("T", (4, 8), scope="shared")
    loops = [loop("i", 4), loop("j", 8)]
    at = (loops[0][0], loops[1][0])
    value = Add(
        Mul(load(a, *at), load(a, *at), prim_type("float32")), intrinsic("exp", load(a, *at)), prim_type("float32")
    )
    fn = prim_func(seq(AllocBuffer(t), nest(loops, BufferStore(t, value, at))), a)
    assert tir.analysis.estimate_tir_flops(fn) == 3 * 32
    assert tir.analysis.calculate_allocated_bytes(fn) == {"shared": 128}
    assert tir.analysis.estimate_tir_flops(matmul(), default_extent=10) == 2 * 10 * 8 * 16
    assert tir.analysis.estimate_tir_flops(IRModule({"f": fn, "g": matmul()}, {}, {}), 10) == 3 * 32 + 2 * 10 * 8 * 16
    n = Var("n", I64)
    divided = nest([loop("i", FloorDiv(i64(8), n, I64))], BufferStore(t, value, (i64(0), i64(0))))
    with pytest.raises(UnityError, match="E717"):
        tir.analysis.estimate_tir_flops(divided, 0)


def test_purity_of_tensor_programs():
    a, t = buffer("A", (4,)), buffer("T", (4,))
    i = loop("i", 4)
    assert not tir.analysis.is_pure_function(matmul())
    assert tir.analysis.is_pure_function(
        prim_func(seq(AllocBuffer(t), nest([i], BufferStore(t, load(a, i[0]), (i[0],)))), a)
    )
    assert not tir.analysis.is_pure_function(prim_func(Evaluate(intrinsic("call_extern", const(1), dtype="int32")), a))
    assert opaque_buffers(Evaluate(intrinsic("address_of", load(a, i64(0))))) == [a]


def test_reshape_is_recognised():
    a, b = buffer("A", (4, 8)), buffer("B", (4, 8))
    loops = [loop("i", 4), loop("j", 8)]
    at = (loops[0][0], loops[1][0])
    assert relax.analysis.has_reshape_pattern(prim_func(nest(loops, BufferStore(b, load(a, *at), at)), a, b))
    assert not relax.analysis.has_reshape_pattern(matmul())


GRAPH = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
        with R.dataflow():
            c = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
            a = R.add(x, x)
            b = R.multiply(a, x)
            R.output(b)
        return b

    @R.function
    def even(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
        y: R.Tensor((2, 2), "float32") = Module.odd(x)
        return y

    @R.function
    def odd(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
        y: R.Tensor((2, 2), "float32") = Module.even(x)
        return y
"""


def test_graph_functions():
    mod = parse(GRAPH)
    assert isinstance(mod, IRModule)
    main = mod["main"]
    bindings = relax.analysis.name_to_binding(main)
    assert [len(v) for v in bindings.values()] == [1] * len(bindings) and {"a", "b", "c"} <= set(bindings)
    x, a, b = main.params[0], bindings["a"][0].var, bindings["b"][0].var
    assert users(main)[x] == [a, b] and users(main)[a] == [b]
    assert var_to_value(main)[a] is bindings["a"][0].value
    assert bindings["c"][0].var in relax.analysis.computable_at_compile_time(
        main
    ) and a not in relax.analysis.computable_at_compile_time(main)
    assert not relax.analysis.contains_impure_call(main)
    assert detect_recursion(mod) == [["even", "odd"]]
    assert call_graph(mod)["even"] == ["odd"] and reachable_functions(mod, ["main"]) == {"main"}
    assert call_graph(matmul_module())["main"] == ["matmul"]


def test_blocks_inside_blocks():
    a, b = buffer("A", (16, 16)), buffer("B", (16, 16))
    oi, ii = Var("oi", I64), Var("ii", I64)
    j, k = loop("j", 4), loop("k", 16)
    inner_k = Var("kk", I64)
    row = Add(Mul(oi, i64(4), I64), ii, I64)
    store = BufferStore(b, load(a, row, inner_k), (row, inner_k))
    four, sixteen = Range(i64(0), i64(4)), Range(i64(0), i64(16))
    inner = Block((IterVar(ii, four, "S"), IterVar(inner_k, sixteen, "S")), None, None, (), (), {}, "inner", store)
    body = nest([j, k], BlockRealize((j[0], k[0]), const(True), inner))
    outer = Block((IterVar(oi, four, "S"),), None, None, (), (), {}, "outer", body)
    reads, _ = block_regions(outer)
    assert [x.extent.value for x in reads[0].region] == [4, 16]


def test_walks_meet_nodes_alone():
    separated = replace(buffer("A", (4, 4)), axis_separators=(1,))  # a field with numbers
    assert all([isinstance(node, Node) for node in nodes_in(separated)])
