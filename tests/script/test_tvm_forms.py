"""Forms of TVM's own tests that stand for other forms: each reads as the form it stands for, prints, reads back equal and runs."""

from __future__ import annotations

import numpy as np
import pytest

import unity
from unity.ir import IRModule, PrimFunc, first_difference, interpret
from unity.script import parse
from unity.support.errors import ScriptError

_TENSOR = '@T.prim_func\ndef f(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):\n'
_GRAPH = '@R.function\ndef main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):\n    return '
_POINTER = '@T.prim_func\ndef f(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):\n{}    p[0] = A[9] + T.float32(1)\n'

_SYMBOLS = "@T.prim_func\ndef f({}    for i, j in T.grid(n, m):\n        A[i, j, 0] = B[j * 2]\n"
_OF_HANDLES = "a: T.handle, b: T.handle):\n    n, m = {}\n    A = T.match_buffer(a, (n, m, 1), {})\n    B = T.match_buffer(b, (m * 2,), {})\n"

SAME = {
    "symbols of the type that the body says": (
        _SYMBOLS,
        'A: T.Buffer(("n", "m", 1)), B: T.Buffer(("m * 2",))):\n    n, m = T.int32(), T.int32()\n',
        _OF_HANDLES.format("T.int32(), T.int32()", '"float32"', '"float32"'),
    ),
    "a symbol that is a parameter behind": (
        "@T.prim_func\ndef f({}    A[n] = 1.0\n",
        'A: T.Buffer(("n + 1",), "float32"), n: T.int32):\n',
        'a: T.handle, n: T.int32):\n    A = T.match_buffer(a, (n + T.int32(1),), "float32")\n',
    ),
    "symbols of two types": (
        _SYMBOLS,
        'A: T.Buffer(("n", "m", 1), "int8"), B: T.Buffer((m * 2,), "int8")):\n    n = T.int64()\n    m = T.int32()\n',
        _OF_HANDLES.format("T.int64(), T.int32()", '"int8"', '"int8"'),
    ),
    "schedulable programs apart, tensors": (
        "{}    for i in range(8):\n        with T.block(\"b\"):\n            v = T.axis.spatial(8, i)\n            B[v] = A[v]\n",
        'from tvm.script import s_tir as S\n\n@Ts.function(private=True)\ndef f(A: T.Tensor((8,), "float32"), B: Ts.Tensor(8)):\n'
        '    T.func_attr({"a": 1})\n    C = S.decl_tensor((8,), "float32")\n    D = tvm.script.s_tir.alloc_tensor((8,))\n',
        '@T.prim_func(private=True)\ndef f(A: T.Buffer((8,), "float32"), B: T.Buffer(8)):\n'
        '    T.func_attr({"a": 1})\n    C = T.decl_buffer((8,), "float32")\n    D = T.alloc_buffer((8,))\n',
    ),
    "symbols in front": (
        "{}    for i in range(n):\n        A[i, 0] = T.Cast(\"float32\", m)\n",
        'n = I.dynamic("n")\nm = T.dynamic("m", dtype="int32")\n\n@T.prim_func\ndef f(A: T.Buffer((n, m), "float32")):\n',
        '@T.prim_func\ndef f(A: T.Buffer(("n", "m"), "float32")):\n    m = T.int32()\n',
    ),
    "symbols of a module": (
        "{}@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Tensor((n, 4), \"float32\")):\n        return x\n",
        'n = T.Var("n", "int64")\n',
        'n = TypeVar("n")\n',
    ),
    "types of results": (
        _GRAPH + "{}\n",
        'R.call_tir("f", x, ty_args=[R.Tensor((3,), "int8")]), R.call_dps_packed("f", (x, y), ty_args=R.Tensor((3,), "int8"))',
        'R.call_dps("f", (x,), R.Tensor((3,), "int8")), R.call_dps("f", (x, y), R.Tensor((3,), "int8"))',
    ),
    "devices of a module": (
        '@I.ir_module\nclass M:\n    I.module_global_infos({{"vdevice": [{}]}})\n    @R.function\n'
        '    def main(x: R.Tensor((3,), "float32", "vdevice:1")):\n        return x\n',
        'R.vdevice("llvm"), R.vdevice({"kind": "cuda"}, 0), R.dummy_global_info()',
        'I.vdevice("llvm"), I.vdevice({"kind": "cuda"}, 0), I.dummy_global_info()',
    ),
    "numbers that are sizes": (
        "@T.prim_func\ndef f(A: T.Buffer((8,), \"int32\"), {}    A[k] = n\n",
        "n: T.int32(is_size_var=True)):\n    k: T.int32(is_size_var=True) = A[n]\n",
        "n: T.int32):\n    k: T.int32 = A[n]\n",
    ),
    "names for reading": (
        _TENSOR + "{}",
        "    for i in range(16):\n        at = T.meta_var(i * 2)\n        at, old = T.meta_var((at + 1, A[at]))\n        A[at - 1] = old + 1.0\n"
        "        B[at] = old\n",
        "    for i in range(16):\n        A[i * 2 + 1 - 1] = A[i * 2] + 1.0\n        B[i * 2 + 1] = A[i * 2]\n",
    ),
    "relax.op": (_GRAPH + "{}\n", "relax.op.multiply(x, y)", "R.multiply(x, y)"),
    "tvm.relax.op": (_GRAPH + "{}\n", "tvm.relax.op.nn.softmax(x, axis=0)", "R.nn.softmax(x, axis=0)"),
    "tir.op": (_TENSOR + "    B[0] = {}\n", "tir.op.exp(A[0])", "T.exp(A[0])"),
    "devices": (
        _GRAPH + "{}\n",
        'R.hint_on_device(x, tvm.cpu()), R.hint_on_device(x, I.cuda(1)), R.hint_on_device(x, I.device("cpu", 0))',
        "R.hint_on_device(x, R.cpu()), R.hint_on_device(x, R.cuda(1)), R.hint_on_device(x, R.cpu(0))",
    ),
    "nodes": (
        _GRAPH + "{}\n",
        "relax.reshape(x, relax.ShapeExpr((4, 3))), relax.Tuple([x, relax.PrimValue(3)]), relax.TupleGetItem((x, y), -1), "
        'relax.StringImm("s"), relax.DataTypeImm("int8")',
        'R.reshape(x, R.shape([4, 3])), R.tuple(x, R.prim_value(3)), R.tuple(x, y)[1], R.str("s"), R.dtype("int8")',
    ),
    "types of values": (
        _GRAPH + "{}\n",
        'R.call_dps_packed("f", (x,), x.struct_info), R.zeros(x.ty.shape, x.ty.dtype), x.ty.shape.values[1], x.ty.ndim, '
        "relax.Tuple([x, y]).ty.fields[0].dtype",
        'R.call_dps_packed("f", (x,), R.Tensor((3, 4), "float32")), R.zeros(R.shape([3, 4]), "float32"), T.int64(4), 2, '
        'R.dtype("float32")',
    ),
    "what is left out of a view": (
        _GRAPH + "{}\n",
        'R.memory.view(x, dtype="int32"), R.memory.view(x, R.shape([6]), relative_byte_offset=24)',
        'R.memory.view(x, R.shape([3, 4]), "int32"), R.memory.view(x, R.shape([6]), R.dtype("float32"), 24)',
    ),
    "index_dtype": (
        _GRAPH + "R.layout_transform(x, index_map={})\n",
        'T.index_map(mapping=lambda i, j: (j, i), index_dtype="int32")',
        "T.index_map(lambda i, j: (j, i))",
    ),
    "a pointer in T.let": (
        _POINTER,
        '    q: T.let[T.handle("float32")] = B.data\n    p = T.decl_buffer((32,), "float32", data=q)\n',
        '    q: T.handle("float32") = B.data\n    p = T.decl_buffer((32,), "float32", data=q)\n',
    ),
    "a pointer declared before": (
        _POINTER,
        '    q = T.handle("float32", storage_scope="global")\n    T.func_attr({"a": 1})\n    with T.LetStmt(B.data, var=q):\n'
        '        p = T.decl_buffer((32,), "float32", data=q)\n    ',
        '    q: T.handle("float32", "global") = B.data\n    T.func_attr({"a": 1})\n    if True:\n'
        '        p = T.decl_buffer((32,), "float32", data=q)\n    ',
    ),
    "an address": (
        _POINTER,
        '    p = T.Buffer((4,), "float32", data=T.address_of(B[4]))\n',
        '    p_ptr: T.handle("float32") = T.address_of(B[4])\n    p = T.decl_buffer((4,), "float32", data=p_ptr)\n',
    ),
}  # fmt: skip

