"""A pass of your own: matrix product, bias and relu become one private function, which the pipeline makes one kernel."""

import numpy as np

import unity
from unity import relax
from unity.ir import Call, Function, GlobalVar, IRModule, TensorType, op
from unity.ir.analysis import use_counts, var_to_value
from unity.script import ir as I, relax as R
from unity.transform import DEFAULT_PIPELINE, CheckInstrument, PassContext, Pipeline, dead_code, module_pass
from unity.transform.relax.rewriting.graph_rewriter import GraphRewriter


def fused_function(types: list[TensorType]) -> Function:
    """``relu(x @ w + b)`` as a function marked for fusion."""
    x, w, b = [relax.Var(name, ty) for name, ty in zip("xwb", types)]
    bb = relax.BlockBuilder()
    with bb.function("fused", [x, w, b], attrs={"Primitive": True}, private=True), bb.dataflow():
        product = bb.emit(relax.op.matmul(x, w))
        shifted = bb.emit(relax.op.add(product, b))
        bb.emit_func_output(bb.emit_output(relax.op.nn.relu(shifted)))
    return bb.get()["fused"]


@module_pass()
def fuse_dense_bias_relu(mod: IRModule) -> IRModule:
    """Group ``relu(add(matmul(x, w), b))`` where nothing else uses the values between."""
    added: dict[str, Function] = {}

    def fuse(fn: Function) -> Function:
        value_of, uses = var_to_value(fn), use_counts(fn)

        def inner(var, name):
            """The call of an operator behind a variable that is used once."""
            value = value_of.get(var)
            return value if uses.get(var) == 1 and getattr(value, "op", None) is op(name) else None

        def rule(value, rewriter):
            if getattr(value, "op", None) is not op("R.nn.relu"):
                return value
            shifted = inner(value.args[0], "R.add")
            product = inner(shifted.args[0], "R.matmul") if shifted is not None else None
            if product is None:
                return value
            operands = (*product.args, shifted.args[1])
            fused = fused_function([operand.ty for operand in operands])
            name = mod.fresh_name(f"fused_dense_bias_relu{len(added)}")
            added[name] = fused
            return Call(GlobalVar(name, fused.ty), operands, {}, (), value.ty, value.span)

        return GraphRewriter(rule).function(fn)

    changed = {name: fuse(fn) for name, fn in mod.graph_functions().items()}
    return dead_code.apply(mod.with_functions({**changed, **added})) if added else mod


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32"), w: R.Tensor((64, 32), "float32"), b: R.Tensor((32,), "float32"),
             v: R.Tensor((32, 10), "float32"), c: R.Tensor((10,), "float32")):  # fmt: skip
        with R.dataflow():
            hidden = R.nn.relu(R.add(R.matmul(x, w), b))
            out = R.add(R.matmul(hidden, v), c)
            R.output(out)
        return out


fused = fuse_dense_bias_relu(Model)
print(fused)
assert list(fused.functions) == ["main", "fused_dense_bias_relu0"]

rng = np.random.default_rng(0)
x, w, b, v, c = [rng.standard_normal(s, dtype=np.float32) for s in ((5, 64), (64, 32), (32,), (32, 10), (10,))]
with PassContext(CheckInstrument()):  # every pass is checked: before and after give the same results
    executable = unity.compile(Model, pipeline=Pipeline((fuse_dense_bias_relu, *DEFAULT_PIPELINE)))
result = np.asarray(unity.VirtualMachine(executable)["main"](x, w, b, v, c))
np.testing.assert_allclose(result, np.maximum(x @ w + b, 0) @ v + c, rtol=1e-4, atol=1e-4)
kernels = [line for line in executable.as_text().splitlines() if "kernel" in line]
print("\n".join(kernels))
assert any(["fused_dense_bias_relu0" in line for line in kernels])
print("one kernel computes the first layer; the result agrees with numpy")
