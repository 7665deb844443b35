"""out=: results computed in tensors that the caller gives, in both modes; what does not fit is refused before anything is written."""

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.support.errors import VMError
from unity.vm.out_calls import with_outputs

W = np.random.default_rng(0).standard_normal((8, 5)).astype("float32")
SCRIPT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(y)
            u = R.sum(z, axis=[1])
            g = (z, u, x)
            R.output(g)
        return g

    @R.function
    def single(x: R.Tensor(("n", 8), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y

    @R.function
    def same(x: R.Tensor(("n", 8), "float32")):
        return x

    @R.function
    def chosen(x: R.Tensor(("n",), "float32")):
        y = R.nonzero(x)
        return y

    @R.function
    def shape(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        return R.shape([n, 2])
"""


@pytest.fixture(scope="module")
def executable():
    return unity.compile(parse(SCRIPT, scope={"w": W}))


@pytest.fixture(params=["native", "bytecode"])
def vm(executable, request):
    return unity.VirtualMachine(executable, exec_mode=request.param)


def outputs(n):
    return np.full((n, 5), 7, "float32"), np.full(n, 7, "float32"), np.full((n, 8), 7, "float32")


@pytest.mark.parametrize("n", [0, 1, 6])
def test_results_are_in_the_given_tensors(vm, n):
    x = np.random.default_rng(1).standard_normal((n, 8)).astype("float32")
    given = outputs(n)
    made = vm["main"](x, out=given)
    assert all([a is b for a, b in zip(made, given)])
    for a, b in zip(given, vm["main"](x)):
        np.testing.assert_array_equal(a, b.numpy())


def test_what_the_function_allocates_is_computed_in_place(executable):
    plan = with_outputs(executable.program, "main")
    assert not plan.single and plan.direct == (0, 1, None)  # the third result is the input
    fn = plan.program.functions["main"]
    assert [name for name, _ in fn.params] == ["x", "out[0]", "out[1]"]
    assert "new_tensor" not in unity.vm.executable.bytecode.function_text(fn, plan.program)
    assert with_outputs(executable.program, "single").direct == (0,)
    assert with_outputs(executable.program, "same").direct == (None,)
    assert executable.program.functions["main"].params[1:] == ()  # plain calls are as they were


def test_an_input_as_output(vm):
    x = np.arange(16, dtype="float32").reshape(2, 8)
    vm["single"](x, out=x)
    np.testing.assert_array_equal(x, 2 * np.arange(16).reshape(2, 8))
    buffer = np.arange(24, dtype="float32")
    vm["single"](buffer[:16].reshape(2, 8), out=buffer[8:].reshape(2, 8))
    np.testing.assert_array_equal(buffer[8:], 2 * np.arange(16))


def test_aliases_and_sizes_known_later_are_copied(vm):
    x, y = np.ones((3, 8), "float32"), np.zeros((3, 8), "float32")
    assert vm["same"](x, out=y) is y and (y == 1).all()
    places = np.zeros((1, 2), "int64")
    vm["chosen"](np.array([0, 1, 0, 2], "float32"), out=places)
    assert places.tolist() == [[1, 3]]
    with pytest.raises(VMError, match="E606"):
        vm["chosen"](np.array([1, 1, 0, 2], "float32"), out=places)


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda z, u, c: (z, u), "E982"),
        (lambda z, u, c: z, "E982"),
        (lambda z, u, c: (z[:3], u, c), "E607"),
        (lambda z, u, c: (z.astype("float64"), u, c), "E604"),
        (lambda z, u, c: (z.reshape(-1), u, c), "E605"),
        (lambda z, u, c: (np.asfortranarray(z), u, c), "E609"),
        (lambda z, u, c: (np.broadcast_to(z[0], (6, 5)), u, c), "E609"),
        (lambda z, u, c: (read_only(z), u, c), "E610"),
        (lambda z, u, c: (z, u, read_only(c)), "E610"),
        (lambda z, u, c: (z, z.reshape(-1)[:6], c), "E982"),
        (lambda z, u, c: (z, u, 3), "E982"),
        (lambda z, u, c: (z, u, c.astype("int32")), "E604"),
    ],
)
def test_what_does_not_fit_is_refused(vm, change, code):
    given = outputs(6)
    with pytest.raises(VMError, match=code):
        vm["main"](np.zeros((6, 8), "float32"), out=change(*given))


def test_none_makes_a_result_anew(vm):
    x = np.ones((6, 8), "float32")
    _, u, _ = outputs(6)
    z, same, _ = vm["main"](x, out=(None, u, None))
    assert same is u
    np.testing.assert_array_equal(z.numpy(), vm["main"](x)[0].numpy())
    np.testing.assert_array_equal(u, vm["main"](x)[1].numpy())
    assert vm["single"](x, out=None).shape == (6, 8)


def test_results_that_are_no_tensors(vm):
    with pytest.raises(VMError, match="E983"):
        vm["shape"](np.zeros(3, "float32"), out=np.zeros(2))


def test_a_saved_file(executable, tmp_path):
    executable.save(tmp_path / "m")
    x, y = np.ones((2, 8), "float32"), np.zeros((2, 8), "float32")
    unity.load(tmp_path / "m")["single"](x, out=y)
    assert (y == 2).all()


def test_a_parameter_called_out():
    mod = parse(
        """
@R.function
def main(x: R.Tensor((2,), "float32"), out: R.Tensor((2,), "float32")):
    with R.dataflow():
        y = R.subtract(x, out)
        R.output(y)
    return y
"""
    )
    f = unity.compile(mod)["main"]
    assert f(np.array([3, 4], "float32"), out=np.array([1, 1], "float32")).numpy().tolist() == [2, 3]


def test_torch():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(8, 4).eval()
    x, y = torch.randn(3, 8), torch.zeros(3, 4)
    f = unity.compile(model, example_inputs=(x,))
    assert f(x, out=y) is y and torch.equal(y, f(x))
    with pytest.raises(VMError, match="E606"):
        f(x, out=torch.zeros(2, 4))
    with pytest.raises(VMError, match="E982"):
        f(x, out=(y, y))
