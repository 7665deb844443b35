"""The bytecode and its interpreter against numpy."""

import threading

import numpy as np
import pytest
from vm_doubles import *  # noqa: F403

import unity
from unity.ir.build import add, gt, mul, sub
from unity.ir.relation import tensor_type as tt
from unity.ir.types import ShapeType
from unity.support.errors import VMError
from unity.vm.builtins.builtins import BUILTINS
from unity.vm.executable.bytecode import OPERATIONS
from unity.vm.interpreter import interpret
from unity.vm.native import body
from unity.vm.virtual_machine import VirtualMachine

MODES = ["bytecode", "native"]


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def machine(functions, mode):
    return VirtualMachine(executable(functions), exec_mode=mode)


@pytest.mark.parametrize("n,m", [(3, 5), (1, 1), (0, 2), (2, 0), (17, 33)])
def test_symbolic_shapes(mode, n, m):
    vm = machine({"main": two_layers()}, mode)
    x, w, b = f32(n, 4), f32(4, m), f32(m)
    y, r = vm["main"](x, w, b)
    assert isinstance(y, unity.Tensor) and y.shape == (n, m)
    np.testing.assert_allclose(y.numpy(), x @ w, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(r.numpy(), np.maximum(b + b, 0))


def test_text_is_stable(mode):
    text = executable({"main": two_layers()}).as_text()
    assert text == executable({"main": two_layers()}).as_text()
    assert 'function main(%0 x: R.Tensor((n, 4), "float32")' in text
    assert "kernel matmul(%0, %1, %3, #0, 4, #1)" in text
    assert "slots #0 n, #1 m" in text


def test_storage_plan_and_inplace_parameter(mode):
    n = sym("n")
    x, y, s, t1, t2, out = var("x", n), var("y", n), Var("s", OBJECT), var("t1", n), var("t2", n), var("out", n)
    u1, u2, u3 = Var("_", OBJECT), Var("_", OBJECT), Var("_", OBJECT)

    body = [
        (s, storage(mul(n, const(8, "int64")))),
        (t1, tensor_in(s, 0, n)),
        (u1, run_kernel("add", x, y, t1)),
        (out, alloc(n)),
        (u2, run_kernel("relu", t1, out)),
        (u3, Call(op("R.memory.kill_tensor"), (t1,), {}, (), TupleType(()))),
        (Var("_", OBJECT), Call(op("R.memory.kill_storage"), (s,), {}, (), TupleType(()))),
        (Var("_", OBJECT), run_kernel("relu", out, y)),
    ]
    vm = machine({"main": fn([x, y], body, out)}, mode)
    for size in (0, 1, 7, 1000, 5):
        a, b = f32(size, seed=1), f32(size, seed=2)
        expected = np.maximum(a + b, 0)
        np.testing.assert_array_equal(vm["main"](a, b).numpy(), expected)
        np.testing.assert_array_equal(b, expected)
    first = machine({"main": fn([x, y], body, out)}, mode)  # no size before the empty one
    assert first["main"](f32(0), f32(0)).shape == (0,)
    a, b = f32(3), f32(3)
    b.flags.writeable = False
    with pytest.raises(VMError, match="read-only"):
        vm["main"](a, b)


def test_storage_too_small_is_an_error(mode):
    n = sym("n")
    x, s, t, out = var("x", n), Var("s", OBJECT), var("t", n), var("out", n)
    body = [
        (s, storage(40)),
        (t, tensor_in(s, 0, n)),
        (Var("_", OBJECT), run_kernel("relu", x, t)),
        (out, alloc(n)),
        (Var("_", OBJECT), run_kernel("relu", t, out)),
    ]
    vm = machine({"main": fn([x], body, out)}, mode)
    np.testing.assert_array_equal(vm["main"](f32(10)).numpy(), np.maximum(f32(10), 0))
    with pytest.raises(VMError) as caught:
        vm["main"](f32(11))
    assert caught.value.code == "E638"
    assert any("in main, instruction" in note.message for note in caught.value.notes)


def test_conditional_and_recursion(mode):
    n = sym("n")
    x, c, y = var("x", n), var("c", dtype="bool"), var("y", n)
    then = SeqExpr((BindingBlock((VarBinding(y, dps("relu", [x], y.ty)),)),), y)
    z = Var("z", x.ty)
    main = fn([x, c], [(z, If(c, then, SeqExpr((), x), x.ty))], z)
    k = Var("k", I64)

    a, b, r = var("a", n), var("b", n), Var("r", OBJECT)
    n2 = sym("n")
    p = Var("x", ten(n2))
    grown = Var("g", ten(n2))
    more = SeqExpr(
        (
            BindingBlock(
                (
                    VarBinding(grown, dps("add", [p, p], grown.ty)),
                    VarBinding(r, call("double", [grown, sub(k, const(1, "int64"))], ten(n2))),
                )
            ),
        ),
        r,
    )
    res = Var("res", ten(n2))
    double = fn([p, k], [(res, If(gt(k, const(0, "int64")), more, SeqExpr((), p), ten(n2)))], res)
    vm = machine({"main": main, "double": double}, mode)
    value = f32(6)
    np.testing.assert_array_equal(vm["main"](value, np.array(True)).numpy(), np.maximum(value, 0))
    np.testing.assert_array_equal(vm["main"](value, np.array(False)).numpy(), value)
    np.testing.assert_array_equal(vm["double"](value, 5).numpy(), value * 32)
    np.testing.assert_array_equal(vm["double"](value, 300).numpy() > 0, value > 0)
    assert np.isinf(vm["double"](np.abs(value) + 1, 20_000).numpy()).all()  # a loop: the call of itself stands last
    np.testing.assert_array_equal(vm["double"](value, 1).numpy(), value * 2)
    assert a is not b


def test_constants_tuples_scalars_shapes(mode):
    n, k = sym("n"), Var("k", I64)
    x, y, t = var("x", n), var("y", 4), Var("t", OBJECT)
    weights = np.arange(4, dtype=np.float32)

    z, w = var("z", 4), Var("w", ten(4))
    body = [
        (y, dps("add", [constant(weights), constant(weights)], y.ty)),
        (t, Tuple((y, x))),
        (w, TupleGetItem(Tuple((y, x)), 0)),
        (z, dps("relu", [w], z.ty)),
    ]
    f = Var("f", prim_type("float32"))
    result = Tuple((t, z, ShapeExpr((n, add(n, k))), k, add(k, n), f))
    vm = machine({"main": fn([x, k, f], body, result)}, mode)
    got = vm["main"](f32(3), 5, 0.5)
    assert isinstance(got, tuple) and got[2:] == ((3, 8), 5, 8, 0.5)
    np.testing.assert_array_equal(got[0][0].numpy(), weights * 2)
    np.testing.assert_array_equal(got[0][1].numpy(), f32(3))
    np.testing.assert_array_equal(got[1].numpy(), weights * 2)


def test_tuple_and_shape_parameters(mode):
    n, m = sym("n"), sym("m")
    pair = Var("pair", TupleType((ten(n), ten(n))))

    s = Var("s", ShapeType((n, m), 2))
    a, b, r = Var("a", ten(n)), Var("b", ten(n)), var("r", n)
    body = [(a, TupleGetItem(pair, 0)), (b, TupleGetItem(pair, 1)), (r, dps("add", [a, b], r.ty))]
    vm = machine({"main": fn([pair, s], body, Tuple((r, s, m)))}, mode)
    r1, s1, m1 = vm["main"]((f32(4), f32(4, seed=3)), (4, 9))
    np.testing.assert_array_equal(r1.numpy(), f32(4) + f32(4, seed=3))
    assert s1 == (4, 9) and m1 == 9
    for bad in [
        ((f32(4), f32(5)), (4, 9)),
        ((f32(4), f32(4)), (5, 9)),
        ((f32(4),), (4, 9)),
        ((f32(4), f32(4)), (4,)),
        (f32(4), (4, 9)),
        ((f32(4), f32(4)), (4, "x")),
    ]:
        with pytest.raises(VMError):
            vm["main"](*bad)


def test_packed_calls(mode):
    unity.register_func("test.scale", lambda x, by: x.numpy() * by, override=True)

    def fail(x):
        raise KeyError("from the function")

    unity.register_func("test.fail", fail, override=True)
    n, k = sym("n"), Var("k", I64)
    x, y, z = var("x", n), var("y", n), var("z", n)
    good = fn([x, k], [(y, packed("test.scale", [x, k], ten(n))), (z, dps("relu", [y], z.ty))], z)
    bad = fn([x], [(y, packed("test.fail", [x], ten(n)))], y)
    wrong = fn([x], [(y, packed("test.scale", [x, const(2, "int64")], ten(n, n)))], y)
    missing = fn([x], [(y, packed("test.nobody", [x], ten(n)))], y)
    vm = machine({"good": good, "bad": bad, "wrong": wrong, "missing": missing}, mode)
    np.testing.assert_array_equal(vm["good"](f32(5), -1).numpy(), np.maximum(-f32(5), 0))
    with pytest.raises(KeyError, match="from the function") as caught:
        vm["bad"](f32(5))
    assert caught.traceback[-1].name == "fail"
    assert any("in bad, instruction" in note for note in caught.value.__notes__)
    with pytest.raises(VMError) as error:
        vm["wrong"](f32(5))
    assert error.value.code == "E605" and "result of test.scale" in str(error.value)
    with pytest.raises(VMError) as error:
        vm["missing"](f32(5))
    assert error.value.code == "E630"
    np.testing.assert_array_equal(vm["good"](f32(5), 1).numpy(), np.maximum(f32(5), 0))


def test_packed_function_keeps_a_tensor_that_lies_in_storage(mode):
    kept = []
    unity.register_func("test.keep", lambda x: kept.append(x), override=True)
    n = sym("n")
    x, s, t = var("x", n), Var("s", OBJECT), var("t", n)
    body = [
        (s, storage(4096)),
        (t, tensor_in(s, 64, n)),
        (Var("_", OBJECT), run_kernel("relu", x, t)),
        (Var("_", OBJECT), packed("test.keep", [t])),
    ]
    vm = machine({"main": fn([x], body, const(0, "int64"))}, mode)
    for seed in range(20):
        vm["main"](f32(100, seed=seed))
    for seed, tensor in enumerate(kept):
        np.testing.assert_array_equal(tensor.numpy(), np.maximum(f32(100, seed=seed), 0))


def test_closures_and_function_values(mode):
    n = sym("n")
    x, y, r, c = var("x", n), var("y", n), var("r", n), Var("c", OBJECT)
    adder = fn([x, y], [(r, dps("add", [x, y], r.ty))], r)
    n2 = sym("n")
    v = Var("v", ten(n2))
    maker = fn([v], [(c, Call(op("R.make_closure"), (GlobalVar("adder"), Tuple((v,))), {}, (), OBJECT))], c)
    n3 = sym("n")
    u, q, w = Var("u", ten(n3)), Var("q", OBJECT), Var("w", ten(n3))
    main = fn(
        [u],
        [(q, call("maker", [u], OBJECT)), (w, Call(op("R.invoke_closure"), (q, Tuple((u,))), {}, (ten(n3),), ten(n3)))],
        w,
    )
    vm = machine({"main": main, "maker": maker, "adder": adder}, mode)
    np.testing.assert_array_equal(vm["main"](f32(4)).numpy(), f32(4) * 2)
    closure = vm["maker"](f32(4))
    np.testing.assert_array_equal(vm.invoke_closure(closure, f32(4, seed=1)).numpy(), f32(4) + f32(4, seed=1))
    with pytest.raises(VMError):
        vm.invoke_closure(closure, f32(5))


def test_match_cast(mode):
    n, m = sym("n"), sym("m")

    x = Var("x", tt(None, "float32", 1))
    y, r = Var("y", ten(m)), var("r", m)
    vm = machine({"main": fn([x], [MatchCast(y, x, ten(m)), (r, dps("relu", [y], r.ty))], Tuple((r, m)))}, mode)
    got, size = vm["main"](f32(9))
    assert size == 9
    np.testing.assert_array_equal(got.numpy(), np.maximum(f32(9), 0))
    z = Var("z", ten(3))
    vm = machine({"main": fn([x], [MatchCast(z, x, ten(3))], z)}, mode)
    with pytest.raises(VMError) as caught:
        vm["main"](f32(4))
    assert caught.value.code == "E606" and "match_cast of z" in str(caught.value)
    assert n is not m


def test_views(mode):
    n = sym("n")

    x, y, r = var("x", n, 4), Var("y", ten(mul(n, const(4, "int64")))), var("r", mul(n, const(4, "int64")))
    view = Call(op("R.memory.view"), (x, y.ty.shape), {}, (), y.ty)
    vm = machine({"main": fn([x], [(y, view), (r, dps("relu", [y], r.ty))], Tuple((y, r)))}, mode)
    value = f32(3, 4)
    y1, r1 = vm["main"](value)
    assert np.shares_memory(y1.numpy(), value) and y1.shape == (12,)
    np.testing.assert_array_equal(r1.numpy(), np.maximum(value, 0).reshape(-1))


def test_kernel_check_fails(mode):
    n = sym("n")
    x = var("x", n)
    vm = machine({"main": fn([x], [(Var("_", OBJECT), run_kernel("refuse", x))], x)}, mode)
    with pytest.raises(VMError, match="the value is refused"):
        vm["main"](f32(2))


BAD = [
    ((), "E602"), ((f32(2, 4), f32(4, 3)), "E602"), ((f32(2, 4), f32(4, 3), f32(3), 1), "E602"),
    ((f32(2, 4).astype(np.float64), f32(4, 3), f32(3)), "E604"), ((f32(2), f32(4, 3), f32(3)), "E605"),
    ((f32(2, 5), f32(4, 3), f32(3)), "E606"), ((f32(2, 4), f32(4, 3), f32(4)), "E607"),
    ((f32(4, 2).T, f32(4, 3), f32(3)), "E609"), (("text", f32(4, 3), f32(3)), "E603"), ((None, f32(4, 3), f32(3)), "E603"),
    ((3.0, f32(4, 3), f32(3)), "E603"), ((f32(2, 4)[:, ::-1], f32(4, 3), f32(3)), "E609"),
    (([1.0], f32(4, 3), f32(3)), "E603"),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(BAD)))
