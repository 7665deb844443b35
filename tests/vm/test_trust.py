"""The promises of docs/vm.md, "What a file can do": for every row of its table, tests that try to break it."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from programs import run_program
from test_damage import make_model, make_program

import unity
from unity.frontend.torch.runtime.operators import register_torch_operator
from unity.ir.intrinsic import INTRINSICS
from unity.script import parse
from unity.support.errors import ArtifactError, UnityError, VMError
from unity.vm.confined import check_confined
from unity.vm.executable import artifact

MODES = ("native", "bytecode")
ROWS = {
    "machine code of the file": ("test_machine_code_that_is_not_trusted_is_never_linked",),
    "wrong content with right checksums": ("test_damage.py", "test_the_driver_runs_what_the_bytecode_says"),
    "constants": ("test_constants_lie_in_the_file", "test_constants_are_not_written"),
    "Python names in the file": (
        "test_a_name_in_a_file_imports_and_calls_nothing",
        "test_objects_are_built_of_vouched_classes_alone",
    ),
    "registered functions": ("test_only_registered_functions_are_called", "test_library_kernels_are_those_registered"),
    "torch operators (`load_model`)": ("test_operators_that_a_file_may_not_name", "test_no_operator_reaches_out"),
    "C functions, LLVM text, raw addresses in tensor programs": (
        "test_untrusted_text_does_not_leave_its_tensor_programs",
        "test_no_intrinsic_makes_an_address_of_a_number",
        "test_addresses_are_no_parameters",
    ),
    "an access out of bounds in a tensor program": (),  # nothing is promised
    "time and memory": (),
}
"""Of each row of the table: the tests here, or the file of tests."""


def test_every_promise_has_a_test() -> None:
    page = (Path(unity.__file__).parents[1] / "docs" / "vm.md").read_text()
    table = page[page.index("| | `trust=True`") :].split("\n\n")[0]
    rows = [row.split(" | ")[0].strip("| ") for row in table.splitlines() if row.startswith("| ")]
    assert rows == ["", *ROWS]  # the first row is the head
    for name in [name for names in ROWS.values() for name in names]:
        assert callable(globals().get(name)) or (Path(__file__).parent / name).exists()


def parts(path) -> dict[str, bytes]:
    return {name: bytes(data) for name, data in artifact.read_sections(path).items()}


def edit(folder, sections, **changes) -> str:
    """A file with other sections (``kernels`` stands for ``object.kernels``) and right checksums."""
    names = {"kernels": "object.kernels", "driver": "object.driver"}
    changed = {names.get(k, k): v if isinstance(v, bytes) else json.dumps(v).encode() for k, v in changes.items()}
    artifact.write_sections(folder / "edited", {**sections, **changed})
    return str(folder / "edited")


# ---- machine code, and what it is bound to

ADD = """
@R.function
def main(x: R.Tensor(("n",), "float32")):
    with R.dataflow():
        y = R.add(x, R.const({}, "float32"))
        R.output(y)
    return y