OWN = {
    "target and host": _TENSOR
    + '    T.func_attr({"target": T.target("cuda", host="llvm"), "t": T.target({"kind": "cuda"}, {"kind": "llvm"})})\n'
    + '    T.attr(T.target("cuda", host="llvm"), "target", 0)\n    B[0] = A[0]\n',
    "of a module": '@I.ir_module\nclass M:\n    I.module_attrs({"target": I.target("cuda", host="llvm")})\n'
    + '    @R.function\n    def main(x: R.Tensor((2,), "float32")):\n        return x\n',
    "a map as attribute": _TENSOR
    + '    with T.block("b"):\n        T.block_attr({"layout": T.index_map(lambda i: (i // 4, i % 4), index_dtype="int32")})\n'
    + "        B[0] = A[0]\n",
    "a view of what is not known": "@R.function\ndef main(x: R.Tensor):\n    return R.memory.view(x, dtype=\"int32\")\n",
}  # fmt: skip


def _reads_back(text: str) -> IRModule | PrimFunc:
    first = parse(text)
    again = parse(str(first))
    assert first_difference(first, again) is None
    assert str(again) == str(first)
    return first


@pytest.mark.parametrize("what", SAME)
def test_reads_as_the_form_it_stands_for(what: str) -> None:
    around, written, meant = SAME[what]
    assert first_difference(_reads_back(around.format(written)), parse(around.format(meant))) is None


