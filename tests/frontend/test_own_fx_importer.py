"""An importer of one's own in a page: torch.fx nodes to bindings by a table of functions, with tensor expressions behind them."""

import numpy as np
import pytest

import unity
from unity import relax, te, topi

torch = pytest.importorskip("torch")


def from_fx(graph, input_shapes, call_function, call_module):
    """Module of a traced graph; the tables say what functions and modules become."""
    named, values = dict(graph.named_modules()), {}
    bb = unity.BlockBuilder()
    inputs = [relax.Var(f"input{i}", shape, "float32") for i, shape in enumerate(input_shapes)]
    rest = iter(inputs)
    with bb.function("main", inputs):
        with bb.dataflow():
            for node in graph.graph.nodes:
                if node.op == "placeholder":
                    values[node] = next(rest)
                elif node.op == "call_function":
                    values[node] = call_function[node.target](bb, *[values.get(a, a) for a in node.args])
                elif node.op == "call_module":
                    module = named[node.target]
                    values[node] = call_module[type(module)](bb, module, *[values[a] for a in node.args])
                elif node.op == "get_attr":
                    values[node] = param(getattr(graph, node.target))
                elif node.op == "output":
                    out = bb.emit_output(values[node.args[0]])
        bb.emit_func_output(out)
    return bb.get()


def param(value):
    return relax.const(value.detach().numpy())


def linear(bb, module, x):
    return bb.emit_te(topi.nn.dense, x, param(module.weight), param(module.bias))


CALL_FUNCTION = {
    torch.relu: lambda bb, x: bb.emit_te(topi.nn.relu, x),
    torch.matmul: lambda bb, x, y: bb.emit_te(topi.matmul, x, y),
    torch.flatten: lambda bb, x, start: bb.emit(relax.op.reshape(x, (x.ty.shape.values[0], -1))),
    torch.add: lambda bb, x, y: bb.emit_te(topi.add, x, y),
}
CALL_MODULE = {
    torch.nn.Linear: linear,
    torch.nn.ReLU: lambda bb, module, x: bb.emit_te(topi.nn.relu, x),
    torch.nn.Conv2d: lambda bb, m, x: bb.emit_te(
        topi.add, bb.emit_te(topi.nn.conv2d, x, param(m.weight), strides=m.stride, padding=m.padding),
        relax.const(m.bias.detach().numpy().reshape(1, -1, 1, 1))),
}  # fmt: skip


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3, padding=1)
        self.linear0, self.linear1 = torch.nn.Linear(3 * 36, 8), torch.nn.Linear(8, 4)
        self.relu = torch.nn.ReLU()
        self.scale = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        h = torch.flatten(self.relu(self.conv(x)), 1)
        return torch.matmul(self.linear1(torch.relu(self.linear0(h))), self.scale)


@pytest.mark.parametrize("batch", [1, 3])
def test_own_importer(batch):
    torch.manual_seed(0)
    model = Net().eval()
    n = te.var("n")
    mod = from_fx(torch.fx.symbolic_trace(model), [(n, 2, 6, 6)], CALL_FUNCTION, CALL_MODULE)
    assert "n" in str(mod["main"].params[0].ty)
    x = torch.randn(batch, 2, 6, 6)
    actual = np.asarray(unity.VirtualMachine(unity.compile(mod))["main"](x.numpy()))
    np.testing.assert_allclose(actual, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
