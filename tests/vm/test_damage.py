"""Files of strangers: edits with right checksums end in a UnityError or run. What a file may do at all: ``test_trust.py``."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import unity
from unity.script import parse
from unity.support.errors import ArtifactError, UnityError, VMError
from unity.vm.executable import artifact

COUNT = int(os.environ.get("UNITY_DAMAGE", "40"))
"""Edits of each file: ``UNITY_DAMAGE=600 pytest tests/vm/test_damage.py`` is the long run by hand."""
PROGRAM = """
@T.prim_func
def mm(x: T.Buffer((3, 4), "float32"), w: T.Buffer((4, 3), "float32"), y: T.Buffer((3, 3), "float32")):
    for i, j, k in T.grid(3, 3, 4):
        with T.block("mm"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                y[vi, vj] = 0.0
            y[vi, vj] += x[vi, vk] * w[vk, vj]

@R.function
def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")):
    n, m = T.int64(), T.int64()
    with R.dataflow():
        a = R.matmul(x, w)
        b = R.add(a, R.const(1.5, "float32"))
        c = R.reshape(b, R.shape([n * m]))
        d = R.exp(c)
        R.output(b, d)
    return b, d

@R.function
def second(x: R.Tensor(("n", 4), "float32")) -> R.Object:
    n = T.int64()
    y = R.call_packed("test.damage.twice", x, ty_args=R.Tensor((n, 4), "float32"))
    z = R.nonzero(y)
    s = R.shape_of(y)
    return (z, s, y)

@R.function
def loop(i: R.Prim("int64"), x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
    c = R.call_packed("test.damage.positive", R.prim_value(i), ty_args=R.Tensor((), "bool"))
    if c:
        j = R.call_packed("test.damage.less", R.prim_value(i), ty_args=R.Prim("int64"))
        y = R.add(x, x)
        z = loop(j, y)
    else:
        z = x
    return z
"""


def registered(function):
    """Register a function of a careful user: whatever it is given, it works or says so."""

    def careful(*args):
        try:
            return function(*args)
        except Exception as error:
            raise VMError("E603", f"{function.__name__}: {error}") from error

    return unity.register_func(f"test.damage.{function.__name__}", careful, override=True)


@registered
def twice(x):
    return x.numpy() * 2


@registered
def positive(i):
    return np.array(i > 0)


@registered
def less(i):
    return i - 1


def make_program(path) -> None:
    unity.compile(parse(PROGRAM)).save(path)


def make_model(path) -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x, extra):
            self.calls += 1
            y = self.layer(x)
            return {"y": (y, [y.sum(), None, 3]), "k": extra["k"] * 2}

    rows = torch.export.Dim("rows", max=9)
    inputs = (torch.ones(2, 8), {"k": torch.ones(2, 8)})
    unity.compile(Net().eval(), example_inputs=inputs, dynamic_shapes=({0: rows}, {"k": {0: rows}})).save(path)


def damaged(path: Path, seed: int, count: int) -> Counter[str]:
    """Edits tried in processes of their own: how often each error, or none, came out. A program without an end is no defect."""
    script, found, first = Path(__file__).with_name("damage.py"), Counter(), 0
    while first < count:
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(script.parent)!r}); import test_damage, damage; "
             f"damage.main({str(path)!r}, {seed}, {count}, {first})"],
            capture_output=True, text=True, cwd=Path(unity.__file__).parents[1], timeout=max(120, 2 * count),
        )  # fmt: skip
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        found.update([outcome for _, outcome in rows])
        first += len(rows)
        if done.returncode == -signal.SIGPROF:
            found["endless"] += 1
            first += 1
            continue
        assert done.returncode == 0, f"the process ended with {done.returncode}:\n{done.stderr[-3000:]}"
    wrong = [outcome for outcome in found if outcome.startswith("wrong")]
    assert not wrong, "\n".join(wrong)
    return found


@pytest.mark.parametrize("make", [make_program, make_model])
def test_edits_are_refused_or_harmless(make, tmp_path) -> None:
    make(tmp_path / "file")
    found = damaged(tmp_path / "file", 1, COUNT)
    assert sum(found.values()) == COUNT and found["E805"] > COUNT // 3


@pytest.mark.parametrize("what", ["folder", "empty", "short", "sizes", "missing"])
def test_what_is_no_file_of_ours(what, tmp_path) -> None:
    path = tmp_path / "file"
    if what == "folder":
        path.mkdir()
    elif what == "sizes":
        head = artifact.ROW.pack(b"meta", 1 << 62, 1 << 62, bytes(32))
        path.write_bytes(artifact.HEAD.pack(artifact.MAGIC, artifact.VERSION, 1, hashlib.sha256(head).digest()) + head)
    elif what != "missing":
        path.write_bytes(b"" if what == "empty" else artifact.MAGIC)
    with pytest.raises(ArtifactError) as caught:
        unity.load(path)
    assert caught.value.code == ("E801" if what in ("folder", "missing") else "E802")


def spoiled(data: bytes, rng: random.Random) -> bytes:
    """The bytes of a file with some flipped, left out, doubled, exchanged or zeroed, or with an end too early or too late."""
    at, other = sorted(rng.sample(range(len(data)), 2))
    end = min(at + rng.choice((1, 8, 64)), len(data))
    return rng.choice(
        (
            data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
            data[:at] + data[end:],
            data[:end] + data[at:],
            data[:at] + data[other:] + data[at:other],
            data[:at] + bytes(end - at) + data[end:],
            data[:at],
            data + data[:at],
        )
    )


def test_spoiled_bytes_are_refused(tmp_path) -> None:
    path = tmp_path / "file"
    make_program(path)
    data, rng, found = path.read_bytes(), random.Random(7), Counter()
    for number in range(COUNT):
        made = spoiled(data[: 200 if number % 2 else len(data)], rng) + (
            data[200:] if number % 2 else b""
        )  # the head, in turn
        path.write_bytes(made)
        try:
            unity.load(path)
        except UnityError as error:
            found[error.code] += 1
        else:
            assert made == data
            found["whole"] += 1
    assert sum(found.values()) == COUNT and set(found) <= {"E801", "E802", "E803", "E804", "E805", "whole"}, found
