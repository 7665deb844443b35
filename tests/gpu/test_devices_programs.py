"""Programs on a device whose memory is its own, in the native driver and in the interpreter: a toy whose kernels are numpy."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import toy_device

import unity
from unity import Tensor, UnityError, VirtualMachine, runtime, tensor
from unity.script import parse

TOY = unity.device("apart", 1)
MODES = ("native", "bytecode")
X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


@pytest.fixture(params=MODES)
def machine(request):
    """Makes a machine of a script on the toy."""
    return lambda text: VirtualMachine(unity.compile(parse(text), target="apart"), TOY, exec_mode=request.param)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Memory that a test took is given back; what was there before it need not be looked at for that."""
    gc.freeze()
    before = sum(toy_device.BLOCKS.values())
    yield
    gc.collect()
    assert sum(toy_device.BLOCKS.values()) == before


def code_of(call):
    with pytest.raises(UnityError) as caught:
        call()
    return caught.value.code


CHAIN = """
@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
    a = R.nn.relu(R.matmul(x, w))
    b = R.add(R.exp(R.negative(a)), R.const([1.0, 2.0, 3.0, 4.0], "float32"))
    return R.multiply(R.sum(b, axis=1, keepdims=True), b)
"""


def chain(x, w):
    b = np.exp(-np.maximum(x @ w, 0)) + np.array([1, 2, 3, 4], np.float32)
    return b.sum(1, keepdims=True) * b


def test_a_chain(machine):
    vm = machine(CHAIN)
    assert vm.device is TOY
    w = np.eye(4, dtype=np.float32) * 2
    for n in (3, 1, 7, 0, 5):
        x = np.linspace(-1, 1, n * 4, dtype=np.float32).reshape(n, 4)
        there = tensor(x, device=TOY)
        for given in (x, there):
            y = vm["main"](given, tensor(w, device=TOY))
            assert type(y) is Tensor and y.device is TOY
            np.testing.assert_allclose(y.numpy(), chain(x, w), rtol=1e-6)
    kept = vm["main"](X, w)
    vm["main"](X * 0, w)
    np.testing.assert_allclose(kept.numpy(), chain(X, w), rtol=1e-6)


def test_arrays_are_copied_once_and_results_stay(machine):
    vm = machine(CHAIN)
    w = tensor(np.eye(4, dtype=np.float32), device=TOY)
    there = tensor(X, device=TOY)
    vm["main"](there, w)
    before = dict(toy_device.COUNTS)
    y = vm["main"](there, w)
    assert before == toy_device.COUNTS, "nothing is copied where all lies on the device"
    vm["main"](X, w)
    assert toy_device.COUNTS["to_device"] == before["to_device"] + 1
    y.numpy()
    assert toy_device.COUNTS["to_host"] == before["to_host"] + 1


def test_wrong_arguments(machine):
    vm = machine(CHAIN)
    w = tensor(np.eye(4, dtype=np.float32), device=TOY)
    with pytest.raises(UnityError, match="expected a tensor on apart:1, got one on cpu:0") as caught:
        vm["main"](tensor(X), w)
    assert caught.value.code == "E612" and "unity.tensor(x, device=" in caught.value.help
    with pytest.raises(UnityError, match="expected a tensor on apart:1, got one on apart:0"):
        vm["main"](tensor(X, device="apart:0"), w)
    assert code_of(lambda: vm["main"](X.astype("float64"), w)) == "E604"
    assert code_of(lambda: vm["main"](X.T, w)) == "E606"
    assert code_of(lambda: vm["main"](tensor(X, device=TOY)[:, ::-1], w)) == "E609"
    assert code_of(lambda: vm["main"]([[1.0]], w)) == "E603"
    assert code_of(lambda: vm["main"](X)) == "E602"
    torch = pytest.importorskip("torch")
    assert code_of(lambda: vm["main"](torch.zeros(3, 4), w)) == "E612"


