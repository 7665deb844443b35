"""``unity.relax``, ``unity.tir`` and ``unity.topi``: names as TVM has them, importable as they are there."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unity
from unity import relax, te, tir
from unity.ir import Call, interpret
from unity.ir.intrinsic import INTRINSICS
from unity.relax import transform
from unity.relax.dpl import is_op, wildcard
from unity.script import parse, tir as T
from unity.support.errors import FrontendError, PassError, ScriptError, TypeRuleError
from unity.tir import Schedule, Var as TirVar
from unity.topi import nn

MOD = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            w1 = R.permute_dims(w)
            y = R.matmul(x, w1)
            z = R.nn.relu(y)
            R.output(z)
        return z
""")
W = np.arange(16, dtype="float32").reshape(4, 4) - 7
X = np.ones((3, 4), "float32")


def test_names_lead_to_the_rooms() -> None:
    assert Schedule is unity.Schedule and relax.VirtualMachine is unity.VirtualMachine
    assert nn.relu(te.placeholder((4,))).shape and callable(unity.topi.add)
    assert is_op("relax.add")(wildcard(), wildcard()) is not None
    for name in dir(relax):
        assert getattr(relax, name) is not None, name


def test_types_of_numbers() -> None:
    assert str(relax.tensor_type((2, 3), "float32")) == 'R.Tensor((2, 3), "float32")'
    assert str(relax.shape_type([np.int64(2)])) == "R.Shape([2])"
    assert str(relax.TensorType((TirVar("n", "int64"), 4), "int8")) == 'R.Tensor((n, 4), "int8")'
    for wrong in (("n", 4), (2.5,), (-1,), (True,), "n"):
        with pytest.raises(TypeRuleError) as caught:
            relax.tensor_type(wrong)
        assert caught.value.code == "E691"
    with pytest.raises(TypeRuleError, match="'n'"):
        unity.ir.relation.tensor_type(("n",), "float32")


def test_passes_by_their_names_in_tvm() -> None:
    for name in dir(transform):
        if name[0].isupper() and name not in ("FusionPattern", "PatternCheckContext"):
            assert getattr(transform, name)().name in unity.transform.PASSES
    bound = transform.BindParams("main", {"w": W})(MOD)
    assert [p.name for p in bound["main"].params] == ["x"]
    sized = transform.BindSymbolicVars({"n": 3}, func_name="main")(bound)
    assert "(3, 4)" in sized.script()
    assert "R.matmul" in transform.LegalizeOps(skip_ops=["relax.matmul"])(MOD).script()
    both = unity.transform.Sequential(
        [transform.FoldConstant(), unity.transform.Pipeline([transform.DeadCodeElimination()])]
    )
    assert str(both) == "fold_constant,dead_code"
    vm = relax.VirtualMachine(relax.build(both(bound), target="llvm"), unity.cpu())
    np.testing.assert_allclose(np.asarray(vm["main"](X)), np.maximum(X @ W.T, 0), rtol=1e-5)
    grads = transform.Gradient("main", require_grads=[MOD["main"].params[1]])
    assert grads.options == {"require_grads": ("w",)}
    assert relax.get_pipeline("zero")(MOD).script().count("T.prim_func") == 2  # the transpose; product and relu in one


def test_what_has_no_such_pass() -> None:
    assert transform.VMShapeLower(emit_err_ctx=True)(MOD) is MOD
    with pytest.raises(AttributeError, match="there is no pass Nonsense"):
        _ = transform.Nonsense
    for call, words in (
        (lambda: transform.FuseOps(opt_level=2), "opt_level"),
        (lambda: transform.BindParams("main", {}, 3), "3"),
        (lambda: relax.get_pipeline("fast"), "fast"),
        (lambda: unity.transform.Pipeline([len]), "builtin_function"),
    ):
        with pytest.raises(PassError, match=words):
            call()


def test_a_list_of_passes_is_a_pipeline() -> None:
    steps = [transform.Normalize(), *unity.transform.DEFAULT_PIPELINE]
    y = unity.VirtualMachine(unity.compile(MOD, pipeline=steps))["main"](X, W)
    np.testing.assert_allclose(np.asarray(y), np.maximum(X @ W.T, 0), rtol=1e-5)


@pytest.mark.parametrize("option", [{"strict": True}, {"dynamic_shapes": {}}, {"example_kwargs": {}}], ids=str)
def test_options_of_torch_models_are_refused(option) -> None:
    with pytest.raises(FrontendError, match="for torch models") as caught:
        unity.compile(MOD, **option)
    assert caught.value.code == "E693"


def test_data_types_make_constants_outside_of_script() -> None:
    quarter, width = T.float64(0.25), T.int64(8)
    assert (quarter.value, quarter.ty.dtype.name) == (0.25, "float64") and str(T.bool(True)) == "T.bool(True)"
    assert str(T.float32(quarter)) == "T.float32(0.25)"

    @T.prim_func
    def scale(A: T.Buffer((width,), "float64"), B: T.Buffer((8,), "float64")):
        for i in range(width):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] * quarter

    y = np.zeros(8)
    unity.compile(scale)["scale"](np.ones(8), y)
    np.testing.assert_array_equal(y, 0.25)
    with pytest.raises(ScriptError, match="takes a number") as caught:
        T.float32("1")
    assert caught.value.code == "E694"


