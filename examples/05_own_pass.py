"""A pass of your own: an operator replaced by a call of a kernel you registered, put into the pipeline."""

import numpy as np

import unity
from unity.ir import Call, ExternFunc, Function, Tuple, op, rewrite
from unity.ir.verifier.verifier import is_well_formed
from unity.script import ir as I, relax as R
from unity.transform.infra.passes import Pipeline, function_pass
from unity.transform.relax.pipeline import DEFAULT_PIPELINE

calls = 0


@unity.register_func("example.fast_relu")
def fast_relu(x, out):
    global calls
    calls += 1
    np.maximum(np.asarray(x), 0, out=np.asarray(out))


@function_pass()
def relu_by_kernel(func: Function) -> Function:
    """Call example.fast_relu instead of R.nn.relu."""

    def replace(call: Call) -> Call:
        if call.op is not op("R.nn.relu"):
            return call
        return Call(
            op("R.call_dps"), (ExternFunc("example.fast_relu"), Tuple(call.args)), {}, (call.ty,), call.ty, call.span
        )

    return rewrite(func, {Call: replace})


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            y = R.exp(R.nn.relu(R.negative(x)))
            R.output(y)
        return y


after = relu_by_kernel(Model)
print(after)
assert "R.nn.relu" not in str(after) and is_well_formed(after)

pipeline = Pipeline((relu_by_kernel, *DEFAULT_PIPELINE))
print("pipeline:", pipeline)
vm = unity.VirtualMachine(unity.compile(Model, pipeline=pipeline))
x = np.arange(-4, 4, dtype="float32").reshape(2, 4)
np.testing.assert_allclose(np.asarray(vm["main"](x)), np.exp(np.maximum(-x, 0)), rtol=1e-6)
assert calls == 1
print("the kernel was called once, the result agrees with numpy")
