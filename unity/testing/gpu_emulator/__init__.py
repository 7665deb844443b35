"""An emulated CUDA device: a driver whose devices run PTX in numpy and look at what each thread does.

``with unity.testing.emulated_gpu() as gpu:`` puts it in force for the whole process. Programs are compiled, loaded and launched
as on a real device; ``gpu.findings`` tells races, divergent barriers, accesses outside allocations and undefined values where they
are used, with the line of the PTX, ``gpu.traffic`` what the memory did for each access.

``ptx`` reads the text; ``instructions`` says what each instruction means; ``machine`` runs lanes; ``device`` is memory and driver.
Instructions that are not modelled refuse the module when it is loaded, by their text. Not modelled, by design: textures and
surfaces, clusters of several blocks, calls through registers, recursion, cooperative grids, and order between blocks by flags
(it shows as a race).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...ffi.cuda.driver import Driver, use_driver
from ...ir.interpret.threads.findings import Finding, Site
from ...support.errors import InternalError, OptionError
from .device.attributes import LIMITS
from .device.driver import EmulatedDriver
from .device.kernels import LaunchRecord
from .machine.batch import Options


class EmulatedGPU:
    """The emulated devices in force: what was launched, and what was found."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self._driver = driver

    @property
    def driver(self) -> Driver:
        """The driver, for `unity/ffi/cuda`; its functions are addresses that machine code can call."""
        return self._driver.driver

    @property
    def launches(self) -> list[LaunchRecord]:
        """Every launch so far, in the order in which they ran."""
        self._driver.streams.finish()
        return self._driver.launches

    @property
    def findings(self) -> list[Finding]:
        """All that is wrong in the kernels that ran: an error each, with its place in the PTX. ``kind`` is "race", "barrier",
        "bounds", "uninitialised", "collective", "alignment", "trap" or "steps"."""
        return [one for launch in self.launches for one in launch.findings]

    @property
    def traffic(self) -> list[Site]:
        """The accesses of memory by instruction and launch: requests of warps, transactions, and the least that would do."""
        return [one for launch in self.launches for one in launch.traffic]


@contextmanager
def emulated_gpu(
    arch: str = "sm_80",
    devices: int = 1,
    memory: int = 4 << 30,
    seed: int | None = None,
    *,
    races: bool = True,
    traffic: bool = True,
    steps: int = 4_000_000,
    blocking: bool = False,
    inexact: bool = False,
    late: bool = False,
) -> Iterator[EmulatedGPU]:
    """Emulated CUDA devices of the architecture ``arch``, in force within the block.

    ``memory`` is the bytes of each, of which only what is used is taken. With a ``seed`` blocks and warps run in a random order, so
    that results that depend on it differ; traffic, which does not, is not counted then. ``races`` and ``traffic`` say what is
    looked for besides values (without them kernels run several times faster); ``steps`` bounds the instructions of a batch of
    blocks. A kernel's fault is told by the first call after its launch, as a real device does, or with ``blocking`` by the
    launch. With ``inexact`` results of approximate instructions (``rcp.approx``) are as far from the exact ones as the PTX ISA
    allows: a device is nearer. With ``late`` work is done when somebody waits for it, and memory waits for its next use as on a
    device: results are wrong where a program does not wait for what it needs, or changes what is still to be read.

    Raises OptionError E393 for an architecture that is not modelled, InternalError E907 where the emulation fails.
    """
    if arch not in LIMITS:
        raise OptionError("E393", f"no emulated device of {arch!r}", help=f"there are {', '.join(LIMITS)}")
    options = Options(seed, steps, races, traffic and seed is None, inexact)
    made = EmulatedDriver(LIMITS[arch], devices, memory, options, blocking, late)
    with use_driver(made.driver):
        yield EmulatedGPU(made)
    for device in made.devices:
        device.memory.drop_if_free()
    if made.failure is not None:
        raise InternalError("E907", f"the emulated device failed: {made.failure!r}") from made.failure


__all__ = ["EmulatedGPU", "LaunchRecord", "emulated_gpu"]
