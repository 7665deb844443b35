"""Compiled once, run on any size; shapes that do not fit are refused before any native code runs; save and load."""

import tempfile
from pathlib import Path

import numpy as np

import unity
from unity.script import ir as I, relax as R


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32"), b: R.Tensor(("m",), "float32")):
        with R.dataflow():
            y = R.nn.softmax(R.add(R.matmul(x, w), b))
            z = R.reshape(y, (n * m,))
            R.output(z)
        return z


print("the result's type follows from the symbols:", Model["main"].ret_ty)
executable = unity.compile(Model)
path = Path(tempfile.mkdtemp()) / "model.unity"
executable.save(path)
print(f"saved: {path.stat().st_size} bytes; {executable.stats()}")

vm = unity.VirtualMachine(unity.load(path))
rng = np.random.default_rng(0)
for n, k, m in [(1, 1, 1), (3, 5, 2), (64, 32, 16)]:
    x, w, b = [rng.standard_normal(shape, dtype=np.float32) for shape in ((n, k), (k, m), (m,))]
    logits = x @ w + b
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    result = np.asarray(vm["main"](x, w, b))
    np.testing.assert_allclose(result, expected.reshape(-1), rtol=2e-4, atol=1e-6)
    print(f"n={n:2} k={k:2} m={m:2}: {result.shape} agrees with numpy")

try:
    vm["main"](np.zeros((2, 3), "float32"), np.zeros((4, 5), "float32"), np.zeros(5, "float32"))
except unity.UnityError as error:
    print(error)
else:
    raise AssertionError("k is 3 and 4 at once")