def test_bad_inputs(mode, index):
    args, code = BAD[index]
    vm = machine({"main": two_layers()}, mode)
    with pytest.raises(VMError) as caught:
        vm["main"](*args)
    assert caught.value.code == code, str(caught.value)
    y, _ = vm["main"](f32(2, 4), f32(4, 3), f32(3))
    np.testing.assert_allclose(y.numpy(), f32(2, 4) @ f32(4, 3), rtol=1e-5)


def test_formula_dimension(mode):
    n = sym("n")

    x, y = Var("x", ten(add(n, const(1, "int64")))), var("y", n)
    vm = machine({"main": fn([x, y], [], Tuple((x, y)))}, mode)
    vm["main"](f32(5), f32(4))
    with pytest.raises(VMError) as caught:
        vm["main"](f32(6), f32(4))
    assert caught.value.code == "E608" and "n" in str(caught.value)


def test_exported_kernel(mode):
    vm = machine({"main": two_layers()}, mode)
    x, y = f32(6), np.zeros(6, np.float32)
    vm["relu"](x, y)
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    with pytest.raises(VMError):
        vm["relu"](x, np.zeros(7, np.float32))
    with pytest.raises(VMError) as caught:
        vm["nothing"]
    assert caught.value.code == "E631"


def test_stateful_and_saved_functions(mode):
    vm = machine({"main": two_layers()}, mode)
    args = (f32(2, 4), f32(4, 3), f32(3))
    vm.save_function("main", "bound", *args)
    np.testing.assert_array_equal(vm["bound"]()[0].numpy(), vm["main"](*args)[0].numpy())
    vm.set_input("main", *args)
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main")[0].numpy(), vm["main"](*args)[0].numpy())
    vm.set_input("main", args[0], w=args[1], b=2 * args[2])
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main")[1].numpy(), vm["main"](*args[:2], 2 * args[2])[1].numpy())
    result = vm.module.time_evaluator("main", number=2, repeat=3)(*args)
    assert len(result.results) == 3 and result.min > 0
    assert vm["main"].signature.startswith("main(x: R.Tensor((n, 4)")


