"""Programs of tests in processes of their own, forked from one that has imported what most of them import first.

A new Python takes half a second to import the compiler, and two with torch: more than most pages and examples compute. Each program
still has a process, a folder, an environment and output of its own, and may end in any way. Not here: tests of what a new process
imports, or of how it starts and ends.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_SERVERS: list[subprocess.Popen[str]] = []
"""The one of this process, once there is one; it ends when its input does."""


def run_program(path: Path, cwd: Path, timeout: float = 240, **options: str) -> subprocess.CompletedProcess[str]:
    """Run a file as ``python path`` would, in the folder ``cwd``, with ``options`` in its environment. Raises TimeoutExpired."""
    server = _SERVERS[0] if _SERVERS else _start()
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **options}
        request = {"path": str(path), "cwd": str(cwd), "environment": environment, "out": str(out), "err": str(err)}
        assert server.stdin is not None and server.stdout is not None
        print(json.dumps(request), file=server.stdin, flush=True)
        if not select.select([server.stdout], [], [], timeout)[0]:
            os.killpg(server.pid, 9)
            _SERVERS.remove(server)
            raise subprocess.TimeoutExpired(str(path), timeout, out.read_text(), err.read_text())
        return subprocess.CompletedProcess([str(path)], int(server.stdout.readline()), out.read_text(), err.read_text())


def _start() -> subprocess.Popen[str]:
    command, environment = [sys.executable, __file__], {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    _SERVERS.append(subprocess.Popen(command, text=True, start_new_session=True, env=environment, **pipes))
    return _SERVERS[0]


def _serve() -> dict[str, str] | None:
    """Fork a process for each request and tell how it ended. In such a process: what it was asked for; None at the end of requests."""
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            found: dict[str, str] = json.loads(line)
            return found
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
    return None


def _become(asked: dict[str, str]) -> None:
    """Give this process the folder, the environment and the files of a program."""
    files = (
        (os.devnull, os.O_RDONLY),
        (asked["out"], os.O_WRONLY | os.O_CREAT),
        (asked["err"], os.O_WRONLY | os.O_CREAT),
    )
    for number, (name, how) in enumerate(files):
        opened = os.open(name, how)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    sys.argv, sys.path[0] = [asked["path"]], str(Path(asked["path"]).parent)


if __name__ == "__main__":
    import unity

    unity.compile, unity.script, unity.Schedule, unity.VirtualMachine  # noqa: B018 - loads their rooms
    with contextlib.suppress(ImportError):
        import torch._dynamo
        import torch.export  # noqa: F401
    gc.freeze()
    program = _serve()
    if program is not None:
        _become(program)
        runpy.run_path(program["path"], run_name="__main__")
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(0)  # to free what was imported before the fork would copy it first
