"""Forking while other threads compile, parse and run: the child computes right and waits for nobody.

The times are long because a machine may be busy: they only end a wait for ever.
"""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import faulthandler, gc, os, sys, threading, time
import numpy as np
import unity
from unity.script import parse

TEXT = '''
@R.function
def main(x: R.Tensor(("n",), "float32")):
    with R.dataflow():
        y = R.exp(R.multiply(x, R.const({}.5, "float32")))
        R.output(y)
    return y
'''

def check(number, vm=None):
    vm = vm or unity.VirtualMachine(unity.compile(parse(TEXT.format(number))))
    x = np.linspace(0, 0.01, 300_000, dtype="float32")
    return np.allclose(vm["main"](x).numpy(), np.exp(x * (number + 0.5)), rtol=1e-5)

unity.set_num_threads(3)
shared, limit = unity.VirtualMachine(unity.compile(parse(TEXT.format(0)))), sys.getrecursionlimit()
stop, wrong = threading.Event(), []

def compiling():
    number = 1000
    while not stop.is_set():
        number += 1
        wrong.extend([number] * (not check(number)))

def running():
    while not stop.is_set():
        wrong.extend([0] * (not check(0, shared)))

threads = [threading.Thread(target=work) for work in (compiling, running, running)]
for thread in threads:
    thread.start()
statuses = []
for number in range(1, 7):
    time.sleep(0.05 + 0.013 * number)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(150, exit=True)  # a child that waits for ever says where
        good = check(0, shared) and check(number) and gc.isenabled() and sys.getrecursionlimit() == limit
        os._exit(0 if good else 1)
    statuses.append(os.waitpid(child, 0)[1])
    if statuses[-1]:
        break
stop.set()
for thread in threads:
    thread.join()
print(statuses, wrong)
"""


def test_children_of_a_busy_process_compute():
    environment = os.environ | {"UNITY_CACHE": "off"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment,
                          timeout=600)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[0, 0, 0, 0, 0, 0] []\n"), done.stderr


IMPORTS = """
import faulthandler, importlib, os, sys, threading, time
import unity

unity.__path__.append(sys.argv[1])
thread = threading.Thread(target=importlib.import_module, args=("unity.slow",))
thread.start()
while "unity.slow" not in sys.modules:
    time.sleep(0.001)
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(60, exit=True)
    import unity.slow
    os._exit(0 if unity.slow.done else 1)
status = os.waitpid(child, 0)[1]
thread.join()
print(status)
"""


def test_children_find_what_another_thread_was_importing(tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.3)\ndone = True\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", IMPORTS, str(tmp_path)], capture_output=True, text=True, check=False,
                          timeout=600)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