"""


def test_machine_code_that_is_not_trusted_is_never_linked(tmp_path, monkeypatch) -> None:
    for name, number in (("one", 1.0), ("two", 2.0)):
        unity.compile(parse(ADD.format(number))).save(tmp_path / name)
    one, two = parts(tmp_path / "one"), parts(tmp_path / "two")
    lying = edit(tmp_path, two, module=one["module"])  # the text says 1, the code adds 2
    x = np.zeros(3, np.float32)
    assert unity.load(lying)["main"](x).numpy().tolist() == [2, 2, 2]
    assert unity.load(lying, trust=False)["main"](x).numpy().tolist() == [1, 1, 1]
    linked = []
    add = unity.ffi.machine_code.engine.Engine.add_object
    monkeypatch.setattr(
        unity.ffi.machine_code.engine.Engine, "add_object", lambda self, data: linked.append(data) or add(self, data)
    )
    broken = edit(tmp_path, one, kernels=b"\xcc" * 999, driver=b"\xcc" * 99)
    assert unity.load(broken, trust=False)["main"](x).numpy().tolist() == [1, 1, 1]
    assert linked and not any([b"\xcc" * 99 in bytes(data) for data in linked])
    for mode in MODES:
        with pytest.raises(UnityError):
            unity.VirtualMachine(unity.load(broken), exec_mode=mode)


def test_the_driver_runs_what_the_bytecode_says(tmp_path) -> None:
    """A driver is run for the bytecode, the words and the types of constants it was made for; else it is made again."""
    unity.compile(parse(ADD.format(1.0))).save(tmp_path / "file")
    sections = parts(tmp_path / "file")
    meta = json.loads(sections["meta"])
    text = sections["bytecode"].decode()
    other = edit(tmp_path, sections, bytecode=text.replace('"main"', '"same"').encode())
    assert unity.load(other)["same"](np.zeros(2, np.float32)).numpy().tolist() == [1, 1]
    for words in ([], meta["words"][::-1], [["imm", "int", 1]], [["row", 0]] * 40, [["data", 7]]):
        made = unity.load(edit(tmp_path, sections, meta={**meta, "words": words}))
        assert made["main"](np.zeros(2, np.float32)).numpy().tolist() == [1, 1]


def test_a_kernel_of_another_signature_finds_no_code(tmp_path) -> None:
    make_program(tmp_path / "file")
    sections = parts(tmp_path / "file")
    *_, kernels = json.loads(sections["bytecode"])
    name, symbol, signature = kernels[0]
    shorter = [signature[0], signature[1][:-1], *signature[2:]]
    unknown = [signature[0], [["z", *p[1:]] for p in signature[1]], *signature[2:]]
    for changed in (shorter, unknown):
        edited = edit(tmp_path, sections, bytecode=[[], [], [], [], [[name, symbol, changed]]])
        for mode in MODES:
            with pytest.raises(UnityError):
                unity.VirtualMachine(unity.load(edited), exec_mode=mode)


# ---- constants


def constants_file(folder) -> tuple[dict[str, bytes], dict]:
    weights = ", ".join([f"{k}.0" for k in range(100)])
    text = ADD.format(f"[{weights}]").replace('("n",)', "(100,)")
    unity.compile(parse(text)).save(folder / "file")
    sections = parts(folder / "file")
    return sections, json.loads(sections["meta"])


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 64}, {"offset": 1 << 61}, {"offset": -64}, {"offset": 4}, {"offset": 1 << 63}, {"shape": [101]}, {"shape": [-100]},
        {"shape": [1 << 46, 1 << 46]}, {"shape": [1 << 46, 1 << 46, 0, -1]}, {"shape": [100] + [1] * 64}, {"shape": [100.0]}, {"shape": 100},
        {"dtype": "float64"}, {"dtype": "handle"}, {"dtype": "object"}, {"dtype": "O"}, {"dtype": "V99"}, {"dtype": "void"}, {"dtype": 7},
    ],
    ids=str,
)  # fmt: skip
def test_constants_lie_in_the_file(tmp_path, change) -> None:
    sections, meta = constants_file(tmp_path)
    fields = ("dtype", "shape", "offset")
    assert len(meta["constants"]) == 1
    row = {**dict(zip(fields, meta["constants"][0])), **change}
    edited = edit(tmp_path, sections, meta={**meta, "constants": [[row[f] for f in fields]]})
    with pytest.raises(ArtifactError) as caught:
        unity.load(edited)
    assert caught.value.code == "E805"


def test_constants_are_not_written(tmp_path) -> None:
    sections, _ = constants_file(tmp_path)
    before = (tmp_path / "file").read_bytes()
    loaded = unity.load(tmp_path / "file")
    with pytest.raises(ValueError):
        loaded.program.constants[0].numpy()[0] = 7
    x = np.zeros(100, np.float32)
    with pytest.raises(VMError):
        loaded["main"](x, out=loaded.program.constants[0])
    bytecode = sections["bytecode"].decode()
    assert bytecode.count('["c",0],["r",1]') == 1  # add(x, constant, result)
    edited = edit(tmp_path, sections, bytecode=bytecode.replace('["c",0],["r",1]', '["r",1],["c",0]').encode())
    with pytest.raises(ArtifactError, match="is written and must not be"):
        unity.load(edited)
    assert (tmp_path / "file").read_bytes() == before


# ---- names


def test_a_name_in_a_file_imports_and_calls_nothing(tmp_path) -> None:
    make_model(tmp_path / "file")
    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w').close()\nclass Trap(list): pass\n")
    sections = {name: bytes(data) for name, data in artifact.read_sections(tmp_path / "file").items()}
    model = json.loads(sections["model"])
    trap = ["trap:Trap", None, [None, None, None, None]]
    objects = [{"object": [name, keys, [{"leaf": None}] * 4]} for name in ("trap:Trap", "os:system", "builtins:eval")
               for keys in (None, list("abcd"), ["__class__", "b", "c", "d"])]  # fmt: skip
    specs = [trap, *[["trap:Trap", context, [None] * 4] for context in objects],
             ["collections:defaultdict", {"list": [{"class": "os:system"}, {"list": list("abcd")}]}, [None] * 4],
             ["collections:defaultdict", {"list": [{"class": "trap:Trap"}, {"list": list("abcd")}]}, [None] * 4],
             ["builtins:list", {"enum": ["trap:Trap", "x"]}, [None] * 4], ["builtins:list", {"dtype": "ops"}, [None] * 4]]  # fmt: skip
    sys.path.insert(0, str(tmp_path))
    try:
        for index, spec in enumerate(specs):
            with pytest.raises(ArtifactError) as caught:
                edited = edit(tmp_path, sections, model={**model, "out_spec": spec})
                unity.load_model(edited, trust=index % 5 > 0)
            assert caught.value.code in ("E805", "E807")
    finally:
        sys.path.remove(str(tmp_path))
    assert not (tmp_path / "sprung").exists() and "trap" not in sys.modules


class Vouched:
    """An object among the results of a model."""

    def __init__(self, tensor) -> None:
        self.tensor, self.label = tensor, "first"

    def __setattr__(self, name, value) -> None:
        calls.append(name)
        super().__setattr__(name, value)

    def __reduce__(self):
        calls.append("reduce")
        return object.__reduce__(self)


calls: list[str] = []


def test_objects_are_built_of_vouched_classes_alone(tmp_path) -> None:
    """From their parts, without their code; a name that is no class of the kind asked for builds nothing."""
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def forward(self, x):
            return Vouched(x + 1)

    unity.compile(Net(), example_inputs=(torch.zeros(3),)).save(tmp_path / "file")
    program = tmp_path / "program.py"
    program.write_text(f"""
