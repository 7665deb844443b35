"""Layouts are checked before machine code is loaded, and a process with live results ends cleanly."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from unity.ffi.machine_code import layout
from unity.support.errors import InternalError

PROGRAM = """
import builtins
import numpy as np
from unity.ffi.machine_code.engine import Engine
from unity.ffi.calls.entry_spec import EntrySpec, ShapeArg
from unity.ffi.calls.fastcall import driver_function
from unity.ffi.native.native_helpers import HELPER_DECLARATIONS, dtype_index, helper_symbols
E = Engine(helper_symbols()).add_ir(HELPER_DECLARATIONS + f'''
define ptr @make(ptr %env, ptr %leaves, ptr %symbols) {{
  %out = alloca ptr
  %r = call ptr @unity_new_tensor(i64 {dtype_index("float32")}, i64 1, ptr %symbols, ptr %out)
  ret ptr %r
}}
''')
make = driver_function(EntrySpec("f", (ShapeArg("s", (("sym", 0),)),), ("n",)), E.address("make"), keep=[E])

class Late:
    def __del__(self):
        self.value = make((3,)) if make is not None else None

held, np.held = make((5000,)), make((4,)).numpy()
np.late, late = Late(), Late()
late.me = late
builtins.held = [Late(), make, held]
print("end")
"""


@pytest.mark.parametrize("allocator", ["default", "debug"])
def test_process_ends_cleanly(allocator):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONMALLOC": allocator},
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "end"), done.stderr


def test_layouts_hold_here_and_a_wrong_one_is_an_error(monkeypatch):
    assert layout.wrong_layouts() == []
    monkeypatch.setattr(layout, "ARRAY_DESCR", 48)
    with pytest.raises(InternalError, match="array type") as caught:
        layout.check_layouts()
    assert caught.value.code == "E952"
