"""Devices: a kind such as ``cpu`` or ``cuda`` and an index. Memory and queues of a device live elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ..support.errors import CodegenError, FFIError


@dataclass(slots=True, frozen=True)
class DeviceKind:
    """A family of devices. ``dlpack_code`` is DLPack's number; ``host_memory``: it works on the host's memory, by plain pointers;
    ``count`` says how many there are here."""

    name: str
    dlpack_code: int
    host_memory: bool
    doc: str = field(compare=False)
    count: Callable[[], int] = field(default=lambda: 1, compare=False)


DEVICE_KINDS: dict[str, DeviceKind] = {}
"""Families of devices by name."""
_BY_CODE: dict[int, str] = {}
_PATTERN = re.compile(r"([a-z]\w*)(?::(\d+))?$")


def register_device_kind(kind: DeviceKind) -> None:
    """Make a family of devices known; a number of DLPack stays with the first that has it. Raises CodegenError E533 where another
    one has its name."""
    if DEVICE_KINDS.get(kind.name, kind) != kind:
        raise CodegenError("E533", f"a device kind {kind.name!r} exists already", help="give yours another name")
    DEVICE_KINDS[kind.name] = kind
    _BY_CODE.setdefault(kind.dlpack_code, kind.name)


CPU_KIND = DeviceKind("cpu", 1, True, "The machine Python runs on.")
CUDA_KIND = DeviceKind("cuda", 2, False, "An NVIDIA GPU: a name in scripts; no tensor lies there.", lambda: 0)
for _kind in (CPU_KIND, CUDA_KIND):
    register_device_kind(_kind)


@dataclass(slots=True, frozen=True)
class Device:
    """A device, e.g. ``Device("cpu", 0)``; ``str`` gives ``cpu:0``. Raises FFIError E703 for an unknown kind."""

    kind: str
    index: int = 0

    def __post_init__(self) -> None:
        if self.kind not in DEVICE_KINDS or self.index < 0:
            raise FFIError(
                "E703", f"unknown device {self.kind}:{self.index}", help=f"known kinds: {', '.join(DEVICE_KINDS)}"
            )

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"

    @property
    def host_memory(self) -> bool:
        """True where the host may read the device's memory through plain pointers."""
        return DEVICE_KINDS[self.kind].host_memory

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind."""
        return self.dlpack[0]

    @property
    def exist(self) -> bool:
        """True where programs run on the device."""
        return self.index < DEVICE_KINDS[self.kind].count()

    @property
    def dlpack(self) -> tuple[int, int]:
        """DLPack's (device type, device id)."""
        return DEVICE_KINDS[self.kind].dlpack_code, self.index


CPU = Device("cpu", 0)


def device(text: str | Device, index: int | None = None) -> Device:
    """Read a device from text: "cpu", "cpu:0", "cuda:1", or "cuda" with an ``index``. Raises FFIError E703."""
    if isinstance(text, Device):
        return text
    if index is not None:
        return device(f"{text}:{index}")
    match = _PATTERN.match(text) if isinstance(text, str) else None
    if match is None:
        raise FFIError("E703", f"cannot read the device {text!r}", help='write for example "cpu" or "cuda:0"')
    found = Device(match.group(1), int(match.group(2) or 0))
    return CPU if found == CPU else found


def with_host_memory(place: Device | str) -> Device:
    """The device where a tensor for this one lies: the CPU for one that works on the host's memory. No other memory is managed
    here. Raises FFIError E703."""
    found = device(place)
    if found.host_memory:
        return found if found.kind == CPU.kind else CPU
    raise FFIError("E703", f"no tensor can lie on {found}: there is no memory of a {found.kind} device here",
                   help="leave the device out, or give unity.cpu(): every tensor lies in the host's memory")  # fmt: skip


def device_from_dlpack(code: int, index: int) -> Device:
    """A device from DLPack's numbers. Raises FFIError E703 for kinds outside ``DEVICE_KINDS``."""
    name = _BY_CODE.get(code)
    if name is None:
        raise FFIError("E703", f"DLPack device type {code} is not supported", help="copy the tensor to the cpu first")
    return device(f"{name}:{index}")


def cpu(index: int = 0) -> Device:
    """Return the CPU as a device; its ``index`` is 0."""
    return CPU if index == 0 else Device("cpu", index)


def cuda(index: int = 0) -> Device:
    """GPU number ``index``, as the name of a device: programs do not run there, and tensors have no memory there."""
    return Device("cuda", index)