def test_threads(mode):

    vm = machine({"main": two_layers()}, mode)
    failures = []

    def work(seed):
        x, w, b = f32(30, 4, seed=seed), f32(4, 20, seed=seed), f32(20, seed=seed)
        for _ in range(30):
            y, r = vm["main"](x, w, b)
            if not (np.allclose(y.numpy(), x @ w, atol=1e-5) and np.array_equal(r.numpy(), np.maximum(b + b, 0))):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_instruments():
    vm = machine({"main": two_layers()}, "bytecode")
    seen = []
    vm.set_instrument(lambda name, args, _: seen.append(name), lambda name, args, result: seen.append(name + "!"))
    vm["main"](f32(2, 4), f32(4, 3), f32(3))
    assert seen == ["matmul", "matmul!", "add", "add!", "relu", "relu!"]


def test_torch_tensors(mode):
    torch = pytest.importorskip("torch")
    vm = machine({"main": two_layers()}, mode)
    x, w, b = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
    y, _ = vm["main"](x, w, b)
    torch.testing.assert_close(y.torch(), x @ w)
    torch.testing.assert_close(vm["main"](x, w, b)[1].torch(), torch.relu(b + b))


def test_names_of_an_executable_and_its_machine():
    built = executable({"main": two_layers()})
    for held in (built, VirtualMachine(built)):
        names = list(held)
        assert "main" in names and all(name in held for name in names)
        assert "other" not in held and 0 not in held


def test_every_operation_has_one_meaning() -> None:
    assert sorted([*BUILTINS, *interpret._SPECIAL]) == sorted(OPERATIONS)
    assert set(body._NATIVE) <= set(OPERATIONS)
