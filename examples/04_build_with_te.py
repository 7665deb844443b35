"""A module without script: a tensor program from tensor expressions, a graph function from the block builder."""

import numpy as np

import unity
from unity import op, te
from unity.ir import BlockBuilder, Tuple, Var, prim_type
from unity.ir.build import const
from unity.ir.relation import tensor_type

n = Var("n", prim_type("int64"))
a = te.placeholder((n, 16), "float32", "a")
k = te.reduce_axis((0, 16), "k")
norm = te.compute((n,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), "norm")
unit = te.compute((n, 16), lambda i, j: a[i, j] * te.rsqrt(norm[i]), "unit")
normalize = te.create_prim_func([a, unit])

rows = Var("rows", prim_type("int64"))
rows_by_16 = tensor_type([rows, const(16, "int64")], "float32")
x = Var("x", rows_by_16)
builder = BlockBuilder()
kernel = builder.add_func(normalize, "normalize")
with builder.function("main", [x]):
    with builder.dataflow():
        y = builder.emit(op.call_dps(kernel, Tuple((x,)), ty_args=(rows_by_16,)))
        z = builder.emit_output(op.matmul(y, op.permute_dims(y)))
    builder.emit_func_output(z)
mod = builder.get()
print(unity.script.script(mod))

vm = unity.VirtualMachine(unity.compile(mod))
data = np.random.default_rng(0).standard_normal((5, 16), dtype=np.float32)
expected = data / np.sqrt((data * data).sum(axis=1, keepdims=True))
np.testing.assert_allclose(np.asarray(vm["main"](data)), expected @ expected.T, rtol=1e-4, atol=1e-5)
print("agrees with numpy")
