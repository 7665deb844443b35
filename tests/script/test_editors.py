"""Stubs of the namespaces: type checkers accept script written with them, and the decorators read the same files."""

import os
import subprocess
import sys
from pathlib import Path

from unity.ir import IRModule, PrimFunc
from unity.script import ir, relax, tir

ROOT = Path(__file__).resolve().parent.parent.parent
SIGNATURES = [
    ROOT / "unity" / name for name in ("__init__.pyi", "frontend/entry.py", "vm/virtual_machine.py", "ffi/dtype.py")
]
SIGNATURES += sorted((ROOT / "unity" / "script").glob("*.pyi"))
SIGNATURES += sorted((ROOT / "unity" / "te").glob("*.py"))
SIGNATURES += [
    ROOT / "unity" / "transform" / "schedule" / name
    for name in ("__init__.py", "schedule.py", "methods.pyi", "traces/values.py")
]
SIGNATURES += [
    ROOT / "unity" / "ir" / f"{name}.py"
    for name in ("__init__", "node", "types", "expr", "scalar", "function", "module")
]
"""What the samples are checked against; a look into all that these import would check the whole package."""
SAMPLES = sorted((Path(__file__).parent / "editor").glob("*.py"))


def mypy(*arguments, cwd):
    env = {**os.environ, "MYPYPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--follow-imports=skip",
        f"--cache-dir={cwd}/cache",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=cwd, env=env)


def test_samples_pass_a_type_checker_and_run(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import unity; from unity import te; from unity.script import relax as R, tir as T\n"
        "R.no_such_operator\n"
        "T.exp()\n"
        "R.nn.softmax(1, axes=2)\n"
        "unity.compile(1, no_such_option=2)\n"
        "unity.VirtualMachine()\n"
        "sch = unity.Schedule(unity.IRModule({}, {}, {}))\n"
        "sch.splitt(1)\n"
        "sch.split(sch.get_block('C'), [2, 3])\n"
        "sch.parallel()\n"
        "sch.bind(sch.get_loops('C')[0], 1)\n"
        "te.compute((4,), 'x')\n"
        "te.placeholder((4,)).ndims\n"
        "te.create_prim_func(te.reduce_axis(4))\n"
        'def f(A: T.Buffer((4,), "float32")) -> None: ...\n'
    )
    result = mypy(*map(str, [*SIGNATURES, *SAMPLES, wrong]), cwd=tmp_path)
    errors = [line for line in result.stdout.splitlines() if ": error:" in line]
    assert [line.partition(".py:")[2].partition(":")[0] for line in errors] == [
        *["2", "3", "4", "5", "6"],
        *["8", "9", "10", "11", "12", "13", "14", "14", "15"],
    ], result.stdout
    assert all("wrong.py" in line for line in errors)
    assert "valid-type" in errors[-1]


def test_samples_are_read_by_the_decorators():
    for sample in SAMPLES:
        names = {}
        exec(compile(sample.read_text(), str(sample), "exec"), names)
        assert isinstance(names["M"], IRModule)
        assert isinstance(names.get("scale", names["M"]), (IRModule, PrimFunc))


def test_every_name_of_a_namespace_stands_in_its_stub():
    for namespace in (ir, relax, tir):
        assert namespace.__file__ is not None
        stub = Path(namespace.__file__).with_suffix(".pyi").read_text()
        for name in dir(namespace):
            found = any(
                text in stub
                for text in (f"def {name}(", f"class {name}(", f"class {name}:", f"\n{name} =", f"as {name}")
            )
            assert found, f"{namespace.__name__}.{name}"
