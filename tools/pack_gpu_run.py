"""Make a folder with all that a visit to a machine with a GPU needs, where nothing can be installed.

python tools/pack_gpu_run.py FOLDER [--size full|quick|tiny] [--only NAME ...] [--arch sm_80 sm_90a] [--cubins sm_80 sm_90]

run_packed.py times the packed kernels: needs Python, numpy and the driver alone
bench_packed.py benchmarks/bench_gpu.py with the package of this folder: needs llvmlite as well
manifest.json programs, sizes, variants: files, grids, arguments
kernels/      PTX of every variant, machine code where ``ptxas`` is at hand
programs/     saved programs by the rules, for ``unity.load``
driver/       the part of the package that ``run_packed.py`` imports
package/      the package, lark, benchmarks, tests, examples
python3.x/    ml_dtypes for the Python that packed, used by ``bench_packed.py`` under that one
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import unity  # noqa: E402
from benchmarks.gpu.programs import PROGRAMS, Program  # noqa: E402
from benchmarks.gpu.variants import launches, variants  # noqa: E402
from unity.script import parse  # noqa: E402
from unity.support.errors import UnityError  # noqa: E402
from unity.target.cuda.assemble import assemble, find_assembler  # noqa: E402

MOST_BYTES = 60 << 20
DRIVER = (
    "unity/support/__init__.py", "unity/support/errors.py", "unity/support/forking.py", "unity/support/source.py",
    "unity/ffi/cuda", "benchmarks/gpu/__init__.py", "benchmarks/gpu/clock.py", "benchmarks/gpu/programs.py",
)  # fmt: skip
"""What ``run_packed.py`` imports. The packages ``unity`` and ``unity.ffi`` are empty there: nothing of theirs is needed."""
SCRIPTS = ("run_packed.py", "bench_packed.py")
PACKAGE = ("unity", "benchmarks", "tests", "examples", "pyproject.toml")
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def copy(source: Path, target: Path) -> None:
    """A file, or a folder without what Python and tools leave in it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".*", "*.pyc"), dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def installed(name: str) -> Path:
    """The folder of a package of this Python."""
    found = importlib.util.find_spec(name)
    assert found is not None and found.origin is not None, name
    return Path(found.origin).parent


def pack_code(folder: Path) -> None:
    """The package and what it needs, and the runner."""
    for name in PACKAGE:
        copy(ROOT / name, folder / "package" / name)
    copy(installed("lark"), folder / "package" / "lark")
    copy(installed("ml_dtypes"), folder / PYTHON / "ml_dtypes")
    for name in DRIVER:
        copy(ROOT / name, folder / "driver" / name)
    for name in ("unity", "unity/ffi"):
        (folder / "driver" / name / "__init__.py").touch()
    for name in SCRIPTS:
        copy(ROOT / "benchmarks" / "gpu" / name, folder / name)


def assembled(arch: str, cubins: list[str]) -> list[str]:
    """The architectures that code for one is assembled for; one without successors, such as sm_90a, has itself alone."""
    return [arch] if cubins and arch.endswith("a") else cubins


def pack_program(
    folder: Path, program: Program, size: int, archs: list[str], cubins: list[str], tiny: bool
) -> dict[str, Any]:
    """A program of the table at a size: its variants as files, and their entry of the manifest. Equal variants are one."""
    found: dict[str, Any] = {"program": program.name, "size": size, "variants": []}
    seen: set[str] = set()
    for number, (name, arch, func) in enumerate(variants(program, size, archs, tiny)):
        try:
            ptx, launch = launches(func, arch)
        except UnityError as error:  # a variant that this size does not allow
            print(f"{program.name} {size}: {name}: {error}")
            continue
        key = ptx.replace(f".target {arch}", "") + json.dumps(launch)
        if key in seen:
            continue
        seen.add(key)
        stem = f"{program.name}-{size}-{number}".replace(" ", "_").replace("*", "x").replace("(", "").replace(")", "")
        (folder / "kernels" / f"{stem}.ptx").write_text(ptx)
        variant = {"name": name, "arch": arch, "ptx": f"{stem}.ptx", "cubins": {}, **launch}
        for other in assembled(arch, cubins):
            made = assemble(ptx, other)
            (folder / "kernels" / f"{stem}.{other}.cubin").write_bytes(made.cubin)
            variant["cubins"][other] = f"{stem}.{other}.cubin"
            variant.setdefault("resources", {})[other] = {
                kernel: [r.registers, r.shared_bytes, r.spill_bytes] for kernel, r in made.kernels.items()
            }
        found["variants"].append(variant)
    wanted = assembled(archs[0], cubins)
    cubin = f" -cubin={','.join(wanted)}" if wanted else ""
    executable = unity.compile(parse(program.script(size)), target=f"cuda -arch={archs[0]}{cubin}")
    executable.save(folder / "programs" / f"{program.name}-{size}.unity".replace(" ", "_").replace("*", "x"))
    return found


def pack(folder: Path, size: str, only: list[str], archs: list[str], cubins: list[str]) -> int:
    """Fill a folder; its bytes."""
    for part in ("kernels", "programs"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    pack_code(folder)
    rows = []
    for program in PROGRAMS:
        if only and not any([part.lower() in program.name.lower() for part in only]):
            continue
        for extent in program.sizes[size]:
            rows.append(pack_program(folder, program, extent, archs, cubins, size == "tiny"))
            print(f"{program.name} {extent}: {len(rows[-1]['variants'])} variants", flush=True)
    text = json.dumps({"archs": archs, "cubins": cubins, "python": PYTHON, "programs": rows}, indent=1)
    (folder / "manifest.json").write_text(text)
    return sum([path.stat().st_size for path in folder.rglob("*") if path.is_file()])


def main(arguments: list[str] | None = None) -> None:
    """Pack, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=("full", "quick", "tiny"), default="full")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument(
        "--arch", nargs="+", default=["sm_80", "sm_90a"], help="of the PTX; code for the first fits most devices"
    )
    parser.add_argument("--cubins", nargs="*", default=["sm_80", "sm_90"], help="machine code, where ptxas is at hand")
    options = parser.parse_args(arguments)
    cubins = options.cubins if find_assembler() else []
    if options.cubins and not cubins:
        print("There is no ptxas here: PTX alone is packed.")
    size = pack(options.folder, options.size, options.only, options.arch, cubins)
    print(f"{size / 2**20:.1f} MB in {options.folder}")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES >> 20} MB: pack fewer programs, by --only, or no --cubins")


if __name__ == "__main__":
    main()
