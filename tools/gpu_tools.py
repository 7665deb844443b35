"""make gpu-tools: pycuda built from its source archive, and a libcuda that hands every call to the emulated driver.

pycuda has no wheel. It is built from packages alone: NVIDIA's header packages, a stub of libcuda to link against, a C and a C++
compiler. The wheel is kept in the user's cache folder, one for each Python. Without a compiler this says so and does nothing; tests
that need pycuda are skipped then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

VERSION = "2026.1"
HEADERS = ("nvidia-cuda-runtime==13.*", "nvidia-cuda-profiler-api==13.*")
"""Packages with ``cuda.h`` and ``cudaProfiler.h``."""
ARGUMENTS = 12
"""Words that an entry of the emulated libcuda hands on: more than any function of the driver takes."""


def run(*command: object, **options: object) -> str:
    """The output of a command. Raises CalledProcessError where it fails, with what it printed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
        done.check_returncode()
    return str(done.stdout)


def pip(*arguments: object) -> None:
    """Run pip of this Python."""
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def cache_folder() -> Path:
    """The folder for wheels of this Python."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "unity-gpu-tools" / (sysconfig.get_config_var("SOABI") or "python")


def build_wheel(folder: Path, compiler: str) -> Path:
    """A wheel of pycuda in ``folder``."""
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        pip("download", f"pycuda=={VERSION}", "--no-deps", "--no-binary", "pycuda", "-d", work)
        pip("download", *HEADERS, "--no-deps", "-d", work)
        for wheel in work.glob("nvidia*.whl"):
            zipfile.ZipFile(wheel).extractall(work)
        (header,) = work.glob("nvidia/*/include/cuda.h")
        (archive,) = work.glob("pycuda-*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(work, filter="data")
        stub = work / "stub.c"
        stub.write_text("")
        run(compiler, "-shared", "-Wl,-soname,libcuda.so.1", "-o", work / "libcuda.so", stub)
        source = work / f"pycuda-{VERSION}"
        place = [f"--cuda-root={header.parent.parent}", f"--cudadrv-lib-dir={work}", f"--cuda-inc-dir={header.parent}"]
        run(sys.executable, "configure.py", *place, "--no-cuda-enable-curand", cwd=source)
        pip("wheel", source, "--no-deps", "-w", work)
        (made,) = work.glob("pycuda-*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy2(made, folder))


def entries(library: Path) -> list[str]:
    """Functions of the driver that a library asks for."""
    names = [line.split()[-1].partition("@")[0] for line in run("nm", "-D", "--undefined-only", library).splitlines()]
    return sorted([name for name in names if name.startswith("cu")])


def emulated_libcuda(place: Path, names: list[str], compiler: str) -> None:
    """Build a ``libcuda.so.1`` whose functions call the addresses in ``unity_slots``, in the order of ``unity_names``; a function
    whose address is 0 answers CUDA_ERROR_NOT_SUPPORTED."""
    # pycuda frees memory also while an exception is on its way, which the emulation, Python itself, must not see
    words = [f"a{k}" for k in range(ARGUMENTS)]
    taken, given = ", ".join([f"long {word}" for word in words]), ", ".join(words)
    lines = [f"typedef int (*entry)({', '.join(['long'] * ARGUMENTS)});", f"entry unity_slots[{len(names)}];"]
    lines += [f'const char unity_names[] = "{" ".join(names)}";']
    lines += ["int PyGILState_Ensure(void); void PyGILState_Release(int);"]
    lines += ["void PyErr_Fetch(void **, void **, void **); void PyErr_Restore(void *, void *, void *);"]
    lines += [f"static int call(entry to, {taken}) {{", "  if (!to) return 801;", "  void *kind, *value, *trace;"]
    lines += [
        "  int state = PyGILState_Ensure();",
        "  PyErr_Fetch(&kind, &value, &trace);",
        f"  int status = to({given});",
    ]
    lines += ["  PyErr_Restore(kind, value, trace);", "  PyGILState_Release(state);", "  return status;", "}"]
    lines += [f"int {name}({taken}) {{ return call(unity_slots[{k}], {given}); }}" for k, name in enumerate(names)]
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "libcuda.c")
        source.write_text("\n".join(lines) + "\n")
        run(compiler, "-O1", "-w", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", place, source)


def main() -> int:
    """Install pycuda and the emulated libcuda in the environment of this Python."""
    compiler = shutil.which("gcc")
    missing = [tool for tool in ("gcc", "g++", "nm") if shutil.which(tool) is None]
    if missing or compiler is None:
        print(f"pycuda is not built: {', '.join(missing)} not found; tests that need pycuda are skipped")
        return 0
    folder = cache_folder()
    wheels = [*folder.glob(f"pycuda-{VERSION}-*.whl")]
    wheel = wheels[0] if wheels else build_wheel(folder, compiler)
    pip("install", wheel)
    platlib = Path(sysconfig.get_path("platlib"))
    (driver,) = platlib.glob("pycuda/_driver*.so")
    emulated_libcuda(platlib / "libcuda_emulated.so", entries(driver), compiler)
    print(f"pycuda {VERSION} is installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