@pytest.mark.parametrize("what", OWN)
def test_reads_and_reads_back(what: str) -> None:
    _reads_back(OWN[what])


def test_a_target_with_its_host_is_plain_data() -> None:
    fn = parse(OWN["target and host"])
    assert fn.attrs["target"] == {"target": "cuda", "host": "llvm"}
    assert 'T.target({"kind": "cuda"}, host={"kind": "llvm"})' in str(fn)


@pytest.mark.parametrize("what", ["a pointer in T.let", "an address"])
def test_pointers_run(what: str) -> None:
    fn = parse(SAME[what][0].format(SAME[what][1]))
    given = np.arange(32, dtype="float32")
    for run in (lambda *a: interpret.run(fn, "f", *a), unity.compile(IRModule({"f": fn}))["f"]):
        result = np.zeros(32, "float32")
        run(given, result)
        assert result.sum() == 10
        assert result[4 if what == "an address" else 0] == 10


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
@pytest.mark.parametrize("written", ["i: (i // 4, i % 4, 3)", "i, j: (j * 16 + i,)", ": (4,)", "i: (T.max(i, 3) - 1,)"])
def test_index_maps_keep_the_type_of_their_indices(written: str, dtype: str) -> None:
    index_map = f'T.index_map(lambda {written}, index_dtype="{dtype}")'
    fn = _reads_back(_TENSOR + f'    T.func_attr({{"layout": {index_map}}})\n    B[0] = A[0]\n')
    layout = fn.attrs["layout"]
    assert {e.ty.dtype.name for e in (*layout.initial_indices, *layout.final_indices)} == {dtype}
    assert {e.ty.dtype.name for e in layout.with_dtype("int64").final_indices} == {"int64"}


