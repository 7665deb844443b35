"""Functions of your own in a module: one that writes into memory it is given, one that returns a value, one with effects."""

import numpy as np

import unity
from unity.script import ir as I, relax as R, tir as T

seen = []


@unity.register_func("example.softsign")
def softsign(x, out):  # called through R.call_dps: the result is the last argument, zero-copy
    x, out = np.asarray(x), np.asarray(out)
    np.divide(x, 1 + np.abs(x), out=out)


@unity.register_func("example.top")
def top(x):  # called through R.call_pure_packed: returns a new tensor
    return unity.tensor(np.asarray(x).max(axis=1))


@unity.register_func("example.log")
def log(x, count):  # called through R.call_packed: an effect, between other calls in the order written
    seen.append((x.shape, count))


@I.ir_module
class Model:
    @R.function(pure=False)
    def main(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            y = R.call_dps("example.softsign", (x,), R.Tensor((n, m), "float32"))
            best = R.call_pure_packed("example.top", y, ty_args=(R.Tensor((n,), "float32"),))
            R.output(y, best)
        R.call_packed("example.log", y, n * m)
        return best


vm = unity.VirtualMachine(unity.compile(Model))
x = np.linspace(-4, 4, 12, dtype="float32").reshape(3, 4)
best = np.asarray(vm["main"](x))
np.testing.assert_allclose(best, (x / (1 + abs(x))).max(axis=1), rtol=1e-6)
assert seen == [((3, 4), 12)]
print("largest of each row after softsign:", best)
print("the log function saw:", seen)
print("it is an ordinary function, too:", np.asarray(unity.get_global_func("example.top")(unity.tensor(x))))
