# pyright: reportInvalidTypeForm=false
# mypy: disable-error-code="valid-type"
"""The usual signatures, with the two lines that silence type checkers."""

from unity.script import ir as I, relax as R, tir as T


@I.ir_module
class M:
    @T.prim_func
    def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in T.serial(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] + T.float32(1)

    @R.function
    def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
        cls = M
        y: R.Tensor((16,), "float32") = R.call_dps(cls.f, (x,), R.Tensor((16,), "float32"))
        return y
