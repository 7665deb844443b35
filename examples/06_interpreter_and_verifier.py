"""The judges: a reference interpreter that runs any module with every check, and a verifier that says what is wrong."""

import numpy as np

import unity
from unity.ir.interpret import run
from unity.ir.verifier.verifier import violations
from unity.script import ir as I, parse, relax as R, tir as T


@I.ir_module
class Model:
    @T.prim_func
    def shift(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in T.serial(8):
            B[i] = A[i + 1]

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        return R.call_dps(shift, (x,), R.Tensor((8,), "float32"))


print("---- the interpreter checks every access:")
try:
    run(Model, "main", np.arange(8, dtype="float32"))
except unity.UnityError as error:
    print(error)
    assert error.code == "E310"
else:
    raise AssertionError("A[8] does not exist")

print("\n---- the verifier looks at the program alone:")
broken = parse(
    """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.parallel(8):
        with T.block("sum"):
            vi = T.axis.reduce(8, i)
            with T.init():
                B[0] = T.float32(0)
            B[0] = B[0] + A[vi, vi]
""",
    check=False,
)
problems = violations(broken, 2)
for problem in problems:
    print(problem)
assert [problem.code for problem in problems] == ["E351"]

print("\n---- interpreter and compiled code agree:")
good = parse(str(Model).replace("i + 1", "7 - i"))
x = np.random.default_rng(0).standard_normal(8, dtype=np.float32)
reference = np.asarray(run(good, "main", x))
compiled = np.asarray(unity.VirtualMachine(unity.compile(good))["main"](x))
np.testing.assert_array_equal(reference, compiled)
print(compiled)