def test_machines_of_the_right_device():
    ex = unity.compile(parse(CHAIN), target="apart")
    assert (
        VirtualMachine(ex).device is unity.device("apart", 0) and VirtualMachine(ex, [TOY, unity.cpu()]).device is TOY
    )
    with pytest.raises(UnityError, match="compiled for apart, it does not run on cpu:0") as caught:
        VirtualMachine(ex, unity.cpu())
    assert caught.value.code == "E612"
    host = unity.compile(parse(CHAIN))
    with pytest.raises(UnityError, match="runs on cpu:0, not on apart:1") as caught:
        VirtualMachine(host, TOY)
    assert caught.value.code == "E612" and 'target="apart"' in caught.value.help


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("inner, outer", [("apart", "llvm"), ("llvm", "apart")])
def test_one_module_for_both_memories(mode, inner, outer):
    text = """
@I.ir_module
class M:
    @T.prim_func
    def triple(x: T.handle, y: T.handle):
        T.func_attr({"target": T.target("INNER")})
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            with T.block("b"):
                v = T.axis.spatial(n, i)
                Y[v] = X[v] * T.float32(3)

    @T.prim_func
    def scale(X: T.Buffer((4,), "float32"), Y: T.Buffer((4,), "float32"), k: T.float32):
        T.func_attr({"target": T.target("INNER")})
        for i in range(4):
            with T.block("b"):
                v = T.axis.spatial(4, i)
                Y[v] = X[v] * k

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        a = R.to_vdevice(R.exp(x), "llvm:0")
        y = R.call_tir(cls.triple, (a,), out_sinfo=R.Tensor((n,), "float32"))
        return R.negative(R.hint_on_device(y, DEVICE))
"""
    device = '"cpu"' if outer == "llvm" else 'R.device("apart", 0)'
    made = unity.compile(parse(text.replace("INNER", inner).replace("DEVICE", device)), target=outer)
    vm = VirtualMachine(made, exec_mode=mode)
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    y = vm["main"](x)
    assert y.device is vm.device is (unity.cpu() if outer == "llvm" else unity.device("apart", 0))
    np.testing.assert_allclose(y.numpy(), -3 * np.exp(x), rtol=1e-6)
    assert vm["main"](np.zeros(0, np.float32)).shape == (0,)
    out = runtime.empty((4,), "float32", vm.device)
    vm["scale"](np.arange(4, dtype=np.float32), out, 2.5)
    assert out.numpy().tolist() == [0, 2.5, 5, 7.5]


def test_conditions_and_loops(machine):
    vm = machine("""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), positive: R.Tensor((), "bool")):
        if positive:
            y = R.exp(x)
        else:
            y = R.negative(x)
        return y

    @R.function
    def down(i: R.Tensor((), "int64"), x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        c = R.less(i, R.const(1, "int64"))
        if c:
            r = x
        else:
            r = cls.down(R.subtract(i, R.const(1, "int64")), R.add(x, x))
        return r
""")
    assert np.allclose(vm["main"](X, np.array(True)).numpy(), np.exp(X))
    assert (vm["main"](X, tensor(False, device=TOY)).numpy() == -X).all()
    assert (vm["down"](np.array(5), X).numpy() == X * 32).all()


def test_tuples_shapes_and_views(machine):
    vm = machine("""
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), s: R.Shape(["n", "m"])):
    n = T.int64()
    m = T.int64()
    y = R.reshape(x, R.shape([n * m]))
    t = (y, (R.exp(x), x), R.shape_of(y), R.shape([n + 1]))
    return t
""")
    x = tensor(X, device=TOY)
    y, (e, same), shape, more = vm["main"](x, (3, 4))
    assert (
        y.device is e.device is same.device is TOY
        and (y.numpy() == X.reshape(-1)).all()
        and np.allclose(e.numpy(), np.exp(X))
    )
    assert same.data_ptr == x.data_ptr and tuple(shape) == (12,) and tuple(more) == (4,)
    del same, x


def test_results_whose_size_the_host_learns(machine):
    vm = machine("""
@R.function
def main(x: R.Tensor(("n",), "float32"), k: R.Tensor((2,), "int64")):
    a = R.nonzero(x)
    b = R.unique(x)
    s = R.tensor_to_shape(k)
    p = T.int64()
    q = T.int64()
    t = R.match_cast(s, R.Shape([p, q]))
    c = R.reshape(x, R.shape([p, q]))
    return (a, b, c, R.shape_to_tensor(R.shape([p, q])))
""")
    x = np.array([3, 0, 1, 3, 0, 0], np.float32)
    a, b, c, d = vm["main"](x, np.array([2, 3]))
    assert {v.device for v in (a, b, c, d)} == {TOY}
    assert a.numpy().tolist() == [[0, 2, 3]] and b.numpy().tolist() == [0, 1, 3]
    assert (c.numpy() == x.reshape(2, 3)).all() and d.numpy().tolist() == [2, 3]


