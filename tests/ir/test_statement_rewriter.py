"""Rewriting statements alone: expressions stay, and nothing in them is looked at."""

from cases import GOLDEN, as_module, read_cases

from unity.ir.build import add
from unity.ir.expr import IntImm
from unity.ir.node import replace
from unity.ir.scalar import BufferLoad
from unity.ir.stmt import Block, BufferStore, For, Stmt
from unity.ir.structural import structural_equal
from unity.ir.types import Expr
from unity.ir.walk import Rewriter, StatementRewriter, collect, nodes_in, rewrite, statements_in, walked_statement
from unity.script import parse

PROGRAM = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (n, 8), "float32")
    for i, j in T.grid(n, 8):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            if vj < 4:
                B[vi, vj] = T.exp(A[vi, vj] * T.float32(2) + T.float32(1))
            else:
                B[vi, vj] = T.if_then_else(vi < 3, A[vi, vj], T.float32(0))
"""


class Seen(StatementRewriter):
    """Notes what it enters."""

    def __init__(self, rules):
        super().__init__(rules)
        self.kinds = []

    def enter(self, node):
        self.kinds.append(type(node))
        return super().enter(node)


def test_no_expression_is_entered():
    func = parse(PROGRAM)
    seen = Seen({})
    assert seen(func) is func
    assert seen.kinds.count(For) == 2 and BufferStore in seen.kinds
    assert not [kind for kind in seen.kinds if issubclass(kind, Expr)]


def test_rules_of_statements_give_what_the_whole_walk_gives():
    func = parse(PROGRAM)
    rules = {Block: lambda b: replace(b, name="other"), For: lambda f: replace(f, extent=add(f.extent, 1))}
    made = rewrite(func, rules)
    assert structural_equal(made, Rewriter(rules)(func)) and not structural_equal(made, func)
    stores, before = [collect(f, BufferStore) for f in (made, func)]
    assert [a.value for a in stores] == [b.value for b in before]


def test_one_rule_of_expressions_enters_them():
    func = parse(PROGRAM)
    made = rewrite(func, {For: lambda f: f, BufferLoad: lambda load: replace(load, indices=load.indices[::-1])})
    first, *_ = collect(made.body, BufferLoad)
    assert first.indices[0].name == "vj" and not isinstance(first.indices[1], IntImm)


def test_what_was_collected_is_the_caller_s_own() -> None:
    """A statement is walked once for several questions: a list that a caller changes changes no later answer."""
    body = parse(PROGRAM).body
    first = collect(body, BufferLoad)
    first.clear()
    assert len(collect(body, BufferLoad)) == 2
    changed = rewrite(body, {BufferStore: lambda store: replace(store, value=IntImm(0, store.value.ty))})
    assert collect(changed, BufferLoad) == []
    walked_statement.cache_clear()
    assert len(collect(body, BufferLoad)) == 2


def test_statements_are_those_among_all_nodes() -> None:
    """In the same order, with no look into expressions: programs before and after blocks, vectors and attributes."""
    kinds = set()
    for name in ("lowering", "lanes"):
        for case in read_cases(GOLDEN / "tir" / f"{name}.case"):
            for text in filter(None, (case.before, case.after)):
                for func in as_module(parse(text)).prim_funcs().values():
                    among = [node for node in nodes_in(func.body) if isinstance(node, (Stmt, Block))]
                    found = [node for node in statements_in(func.body) if isinstance(node, (Stmt, Block))]
                    assert [id(node) for node in found] == [id(node) for node in among]
                    kinds |= {type(node).__name__ for node in found}
    assert {"Block", "BlockRealize", "For", "BufferStore", "SeqStmt", "AttrStmt", "IfThenElse"} <= kinds
