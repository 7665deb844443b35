"""A pass of your own: an operator replaced by a call of a registered function, as a value and as an effect."""

import numpy as np

import unity
from unity.ir import Call, ExternFunc, Function, op, replace, rewrite
from unity.script import ir as I, relax as R
from unity.transform import DEFAULT_PIPELINE, Pipeline, function_pass, to_non_dataflow

seen = []


@unity.register_func("example.gelu")
def gelu(x):
    """My kernel: returns a new tensor."""
    x = np.asarray(x)
    seen.append(x.shape)
    return unity.tensor((0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))).astype(x.dtype))


def calls_of(fn: Function, operator: str, packed: str) -> Function:
    """Calls of ``operator`` become ``packed`` calls of the kernel; the type of the result is said by the program."""

    def change(call: Call) -> Call:
        if call.op is not op(operator):
            return call
        return Call(op(packed), (ExternFunc("example.gelu"), *call.args), {}, (call.ty,), call.ty, call.span)

    return rewrite(fn, {Call: change})


@function_pass()
def gelu_as_value(fn: Function) -> Function:
    """``R.call_pure_packed``: the kernel only computes, so the call may stay in a dataflow block, be shared or dropped."""
    return calls_of(fn, "R.nn.gelu", "R.call_pure_packed")


@function_pass()
def gelu_as_effect(fn: Function) -> Function:
    """``R.call_packed``: the kernel may do more than compute; the function around it is no longer pure."""
    changed = calls_of(to_non_dataflow.on(fn), "R.nn.gelu", "R.call_packed")
    return replace(changed, pure=False)


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            y = R.nn.gelu(x)
            z = R.nn.gelu(x)
            out = R.add(y, z)
            R.output(out)
        return out


x = np.linspace(-2, 2, 24, dtype="float32").reshape(3, 8)
expected = np.asarray(unity.VirtualMachine(unity.compile(Model))["main"](x))
for step, count in ((gelu_as_value, 1), (gelu_as_effect, 2)):  # equal values are computed once, effects all happen
    print(step(Model))
    executable = unity.compile(Model, pipeline=Pipeline((step, *DEFAULT_PIPELINE)))
    result = np.asarray(unity.VirtualMachine(executable)["main"](x))
    np.testing.assert_allclose(result, expected, atol=2e-3)
    assert len(seen) == count, seen
    seen.clear()
print("both modules call the kernel; the results agree with R.nn.gelu")