SEEN = []


@unity.register_func("test.devices.twice", override=True)
def twice(x):
    SEEN.append(x.device)
    return x.numpy() * 2


@unity.register_func("test.devices.into", override=True)
def into(x, out):
    SEEN.append(out.device)
    out.numpy()[...] = x.numpy() + 1


@unity.register_func("test.devices.there", override=True, on_device=True)
def there(x):
    SEEN.append(x.device)
    return x


@unity.register_func("test.devices.in_place", override=True)
def in_place(x):
    x.numpy()[0] = 7
    return x


CALLS = """
@R.function
def main(x: R.Tensor((3, 4), "float32")):
    a = R.call_packed("test.devices.twice", R.exp(x), sinfo_args=R.Tensor((3, 4), "float32"))
    b = R.call_dps_packed("test.devices.into", (a,), out_sinfo=R.Tensor((3, 4), "float32"))
    c = R.call_packed("test.devices.there", R.negative(b), sinfo_args=R.Tensor((3, 4), "float32"))
    return R.add(c, c)

@R.function(pure=False)
def change(x: R.Tensor((3, 4), "float32")):
    y = R.call_packed("test.devices.in_place", x, sinfo_args=R.Tensor((3, 4), "float32"))
    return y
"""


def test_registered_functions_work_on_copies(machine):
    vm = machine("@I.ir_module\nclass M:\n" + CALLS.replace("\n", "\n    "))
    SEEN.clear()
    y = vm["main"](X)
    assert y.device is TOY and np.allclose(y.numpy(), -2 * (2 * np.exp(X) + 1))
    assert [unity.cpu(), unity.cpu(), TOY] == SEEN
    x = tensor(X, device=TOY)
    made = vm["change"](x)
    assert made.device is TOY and made.numpy()[0].tolist() == [7] * 4 and (made.numpy()[1:] == X[1:]).all()
    assert (x.numpy() == made.numpy()).all(), "what is written to a copy goes back"


def test_a_failure_leaves_the_device_as_it_was(machine):
    @unity.register_func("test.devices.fails", override=True)
    def fails(x):
        raise KeyError("mine")

    vm = machine("""
@R.function(pure=False)
def main(x: R.Tensor(("n", 4), "float32")):
    a = R.exp(x)
    b = R.call_packed("test.devices.fails", a, sinfo_args=R.Tensor(("n", 4), "float32"))
    return R.add(a, b)
""")
    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            vm["main"](X)


def test_printing_and_assertions(machine, capsys):
    vm = machine("""
@R.function(pure=False)
def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
    _ = R.print(x, format="x is {}")
    _1 = R.assert_op(c, x, format="failed with {}")
    return x
""")
    vm["main"](np.array([1, 2], np.float32), np.array(True))
    assert 'x is tensor([1., 2.], shape=(2,), dtype="float32", device="apart:1")' in capsys.readouterr().out
    with pytest.raises(UnityError, match="failed with tensor") as caught:
        vm["main"](np.array([1, 2], np.float32), np.array(False))
    assert caught.value.code == "E635"


def test_closures(machine):
    vm = machine("""
@I.ir_module
class M:
    @R.function
    def adder(x: R.Tensor((3, 4), "float32")) -> R.Object:
        @R.function
        def inner(y: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
            z = R.add(x, y)
            return z
        return inner

    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        @R.function
        def inner(y: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
            z = R.multiply(x, y)
            return z
        r = inner(R.exp(x))
        return r
""")
    closure = vm["adder"](X)
    made = vm.invoke_closure(closure, X * 2)
    assert made.device is TOY and (made.numpy() == X * 3).all()
    assert np.allclose(vm["main"](X).numpy(), X * np.exp(X))


