"""``script(costs=True)``: work of tensor programs as comments that do not change what is read back."""

from unity.ir.structural import structural_equal
from unity.script import parse

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def mm(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (16, 8), "float32")
        C = T.match_buffer(c, (n, 8), "float32")
        for i, j, k in T.grid(n, 8, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_costs_are_comments():
    mod = parse(TEXT)
    text = mod.script(costs=True)
    assert "# operations: n * 256" in text
    assert "# bytes written: n * 32" in text
    assert "#" not in mod.script()
    again = parse(text)
    assert structural_equal(mod, again)
    assert again.script() == mod.script()


def test_costs_of_constant_sizes():
    fn = parse(
        TEXT.replace("n = T.int64()\n", "n = 4\n")
        .replace("(n, 16)", "(4, 16)")
        .replace("(n, 8)", "(4, 8)")
        .replace("grid(n,", "grid(4,")
        .replace("        n = 4\n", "")
    )["mm"]
    assert "operations: 1024" in fn.script(costs=True) or "operations: T.int64(1024)" in fn.script(costs=True)


def test_calls_of_operators_say_their_work_in_the_symbols_of_the_function():
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", 32), "float32"), s: R.Shape(ndim=2)):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            y = R.matmul(x, w)
            f = R.flatten(x)
            g = R.concat((f, f))
            q = R.reshape(y, s)
            R.output(g, q)
        return (g, q)
""")
    text = mod.script(costs=True)
    works = [line.strip() for line in text.splitlines() if line.strip().startswith("#")]
    assert works[:3] == [
        "# operations: n * m * 64",
        "# bytes read: n * m * 4 + m * 128 + n * 128",
        "# bytes written: n * 128",
    ], works
    assert "# bytes written: n * m * 8" in works and len(works) % 3 == 0
    assert "        q: " in text.split("n * m * 8\n")[1]  # a reshape to a shape that nobody knows says nothing
    assert structural_equal(parse(text), mod)