import sys; sys.path[:0] = {[str(folder) for folder in Path(__file__).parents[:2]]!r}
import torch, unity
try:
    unity.load_model({str(tmp_path / "file")!r})
except unity.UnityError as error:
    assert error.code == "E807", error
else:
    raise SystemExit("built unasked")
assert "test_trust" not in sys.modules
import test_trust as t
f = unity.load_model({str(tmp_path / "file")!r}, allow=(t.Vouched,))
made = f(torch.zeros(3))
assert type(made) is t.Vouched and made.label == "first" and made.tensor.tolist() == [1, 1, 1]
assert t.calls == [], t.calls
""")
    done = run_program(program, tmp_path)
    assert done.returncode == 0, done.stderr
    sections = parts(tmp_path / "file")
    model = json.loads(sections["model"])
    name = f"{Vouched.__module__}:Vouched"
    assert model["out_spec"][0] == name
    shell = model["out_spec"][1]["object"]
    foreign = ["builtins:eval", "os:system", "builtins:object", "functools:partial", "collections:namedtuple", "torch:load", "subprocess:Popen",
               "transformers.cache_utils:torch", "transformers.modeling_outputs:dataclass", f"{name}.__init__", f"{name}.__class__", ":", "", "x" * 10_000]  # fmt: skip
    keys = [
        ["__class__", "label"],
        ["__dict__", "label"],
        ["tensor", "tensor"],
        ["tensor", "a.b"],
        ["tensor", 7],
        ["tensor"],
        "ab",
    ]
    edits = [[kind, {"object": [kind, *shell[1:]]}, [None]] for kind in foreign]
    edits += [[name, {"object": [name, changed, shell[2]]}, [None]] for changed in keys]
    edits += [[name, {"object": [name, shell[1], [{"leaf": None}, {"class": kind}]]}, [None]] for kind in foreign]
    for index, spec in enumerate(edits):
        with pytest.raises(ArtifactError) as caught:
            unity.load_model(edit(tmp_path, sections, model={**model, "out_spec": spec}), trust=index % 5 > 0)
        assert caught.value.code in ("E805", "E807"), spec


# ---- functions


def test_only_registered_functions_are_called(tmp_path) -> None:
    make_program(tmp_path / "file")
    sections = parts(tmp_path / "file")
    x = np.ones((2, 4), np.float32)
    named = sections["bytecode"].decode(), sections["module"].decode()
    assert all(["test.damage.twice" in text for text in named])
    for name in ("os.system", "builtins.eval", "unity.load", "unity.remove_global_func", "system", "PyRun_SimpleString", "__import__",
                 "unity.vm.build.build", "test.damage", "", "library.", "library.numpy", "torch.ops.aten.from_file"):  # fmt: skip
        bytecode, module = [text.replace("test.damage.twice", name).encode() for text in named]
        edited = edit(tmp_path, sections, bytecode=bytecode, module=module)
        for mode in MODES:
            for trust in (True, False):
                with pytest.raises(
                    UnityError
                ) as caught:  # of a trusted file the driver was made for other names: it is made again
                    unity.VirtualMachine(unity.load(edited, trust=trust), exec_mode=mode)["second"](x)
                assert caught.value.code in ("E630", "E985"), (name, caught.value)
    for kind, name in (
        ("builtin", "eval"),
        ("builtin", "__import__"),
        ("kernel", "system"),
        ("vm", "system"),
        ("python", "eval"),
    ):
        bytecode = named[0].replace('["packed","test.damage.twice"]', json.dumps([kind, name])).encode()
        with pytest.raises(ArtifactError) as caught:
            unity.load(edit(tmp_path, sections, bytecode=bytecode))
        assert caught.value.code == "E805"


@pytest.mark.parametrize("attributes", ["[1]", "7", "{", '{"x": 1', "null", '"text"'])
def test_library_kernels_are_those_registered(attributes) -> None:
    for name in (f"library.numpy.matmul[{attributes}]", f"library.os.system[{attributes}]"):
        with pytest.raises(VMError) as caught:
            unity.ffi.library.require_library(name)
        assert caught.value.code == "E985"


@pytest.mark.parametrize(
    "name", ["load_library", "aten.from_file.default", "aten.save.default", "__class__.__init__", "aten.relu", "x.y.z"]
)
def test_operators_that_a_file_may_not_name(name) -> None:
    pytest.importorskip("torch")
    with pytest.raises(UnityError) as caught:
        register_torch_operator(f"torch.ops.{name}")
    assert caught.value.code == "E630"


REACHES = re.compile("file|path|url|uri|socket|host|port|group_name|qualname")


def test_no_operator_reaches_out() -> None:
    """Of all operators torch has: none that names a file, a process or a place; none without tensors."""
    torch = pytest.importorskip("torch")
    tried = 0
    for schema in torch._C._jit_get_all_schemas():
        texts = [a.name for a in schema.arguments if "str" in str(a.type)]
        tensors = ["Tensor" in str(part.type) for part in (*schema.arguments, *schema.returns)]
        if not any([REACHES.search(name) for name in texts]) and any(tensors):
            continue
        name = f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"
        with pytest.raises(UnityError) as caught:
            register_torch_operator(f"torch.ops.{name}")
        assert caught.value.code == "E630", name
        tried += 1
    assert tried > 100


# ---- text of a file that is not trusted

USE = '\n    y = T.decl_buffer((4,), "float32", data=p)\n    x[0] = y[0]'
LEAVES = {
    "extern": 'T.evaluate(T.call_extern("int32", "system", T.int64(0)))',
    "intrinsic": 'x[0] = T.call_llvm_pure_intrin("float32", "llvm.sqrt.f32", x[0])',
    "address": 'T.evaluate(T.isnullptr(T.reinterpret("handle", T.int64(64))))',
    "text": 'with T.attr(0, "pragma_import_llvm", "define i32 @f() { ret i32 0 }"):\n        x[0] = x[1]',
    "pure_extern": 'x[0] = T.call_pure_extern("float32", "system", x[0])',
    "cpacked": 'T.evaluate(T.call_cpacked("system", x.data, dtype="int32"))',
    "annotation": 'for i in T.serial(4, annotations={"pragma_import_llvm": "define i32 @f() { ret i32 0 }"}):\n        x[i] = x[i]',
    "cast": 'p: T.handle("float32") = T.cast(T.int64(64), "handle")' + USE,
    "let": 'with T.LetStmt(T.Cast("handle", T.int64(64))) as p:\n        y = T.decl_buffer((4,), "float32", data=p)\n        x[0] = y[0]',
    "element": 'q = T.decl_buffer((2,), "handle", data=x.data)\n    p: T.handle("float32") = q[0]' + USE,
    "offset": 'q = T.decl_buffer((2,), "handle", data=x.data)\n    p: T.handle("float32") = T.handle_add_byte_offset(q[0], 8)'
    + USE,
    "registered": 'p: T.handle("float32") = T.call_packed("test.damage.less", T.int64(64), dtype="handle")' + USE,
}


@pytest.mark.parametrize("kind", LEAVES)
def test_untrusted_text_does_not_leave_its_tensor_programs(kind, tmp_path) -> None:
    make_program(tmp_path / "file")
    sections = {name: bytes(data) for name, data in artifact.read_sections(tmp_path / "file").items()}
    text = f'@T.prim_func\ndef f(x: T.Buffer((4,), "float32")):\n    {LEAVES[kind]}\n'
    artifact.write_sections(tmp_path / "edited", {**sections, "module": text.encode()})
    with pytest.raises(ArtifactError) as caught:
        unity.load(tmp_path / "edited", trust=False)
    assert caught.value.code == "E808"
    assert (
        unity.load(tmp_path / "edited")["main"](np.ones((1, 4), "float32"), np.ones((4, 1), "float32"))[0].numpy()
        == 5.5
    )


PARAMETER = """
@T.prim_func
def f(p: T.handle, x: T.Buffer((4,), "float32")):
    y = T.decl_buffer((4,), "float32", data=p)
    x[0] = y[0]
"""


@pytest.mark.parametrize("name", INTRINSICS)
def test_no_intrinsic_makes_an_address_of_a_number(name) -> None:
    """Whatever it is called with: it is no program, or refused, or does not compile."""
    count = max(INTRINSICS[name].arity[0], min(1, abs(INTRINSICS[name].arity[1])))
    for arguments in (", ".join(["n"] * count), ", ".join(["h[0]"] + ["n"] * (count - 1)) if count else ""):
        for dtype in ("", 'dtype="handle"'):
            given = ", ".join([part for part in (arguments, dtype) if part])
            head = 'def f(x: T.Buffer((4,), "float32"), h: T.Buffer((2,), "handle"), n: T.int64):'
            text = f'@T.prim_func\n{head}\n    p: T.handle("float32") = {name}({given}){USE}\n'
            with pytest.raises(UnityError):
                program = parse(text)
                check_confined(unity.vm.stages.as_module(program))
                unity.compile(program)


def test_addresses_are_no_parameters() -> None:
    with pytest.raises(ArtifactError) as caught:
        check_confined(unity.vm.stages.as_module(parse(PARAMETER)))
    assert caught.value.code == "E808"