PATHS = {
    "unity.s_tir": "unity.tir", "unity.s_tir.meta_schedule": "unity.meta_schedule", "unity.tirx": "unity.tir",
    "unity.nd": "unity.runtime", "unity.script.tirx": "unity.script.tir", "unity.script.s_tir": "unity.script.tir",
    "unity.tirx.expr": "unity.tir", "unity.ir.transform": "unity.transform", "unity.ir.instrument": "unity.instrument",
}  # fmt: skip
EACH_FIRST = """
import importlib, os, pkgutil, unity
for first, module, same in [(use + name, name, same) for name, same in {paths}.items() for use in ("import ", "")]:
    child = os.fork()
    if not child:
        exec(f"{{first}}; import {{module}}; from {{module}} import *; import {{same}}; assert {{module}} is {{same}}")
        package = importlib.import_module(same)
        for found in pkgutil.iter_modules(getattr(package, "__path__", ())):  # what lies in it, by the other name first
            below = importlib.import_module(f"{{module}}.{{found.name}}")
            assert below is importlib.import_module(f"{{same}}.{{found.name}}"), found.name
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, first
"""


def test_paths_of_other_versions_import() -> None:
    """Each path as the first that a process imports, or asks for; no file is read a second time for it."""
    subprocess.run([sys.executable, "-c", EACH_FIRST.format(paths=PATHS)], check=True)


def test_editors_know_the_paths_of_other_versions() -> None:
    """Beside the package stands a stub for each, but for those that lie in a package of ours."""
    for other, name in PATHS.items():
        stub = Path(unity.__file__).parent.joinpath(*other.split(".")[1:]).with_suffix(".pyi")
        assert stub.exists() != other.startswith(("unity.s_tir.", "unity.tirx.")), other
        assert not stub.exists() or f"{name.split('.')[-1]} import *" in stub.read_text()


def test_families_of_operators_import() -> None:
    lines = "from unity.relax.op import add, nn; from unity.relax.op.nn import relu; from unity.topi.nn import conv2d"
    same = "import unity.relax.op.nn; assert unity.relax.op.nn is nn and nn.relu is relu and unity.topi.nn.conv2d is conv2d"
    subprocess.run([sys.executable, "-c", f"{lines}; {same}"], check=True)
    with pytest.raises(ImportError):
        importlib.import_module("unity.relax.op.nn.rellu")


def test_every_intrinsic_is_a_function_of_tir() -> None:
    """Of expressions and of what stands in a te.compute; where the data type of the result is given, it comes first."""
    x = TirVar("x", "float32")
    for name, row in INTRINSICS.items():
        function, count = getattr(tir, name[2:]), row.arity[0]
        assert function.__doc__
        if row.result in ("same", "second", "bool") and name not in ("T.if_then_else", "T.max", "T.min"):
            made = function(*[x] * count)
            assert type(made) is Call and made.op_name == name and list(made.args) == [x] * count
            assert isinstance(function(*[te.Value(x)] * count), te.Value)
        elif row.result == "given" and name[2:] not in tir.__all__:
            made = function("int32x4", *[x] * count)
            assert made.op_name == name and made.ty.dtype.name == "int32x4"
    made = tir.call_llvm_pure_intrin("float32", "llvm.fabs.f32", tir.const(1, "uint32"), x)
    assert made.args[0].value == "llvm.fabs.f32" and made.ty is x.ty
    assert {"popcount", "call_pure_extern", "sum", "exp"} <= set(dir(tir))


def test_vectors_and_elements_by_tvms_arguments() -> None:
    i, buffer = TirVar("i", "int32"), tir.decl_buffer((4, 4), "float32")
    vector, same, element = tir.Ramp(i, 1, 4), tir.Broadcast(i, 8), tir.BufferLoad(buffer, [i, 0])
    assert (vector.ty.dtype.name, same.ty.dtype.name, element.ty.dtype.name) == ("int32x4", "int32x8", "float32")
    assert isinstance(vector, tir.Ramp) and isinstance(same, tir.Broadcast) and isinstance(element, tir.BufferLoad)


@pytest.mark.parametrize(
    ("name", "dtype", "meaning"),
    [
        ("exp2", "float32", np.exp2), ("exp10", "float32", lambda x: 10**x), ("copysign", "float32", np.copysign),
        ("nextafter", "float32", np.nextafter), ("ldexp", "float32", np.ldexp), ("popcount", "int32", np.bitwise_count),
        ("clz", "int32", lambda x: np.array([32 - int(v).bit_length() for v in x])),
    ],
)  # fmt: skip
def test_functions_of_te(name: str, dtype: str, meaning: Any) -> None:
    x = np.array([1, 2, 3, 5], dtype)
    seconds = [np.array([3, -1, 0, 2], "int32" if name == "ldexp" else dtype)][
        : name in ("copysign", "nextafter", "ldexp")
    ]
    inputs = [te.placeholder((4,), str(v.dtype), f"x{k}") for k, v in enumerate([x, *seconds])]
    result = te.compute((4,), lambda i: getattr(te, name)(*[t[i] for t in inputs]), "y")
    y = np.zeros(4, dtype)
    interpret.run(unity.IRModule({"f": te.create_prim_func([*inputs, result])}), "f", x, *seconds, y)
    np.testing.assert_allclose(y, meaning(x, *seconds), rtol=1e-6)


def test_rare_names_of_tvm() -> None:
    program = te.create_prim_func([a := te.placeholder((4,), name="A"), te.compute((4,), lambda i: a[i] * 2, name="B")])
    mod = unity.IRModule({"double": program})
    assert [var.name_hint for var in mod.get_global_vars()] == ["double"]
    (kind, shape) = {
        (info.dtype, info.shape) for info in unity.meta_schedule.arg_info.ArgInfo.from_entry_func(mod)
    }.pop()
    assert (kind, tuple(shape)) == ("float32", (4,))
    sch = Schedule(program)
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.remove_rv(loop)
    with pytest.raises(unity.UnityError, match="E402"):
        sch.get(loop)
    assert te.max_value("int8").expr.value == tir.max_value("int8").value == 127