def test_outputs_are_given(machine):
    vm = machine(CHAIN)
    w = tensor(np.eye(4, dtype=np.float32), device=TOY)
    out = runtime.empty((3, 4), "float32", TOY)
    address = out.data_ptr
    assert vm["main"](X, w, out=out) is out and out.data_ptr == address
    np.testing.assert_allclose(out.numpy(), chain(X, np.eye(4, dtype=np.float32)), rtol=1e-6)
    there = tensor(X, device=TOY)
    vm["main"](there, w, out=there)
    np.testing.assert_allclose(there.numpy(), out.numpy())
    here = np.empty((3, 4), np.float32)
    assert vm["main"](X, w, out=here) is here and (here == out.numpy()).all(), "an array is copied back"
    here = X.copy()
    vm["main"](here, w, out=here)
    assert (here == out.numpy()).all()
    assert code_of(lambda: vm["main"](X, w, out=runtime.empty((2, 4), "float32", TOY))) in ("E607", "E982")


def test_a_result_copied_into_an_output(machine):
    vm = machine(
        "@R.function\ndef main(x: R.Tensor((3, 4), 'float32')):\n    return (x, R.const([1.0, 2.0], 'float32'))"
    )
    outs = runtime.empty((3, 4), "float32", TOY), runtime.empty((2,), "float32", TOY)
    vm["main"](X, out=outs)
    assert (outs[0].numpy() == X).all() and outs[1].numpy().tolist() == [1.0, 2.0]
    here = np.zeros((3, 4), np.float32)
    vm["main"](X, out=(here, None))
    assert (here == X).all()


def test_constants_are_uploaded_once(machine):
    vm = machine(
        "@R.function\ndef main(x: R.Tensor((3, 4), 'float32')):\n    c = R.const([1.0, 2.0, 3.0, 4.0], 'float32')\n    return (R.add(x, c), c)"
    )
    x = tensor(X, device=TOY)
    before = toy_device.COUNTS["to_device"]
    a, c = vm["main"](x)
    _, d = vm["main"](x)
    assert toy_device.COUNTS["to_device"] == before and c.data_ptr == d.data_ptr and c.device is TOY
    assert (a.numpy() == X + [1, 2, 3, 4]).all()


def test_a_kernel_is_called_by_itself(machine):
    vm = machine("""
@T.prim_func
def main(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32"), k: T.float32):
    for i in range(4):
        with T.block("b"):
            v = T.axis.spatial(4, i)
            y[v] = x[v] * k
""")
    y = runtime.empty((4,), "float32", TOY)
    vm["main"](np.arange(4, dtype=np.float32), y, 3.0)
    assert y.numpy().tolist() == [0, 3, 6, 9]
    here = np.zeros((4, 2), np.float32)[:, 0]
    vm["main"](np.arange(4, dtype=np.float32), here, 3.0)
    assert here.tolist() == [0, 3, 6, 9], "what is written in place of an array is copied back"
    here.flags.writeable = False
    assert code_of(lambda: vm["main"](np.arange(4, dtype=np.float32), here, 3.0)) == "E610"
    there = tensor([1.0, 2.0, 3.0, 4.0], device="apart:0")
    assert code_of(lambda: vm["main"](there, y, 3.0)) == "E612"


def test_saved_and_loaded(tmp_path):
    path = tmp_path / "m.unity"
    unity.compile(parse(CHAIN), target="apart").save(path)
    for mode in MODES:
        loaded = unity.load(path)
        assert loaded.options["device"] == "apart"
        w = np.eye(4, dtype=np.float32)
        np.testing.assert_allclose(VirtualMachine(loaded, TOY, mode)["main"](X, w).numpy(), chain(X, w), rtol=1e-6)
    assert loaded["main"](X, w).device is unity.device("apart", 0)


def test_timing_and_profiles_wait(machine):
    vm = machine(CHAIN)
    w = tensor(np.eye(4, dtype=np.float32), device=TOY)
    before = toy_device.COUNTS["synchronize"]
    assert vm.time_evaluator("main", TOY, number=2, repeat=3)(X, w).mean > 0
    assert toy_device.COUNTS["synchronize"] >= before + 4
    before = toy_device.COUNTS["synchronize"]
    profile = vm.profile("main", X, w, runs=2)
    assert profile.rows and "roofline" not in str(profile).splitlines()[-1]
    assert toy_device.COUNTS["synchronize"] >= before + 2 * len(profile.runs[0])