def test_a_view_runs() -> None:
    mod = IRModule.from_expr(
        parse(_GRAPH + 'R.memory.view(x, dtype="int32"), R.memory.view(y, R.shape([6]), relative_byte_offset=24)\n')
    )
    x, y = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    for bits, rest in (interpret.run(mod, "main", x, y), unity.VirtualMachine(unity.compile(mod))["main"](x, y)):
        np.testing.assert_array_equal(np.asarray(bits), x.view("int32"))
        np.testing.assert_array_equal(np.asarray(rest), y.ravel()[6:])


@pytest.mark.parametrize("written", ["T.axis.spatial(n, i0 * 8 + i1)", "T.axis.spatial((0, n), i0 * 8 + i1)"])
def test_sizes_of_int32_beside_literal_loops(written: str) -> None:
    text = (
        "@T.prim_func\ndef f(a: T.handle, b: T.handle):\n    n = T.int32()\n"
        '    A = T.match_buffer(a, (n, 4), "float32")\n    B = T.match_buffer(b, (n, 4), "float32")\n'
        "    for i0 in range((n + 7) // 8):\n        for i1, j in T.grid(8, 4):\n            with T.block(\"b\"):\n"
        f"                vi = {written}\n                vj = T.axis.spatial(4, j)\n                T.where(i0 * 8 + i1 < n)\n"
        "                B[vi, vj] = A[vi, vj] + T.float32(1)\n"
    )  # fmt: skip
    fn = _reads_back(text)
    for size in (0, 1, 13):
        given, result = np.ones((size, 4), "float32"), np.zeros((size, 4), "float32")
        unity.compile(IRModule({"f": fn}))["f"](given, result)
        np.testing.assert_array_equal(result, given + 1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (_TENSOR + '    T.func_attr({"target": T.target("cuda", host=3)})\n', "E113"),
        (_TENSOR + '    T.func_attr({"target": T.target("cuda", hots="llvm")})\n', "E112"),
        (_GRAPH + "relax.op.multply(x, y)\n", "E111"),
        ('n = I.dynamic("n", "float3")\n' + _TENSOR + "    B[0] = A[0]\n", "E701"),
        ('n = I.dynamic("n", size=3)\n' + _TENSOR + "    B[0] = A[0]\n", "E112"),
        ("n = I.dynamic(3)\n" + _TENSOR + "    B[0] = A[0]\n", "E113"),
        (_GRAPH + "x.ty.fields\n", "E113"),
        (_GRAPH + "relax.TupleGetItem((x, y), 2)\n", "E113"),
        (_GRAPH + 'R.layout_transform(x, index_map=T.index_map(lambda i, j: (j, i), index_dtype="float32"))\n', "E113"),
        (_GRAPH + "R.layout_transform(x, index_map=T.index_map(lambda i, j: (j, i), inverse_index_map=1))\n", "E117"),
        (_GRAPH + "R.vm.alloc_tensor(x, dtype=\"int8\", offset=0)\n", "E215"),
        (_TENSOR + '    with T.LetStmt(A.data, var=A):\n        B[0] = A[0]\n', "E113"),
        ('@T.prim_func\ndef f(A: T.Buffer((4,), "float32", data=T.address_of(3))):\n    A[0] = 1.0\n', "E114"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(text: str, code: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(text)
    assert caught.value.errors[0].code == code


def test_comments_survive_printing_where_asked_for() -> None:
    text = """\
@I.ir_module
class Module:
    # adds one
    @T.prim_func
    def add(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        # every row
        for i in range(4):  # of four
            # every column
            for j in range(8):
                # the block
                with T.block("b"):
                    # its axes
                    vi, vj = T.axis.remap("SS", [i, j])
                    # a "#" in a text
                    T.evaluate(T.call_extern("int32", "f#g"))  # behind a call

                    # the sum
                    B[vi, vj] = A[vi, vj] + T.float32(1)
        if A[0, 0] > T.float32(0):
            B[0, 0] = T.float32(2)

    # the graph
    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        # in a block
        with R.dataflow():
            # calls add
            lv = R.call_dps(add, (x,), R.Tensor((4, 8), "float32"))  # and nothing else
            gv: R.Tensor((4, 8), "float32") = R.nn.relu(lv)
            R.output(gv)
        # gives it back
        return gv
"""
    mod = parse(text)
    kept = mod.script(comments=True)
    written = [line[line.index("# ") :] for line in text.split("\n") if "# " in line]
    assert sorted(c.strip() for c in kept.split("\n") if c.strip().startswith("#")) == sorted(written)
    assert parse(kept).script(comments=True) == kept
    assert "\n".join(c for c in kept.split("\n") if not c.strip().startswith("#")) == mod.script()
    assert "                # the sum\n                B[vi, vj] =" in kept


def test_comments_at_the_end_of_blocks_stay_there() -> None:
    text = """
@I.ir_module
class M:
    @T.prim_func
    def add(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        # first
        for i in range(4):
            for j in range(8):
                with T.block("b"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj]
                    # end of the block
                # end of the inner loop
            # end of the outer loop
        if A[0, 0] > T.float32(0):
            B[0, 0] = T.float32(2)
            # end of then
        else:
            B[0, 0] = T.float32(
                3
            )
            # end of else

        # end of the function

    # before main
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            lv = R.call_dps(add, (x,), R.Tensor((4, 8), "float32"))
            gv: R.Tensor((4, 8), "float32") = R.nn.relu(lv)
            # before the outputs
            R.output(gv)
            # behind the outputs
        if c:
            y = R.add(gv, gv)
            # end of a branch
        else:
            y = R.multiply(gv, gv)
            # end of the other
        return y
        # behind the result
    # end of the module
"""
    kept = parse(text).script(comments=True)
    lines = [[line for line in part.split("\n") if line.strip()] for part in (text, kept)]
    written, found = [[line.strip() for line in part if "#" in line] for part in lines]
    assert found == written
    assert parse(kept).script(comments=True) == kept
    for part in lines:  # each is as deep as the statement above it, or ends a block around that
        ends = [k for k, line in enumerate(part) if line.strip().startswith("# end of")]
        assert all([part[k].index("#") <= len(part[k - 1]) - len(part[k - 1].lstrip()) for k in ends])
    assert "            # end of else\n        # end of the function\n" in kept
    assert "        return y\n        # behind the result\n    # end of the module" in kept


LISTED = """
@I.ir_module
class M:
    I.module_global_infos({"vdevice": [I.vdevice({"kind": "llvm"}, 0), I.vdevice("llvm", 1)]})

    @R.function
    def main(x: R.Tensor((2,), "float32", "vdevice:1")):
        y = R.to_vdevice(x, "vdevice:0")
        z: R.Tensor((2,), "float32", vdevice="vdevice:1") = R.hint_on_device(y, "vdevice:1")
        return z
"""


def test_virtual_devices_by_their_place_in_the_module() -> None:
    read = parse(LISTED)
    named = parse(LISTED.replace("vdevice:0", "llvm:0").replace("vdevice:1", "llvm:1"))
    assert [str(v.ty) for v in (read["main"], named["main"])] == [str(named["main"].ty)] * 2
    assert parse(read.script()).script() == read.script()
    np.testing.assert_array_equal(unity.compile(read)["main"](np.ones(2, "float32")).numpy(), np.ones(2))
    for wrong in ("vdevice:2", "vdevice:", "vdevice:-1"):
        with pytest.raises(ScriptError, match="E113"):
            parse(LISTED.replace("vdevice:1", wrong, 1))
