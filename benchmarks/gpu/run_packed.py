"""Time the kernels of this folder on a CUDA device, and keep the fastest of each program.

    python run_packed.py [--only NAME ...] [--budget SECONDS] [--write winners.json] [--emulated [ARCH]]

Needs Python, numpy and NVIDIA's driver. ``tools/pack_gpu_run.py`` made the folder and put this file into it; ``manifest.json`` has
grids, blocks and arguments. Every variant is checked against numpy before it is timed. Each program runs in a process of its own: a
kernel that loses the context or hangs is noted and left out, and the others are tried again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT = 900
"""Seconds that the variants of a program may take."""


def module_of(context: Any, variant: dict[str, Any]) -> Any:
    """Machine code for the device where there is some that it takes, else PTX."""
    from unity.ffi.cuda.module import Module  # noqa: PLC0415 - once the path is chosen

    machine_code = variant["cubins"].get(context.arch) or variant["cubins"].get(f"{context.arch}a")
    if machine_code:
        try:
            return Module(context, (HERE / "kernels" / machine_code).read_bytes())
        except Exception as error:  # as an emulated device refuses it
            if getattr(error, "code", "") != "E739":
                raise
    return Module(context, (HERE / "kernels" / variant["ptx"]).read_bytes())


def fits(variant: dict[str, Any], device: str) -> bool:
    """True if a device takes the code of a variant: that of its architecture, or of an earlier one that has successors."""
    arch = variant["arch"]
    return arch == f"{device}a" if arch.endswith("a") else int(arch[3:]) <= int(device[3:])


def tensor_map(context: Any, form: dict[str, Any], address: int) -> Any:
    """A tensor map, which a kernel gets as an argument."""
    raw = (ctypes.c_ubyte * 192)()
    made = (ctypes.c_ubyte * 128).from_buffer(raw, -ctypes.addressof(raw) % 64)
    rank = len(form["sizes"])
    tables = [(ctypes.c_uint64 * 5)(*form[name]) for name in ("sizes", "pitches")]
    tables += [(ctypes.c_uint32 * 5)(*values) for values in (form["box"], [1] * rank)]
    kinds = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 4)
    encode = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(context.driver.address("cuTensorMapEncodeTiled"))
    status = encode(ctypes.addressof(made), form["type"], rank, address, *tables, 0, form["swizzle"], 2, 0)
    if status:
        raise context.driver.error("cuTensorMapEncodeTiled", status)
    return made


class Loaded:
    """A variant in the memory of a device: ``run`` launches its kernels in order."""

    def __init__(self, context: Any, variant: dict[str, Any], buffers: list[int]) -> None:
        from unity.ffi.cuda.launch import launch  # noqa: PLC0415 - once the path is chosen
        from unity.ffi.cuda.memory import allocate  # noqa: PLC0415

        self.module = module_of(context, variant)
        self.scratch = [allocate(context, size) for size in variant["scratch"]]
        places = [*buffers, *[block.address for block in self.scratch]]
        self.steps = []
        for step in variant["steps"]:
            function = self.module.function(step["kernel"])
            if step["shared"] > 48 << 10:
                self.module.allow_shared(function, step["shared"])
            given: list[Any] = [ctypes.c_uint64(places[number]) for number in step["arguments"]]
            given += [tensor_map(context, form, places[form["of"]]) for form in step["maps"]]
            self.steps.append((function, step["blockIdx"], step["threadIdx"], given, step["shared"]))
        self.run = lambda: [launch(context, *step) for step in self.steps]


def one_program(row: dict[str, Any], left_out: list[str], budget: float, rounds: int, told: Path) -> dict[str, Any]:
    """Check and time the variants of a program; ``told`` says which one is under way."""
    from benchmarks.gpu.clock import Clock, interleaved  # noqa: PLC0415 - once the path is chosen
    from benchmarks.gpu.programs import PROGRAMS, decode, encode  # noqa: PLC0415
    from unity.ffi.cuda import memory  # noqa: PLC0415
    from unity.ffi.cuda.context import context as context_of  # noqa: PLC0415

    program = next(p for p in PROGRAMS if p.name == row["program"])
    context, size = context_of(0), row["size"]
    inputs = program.inputs(size)
    expected = program.expected(inputs)
    raw = [encode(array, program.dtype) for array in inputs]
    shape = inputs[0].shape
    made = encode(expected[:0], program.dtype)
    made.resize(shape)
    blocks = [memory.allocate(context, array.nbytes) for array in (*raw, made)]
    addresses, wrong, runs = [block.address for block in blocks], {}, {}
    for variant in row["variants"]:
        name = variant["name"]
        if name in left_out or not fits(variant, context.arch):
            continue
        told.write_text(name)
        try:
            loaded = Loaded(context, variant, addresses)
            for block, array in zip(blocks, raw):  # a wrong variant may have stored anywhere
                memory.copy_to_device(context, block.address, array.ctypes.data, array.nbytes)
            memory.fill(context, addresses[-1], 0xFF, made.nbytes)
            loaded.run()
            memory.copy_to_host(context, made.ctypes.data, addresses[-1], made.nbytes)
        except Exception as error:  # the variant alone, unless the context is lost: then the process ends
            wrong[name] = str(error).splitlines()[0]
            if getattr(error, "code", "") == "E737":
                raise
            continue
        problem = program.difference(decode(made, program.dtype), expected)
        if problem:
            wrong[name] = problem
        else:
            runs[name] = loaded.run
    told.write_text("")
    seconds = interleaved(Clock(context), runs, budget, rounds) if runs else {}
    best = min(seconds, key=lambda name: seconds[name], default="")
    unit = {"TFLOP/s": 1e12, "GB/s": 1e9}[program.unit]
    rate = f"{program.work(size) / seconds[best] / unit:,.4g} {program.unit}" if best else ""
    return {"program": program.name, "size": size, "device": context.name, "arch": context.arch, "winner": best, "rate": rate,
            "seconds": seconds, "wrong": wrong}  # fmt: skip


def child(options: argparse.Namespace) -> None:
    """One program in this process."""
    row = json.loads((HERE / "manifest.json").read_text())["programs"][options.one]
    in_force: Any = nullcontext()
    if options.emulated:
        from unity.testing import emulated_gpu  # noqa: PLC0415 - in the whole package alone

        in_force = emulated_gpu(options.emulated, traffic=False)
    with in_force as gpu:
        rounds = 1 if options.emulated else 11
        found = one_program(row, options.without, options.budget, rounds, options.write.with_suffix(".told"))
        if gpu is not None:
            found["findings"] = [str(one) for one in gpu.findings[:5]]
    options.write.write_text(json.dumps(found))


def parent(number: int, row: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """One program in processes of its own, until those of its variants that can run have run."""
    answer, left_out = options.write.with_suffix(".part"), {}
    while True:
        answer.unlink(missing_ok=True)
        command = [sys.executable, str(Path(__file__).resolve()), "--one", str(number), "--budget", str(options.budget)]
        command += [
            "--write",
            str(answer),
            "--without",
            *left_out,
            *(["--emulated", options.emulated] if options.emulated else []),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
            named = [line for line in done.stderr.splitlines() if "error[" in line or "Error: " in line]
            lines = [line for line in named if not line.startswith((" ", "help"))]
            said = lines[-1] if lines else f"it ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            said = f"took longer than {LIMIT} s"
        told = answer.with_suffix(".told")
        under_way = told.read_text() if told.exists() else ""
        told.unlink(missing_ok=True)
        if answer.exists():
            found = json.loads(answer.read_text())
            answer.unlink()
            found["wrong"] |= left_out
            return dict(found)
        if not under_way or under_way in left_out:
            names = {name: row[name] for name in ("program", "size")}
            return {**names, "winner": "", "seconds": {}, "wrong": left_out, "failed": said}
        left_out[under_way] = said


def main() -> None:
    """Time what is asked for, print it, write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="parts of names of programs")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of timing for each program")
    parser.add_argument("--write", type=Path, default=HERE / "winners.json")
    parser.add_argument(
        "--emulated", nargs="?", const="sm_80", metavar="ARCH", help="on the emulated device: times mean nothing"
    )
    parser.add_argument("--one", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--without", nargs="*", default=[], help=argparse.SUPPRESS)
    options = parser.parse_args()
    own = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path[:0] = [str(HERE / name) for name in (("package", own) if options.emulated else ("driver",))]
    if options.one is not None:
        child(options)
        return
    found = []
    for number, row in enumerate(json.loads((HERE / "manifest.json").read_text())["programs"]):
        if options.only and not any([part.lower() in row["program"].lower() for part in options.only]):
            continue
        found.append(parent(number, row, options))
        result = found[-1]
        if "E734" in result.get("failed", ""):
            sys.exit(result["failed"])
        said = [result["winner"] or "none", result.get("rate", ""), result.get("failed", "")]
        print(f"{result['program']} {result['size']}: {', '.join([text for text in said if text])}")
        for name, taken in sorted(result["seconds"].items(), key=lambda item: item[1]):
            print(f"    {1e6 * taken:12,.1f} us  {name}")
        for name, problem in result["wrong"].items():
            print(f"    wrong: {name}: {problem}")
        sys.stdout.flush()
        options.write.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