def test_state_is_kept(machine):
    vm = machine(CHAIN)
    w = np.eye(4, dtype=np.float32)
    vm.set_input("main", X, w)
    vm.invoke_stateful("main")
    assert vm.get_outputs("main").device is TOY
    vm.save_function("main", "bound", X, w)
    assert (vm["bound"]().numpy() == vm.get_outputs("main").numpy()).all()


def test_threads_share_a_machine(machine):
    vm = machine(CHAIN)
    w = np.eye(4, dtype=np.float32)
    inputs = [np.full((3, 4), k, np.float32) for k in range(24)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda x: vm["main"](x, w).numpy(), inputs))
    for x, y in zip(inputs, made, strict=True):
        np.testing.assert_allclose(y, chain(x, w), rtol=1e-6)


MOVES = {
    'R.to_vdevice(y, "llvm:0")': "cpu", 'R.to_vdevice(y, "llvm")': "cpu", 'R.to_vdevice(y, "llvm:0:global")': "cpu",
    'R.to_vdevice(y, I.vdevice("llvm -mcpu=x86-64-v3", 0))': "cpu", 'R.to_vdevice(y, dst_vdevice=I.vdevice({"kind": "llvm"}))': "cpu",
    'R.hint_on_device(y, "cpu")': "cpu", "R.hint_on_device(y, R.device(1, 0))": "cpu", "R.hint_on_device(y, R.cpu())": "cpu",
    'R.exp(R.hint_on_device(y, R.cpu()))': "cpu", 'R.add(R.hint_on_device(y, R.cpu()), R.to_vdevice(y, "llvm"))': "cpu",
    'R.to_vdevice(y, "apart:1")': "apart", 'R.hint_on_device(y, R.device("apart", 1))': "apart",
    'R.to_vdevice(R.exp(R.to_vdevice(y, "llvm")), "apart")': "apart", "y": "apart",
    'R.to_vdevice(y, "metal:0")': "E531", 'R.hint_on_device(R.to_vdevice(y, "apart:0"), R.device("apart", 1))': "E612",
}  # fmt: skip
"""Where a result lies, or why there is none."""


@pytest.mark.parametrize("value", MOVES)
def test_tensors_go_where_they_are_wanted(value):
    mod = parse(f"""
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        y = R.add(x, x)
        return {value}
""")
    assert unity.ir.structural_equal(mod, parse(mod.script()))
    if MOVES[value].startswith("E"):
        assert code_of(lambda: unity.compile(mod, target="apart")) == MOVES[value]
        return
    made = unity.compile(mod, target="apart")
    for mode in MODES:
        assert VirtualMachine(made, TOY, exec_mode=mode)["main"](X).device.kind == MOVES[value]


def test_virtual_devices_of_parameters_and_results(machine, tmp_path):
    text = """
@R.function
def main(x: R.Tensor((3, 4), "float32", vdevice="apart:0"), w: R.Tensor((3, 4), "float32", vdevice="llvm:0")):
    y = R.add(x, R.to_vdevice(w, "apart:0"))
    z = R.to_vdevice(R.exp(y), "llvm:0")
    return (y, z, R.shape_of(y))
"""
    vm = machine(text)
    there = tensor(X, device=TOY)
    for w in (tensor(X), X, there):
        y, z, shape = vm["main"](there, w)
        assert y.device is TOY and z.device is unity.cpu() and tuple(shape) == (3, 4)
        np.testing.assert_allclose(z.numpy(), np.exp(2 * X), rtol=1e-6)
    assert code_of(lambda: vm["main"](tensor(X), X)) == "E612", "x is on the device"
    vm.executable.save(tmp_path / "m.unity")
    loaded = VirtualMachine(unity.load(tmp_path / "m.unity"), TOY, vm.exec_mode)
    assert loaded["main"](X, X)[1].device is unity.cpu()
    host = VirtualMachine(unity.compile(parse(text.replace("apart", "cpu"))))
    assert host["main"](X, X)[1].device is unity.cpu()
