"""Programs that differ in one number become one; those that differ in more, that are called otherwise or scheduled stay."""

import numpy as np

import unity
from unity.ir.interpret import run
from unity.ir.verifier.verifier import verify
from unity.script import parse
from unity.transform.relax.fusion.merge_families import FAMILY, merge_families

STEPS = range(3, 3 + FAMILY)


def program(name, rows, columns, begin, annotated=False, kind="float32"):
    loop = 'T.serial({0}, annotations={{"x": {0}}})' if annotated else "range({})"
    return f"""
    @T.prim_func(private=True)
    def {name}(x: T.Buffer(({rows + 1}, {columns}), "{kind}"), y: T.Buffer(({rows}, {columns}), "{kind}")):
        for i in {loop.format(rows)}:
            for j in range({columns}):
                with T.block("b"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi + 1, vj] + T.{kind}({begin})
"""


def module(*programs, sizes=STEPS, kind="float32", columns=5, tail="z"):
    params = ", ".join([f'x{n}: R.Tensor(({n + 1}, {columns}), "{kind}")' for n in sizes])
    calls = "".join(
        [f'        y{n} = R.call_dps(p{n}, (x{n},), R.Tensor(({n}, {columns}), "{kind}"))\n' for n in sizes]
    )
    results = ", ".join([f"y{n}" for n in sizes])
    main = f"\n    @R.function\n    def main({params}):\n{calls}        z = R.concat(({results}), axis=0)\n        return {tail}\n"
    return parse("@I.ir_module\nclass M:" + main + "".join(programs))


def arguments(sizes=STEPS, kind="float32"):
    return [np.random.default_rng(n).normal(size=(n + 1, 5)).astype(kind) * 9 for n in sizes]


def test_programs_that_differ_in_one_number_are_one():
    mod = module(*[program(f"p{n}", n, 5, 1) for n in STEPS])
    made = merge_families(mod)
    verify(made)
    assert list(made.prim_funcs()) == ["p3"]
    assert "tir_vars=R.shape([7])" in made.script()
    assert parse(made.script()).script() == made.script()
    expected = run(mod, "main", *arguments())
    np.testing.assert_array_equal(run(made, "main", *arguments()), expected)
    np.testing.assert_array_equal(unity.compile(mod)["main"](*arguments()).numpy(), expected)


def test_a_number_in_the_values_counts_too():
    mod = module(*[program(f"p{n}", n, 5, 7 * n, kind="int64") for n in STEPS], kind="int64")
    made = merge_families(mod)
    assert len(made.prim_funcs()) == 1
    expected = run(mod, "main", *arguments(kind="int64"))
    np.testing.assert_array_equal(run(made, "main", *arguments(kind="int64")), expected)


def test_one_that_differs_otherwise_is_left_out():
    others = [program(f"p{n}", n, 5, 7, kind="int64") for n in STEPS]
    mod = module(*others, program("p60", 60, 5, 8, kind="int64"), sizes=[*STEPS, 60], kind="int64")
    assert list(merge_families(mod).prim_funcs()) == ["p3", "p60"]


def test_what_stays():
    few = module(*[program(f"p{n}", n, 5, 1) for n in STEPS[1:]], sizes=STEPS[1:])
    assert merge_families(few) is few
    two_ways = module(*[program(f"p{n}", n, 5, n * n, kind="int64") for n in STEPS], kind="int64")
    assert merge_families(two_ways) is two_ways
    floats = module(*[program(f"p{n}", n, 5, n) for n in STEPS])
    assert merge_families(floats) is floats
    noted = module(*[program(f"p{n}", n, 5, 1, annotated=True) for n in STEPS])
    assert merge_families(noted) is noted


def test_programs_that_a_rule_schedules_stay():
    product = """
    @T.prim_func(private=True)
    def p{0}(x: T.Buffer(({1}, 64), "float32"), y: T.Buffer(({0}, 64), "float32")):
        for i, j, k in T.grid({0}, 64, 64):
            with T.block("b"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vk] * x[vk, vj]
"""
    sizes = range(64, 64 + FAMILY)
    mod = module(*[product.format(n, n + 1) for n in sizes], sizes=sizes, columns=64)
    assert merge_families(mod) is mod


def test_a_program_used_otherwise_stays():
    sizes = range(3, 4 + FAMILY)
    mod = module(*[program(f"p{n}", n, 5, 1) for n in sizes], sizes=sizes, tail="(z, p4)")
    assert list(merge_families(mod).prim_funcs()) == ["p3", "p4"]
