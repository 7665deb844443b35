"""``vm.profile``: rows, work, timeline; and the work stored in a saved file."""

import json

import numpy as np
import pytest

import unity
from unity.support.errors import UnityError, VMError
from unity.vm.roofline import machine_roofline

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def mm(a: T.handle, b: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (16, 8), "float32")
        C = T.match_buffer(c, (n, 8), "float32")
        for i, j, k in T.grid(n, 8, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((16, 8), "float32")):
        n = T.int64()
        y = R.call_dps(mm, (x, w), R.Tensor((n, 8), "float32"))
        z = R.call_packed("test.profile.seen", y, sinfo_args=R.Tensor((n, 8), "float32"))
        return z
"""


@pytest.fixture(scope="module")
def executable():
    unity.register_func("test.profile.seen", lambda y: y, override=True)
    return unity.compile(unity.script.parse(TEXT))


def arguments(n):
    return np.ones((n, 16), "float32"), np.ones((16, 8), "float32")


def check(vm, n):
    found = vm.profile("main", *arguments(n), runs=3)
    assert len(found.runs) == 3
    assert {row.name: row.calls for row in found.rows} == {"mm": 1, "test.profile.seen": 1}
    row = next(row for row in found.rows if row.name == "mm")
    assert row.flops == 2 * n * 8 * 16
    assert row.moved == 4 * (n * 16 + 16 * 8 + n * 8 + n * 8)
    assert row.seconds > 0 and 0 < row.share <= 1
    assert "y = R.call_dps(mm" in row.place
    assert abs(sum([r.share for r in found.rows]) - 1) < 1e-6
    return found


@pytest.mark.parametrize("mode", ["native", "bytecode"])
def test_rows(executable, mode):
    vm = unity.VirtualMachine(executable, exec_mode=mode)
    for n in (1, 5):
        check(vm, n)


def test_table_and_trace(executable, tmp_path):
    found = check(unity.VirtualMachine(executable), 4)
    text = str(found)
    assert "GFLOP/s" in text and "mm" in text and "roofline" in text
    found.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events] == ["mm", "test.profile.seen"]
    assert events[0]["ts"] + events[0]["dur"] <= events[1]["ts"] + 1e-3
    assert events[0]["args"]["flops"] == 2 * 4 * 8 * 16


def test_saved_file_keeps_the_work(executable, tmp_path):
    executable.save(tmp_path / "m.unity")
    check(unity.VirtualMachine(unity.load(tmp_path / "m.unity")), 3)


def test_bad_arguments(executable):
    vm = unity.VirtualMachine(executable)
    with pytest.raises(VMError, match="no graph function"):
        vm.profile("mm", *arguments(2))
    with pytest.raises(UnityError):
        vm.profile("main", arguments(2)[0])
    with pytest.raises(UnityError):
        vm.profile("main", arguments(2)[1], arguments(2)[1])


def test_the_roofline_is_that_of_the_threads_in_use():
    before = unity.num_threads()
    try:
        for threads in (1, 2, 1):
            unity.set_num_threads(threads)
            assert machine_roofline().threads == threads
        assert machine_roofline() is machine_roofline()  # measured once
    finally:
        unity.set_num_threads(before)
