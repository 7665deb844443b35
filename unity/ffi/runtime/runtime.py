"""Running the code of each kind of targets: its device, its section of a saved program, how code gets into this process.

Not here: how code is made (`Backend` in `transform/infra/backend.py`). Invariant: whatever a device does, each tensor program has a
raw entry (`ffi/abi.py`) in this process, so that the virtual machine calls all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...support.arguments import checked
from ...support.errors import ArtifactError, CodegenError
from ..abi import KernelSignature
from ..device import DeviceKind, register_device_kind
from ..machine_code.engine import Engine

Link = Callable[[Engine, list[bytes], Mapping[str, KernelSignature]], None]
"""(where code is linked, what the code generator made, the program's signatures by symbol): give each of one's tensor programs a
raw entry there. An object file brings its entries along; ``python_kernels`` makes those that call a Python function."""


@dataclass(slots=True, frozen=True)
class Runtime:
    """``device``: where code runs; ``section``: the part of a saved program that holds it; ``link``: see ``Link``.

    ``brings_entries``: the section's objects are machine code with the raw entries in it; ``python_kernels`` makes none of them.
    """

    device: DeviceKind
    section: str
    link: Link
    brings_entries: bool = False


RUNTIMES: dict[str, Runtime] = {}
"""Runtimes by section."""
DRIVER = "driver"
"""The section with the host's code around tensor programs, which belongs to no target."""
LONGEST = 9
"""Letters of a section's name: what the file format has room for."""


def origin(function: Callable[..., Any]) -> tuple[str, str]:
    """The place where a function is defined, which stays the same when a notebook's cell runs again."""
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", "")


@checked
def register_runtime(runtime: Runtime) -> None:
    """Make a runtime and its device known. Raises CodegenError E533 where another one has the section or the device's name."""
    name, known = runtime.section, RUNTIMES.get(runtime.section, runtime)
    if not name.isidentifier() or len(name) > LONGEST or name == DRIVER or origin(known.link) != origin(runtime.link):
        raise CodegenError("E533", f"{name!r} cannot be the section of a target's code, or is that of another one",
                           help=f"a name of at most {LONGEST} letters, of your own")  # fmt: skip
    register_device_kind(runtime.device)
    RUNTIMES[name] = runtime


def runtime_of(section: str) -> Runtime:
    """The runtime of a section of a saved program. Raises ArtifactError E810."""
    found = RUNTIMES.get(section)
    if found is None:
        raise ArtifactError("E810", f"the program has code for {section!r}, and nobody registered such a target",
                            help="import the package that defines the target first")  # fmt: skip
    return found
