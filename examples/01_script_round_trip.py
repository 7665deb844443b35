"""Script as text: read it, print it, upgrade old spellings, see every error with its place. Nothing in it is executed."""

import unity
from unity.script import parse
from unity.script.upgrade import upgrade
from unity.support.errors import ScriptError

OLD = """
@tvm.script.ir_module
class Model:
    @T.prim_func
    def scale(A: T.Buffer[(8,), "float32"], B: T.Buffer[(8,), "float32"]):
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.S(8, i)
                B[vi] = A[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        y = R.call_tir(scale, [x], (8,), dtype="float32")
        return y
"""

mod = parse(OLD)
print("---- printed in one form:")
print(mod)
assert unity.ir.structural_equal(parse(str(mod)), mod), "what is printed reads back to the same module"

print("\n---- the source file upgraded, layout and comments kept:")
print(upgrade(OLD).strip())
assert unity.ir.structural_equal(parse(upgrade(OLD)), mod)

print("\n---- for TVM 0.27:")
print(mod.script(dialect="tvm").splitlines()[-2].strip())

print("\n---- all errors of a text at once:")
try:
    parse(
        '@R.function\ndef f(x: R.Tensor((4,), "float32")):\n    y = R.relu(x)\n    import os\n    return R.add(x, z)\n'
    )
except ScriptError as error:
    print(error)
    assert [one.code for one in error.errors] == ["E111", "E107", "E110"]
