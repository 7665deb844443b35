"""Contexts of emulated devices: each device has its primary one; a thread has a stack of them, the top one in force."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from ctypes import c_int, c_uint, c_void_p

from .devices import Device, write
from .status import INVALID_CONTEXT, INVALID_DEVICE, Refused

API_VERSION = 3020


class Contexts:
    """The driver's functions for contexts."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices
        self._thread = threading.local()

    def _stack(self) -> list[Device]:
        """Devices whose contexts the thread has pushed, the current one last."""
        found: list[Device] | None = getattr(self._thread, "stack", None)
        if found is None:
            found = self._thread.stack = []
        return found

    def current(self) -> Device | None:
        """The device of the context in force."""
        return next(reversed(self._stack()), None)

    def current_device(self) -> Device:
        """The device of the context in force. Raises Refused where there is none."""
        found = self.current()
        if found is None:
            raise Refused(INVALID_CONTEXT)
        return found

    def _of(self, handle: int | None) -> Device:
        for device in self._devices:
            if device.handle == handle:
                return device
        raise Refused(INVALID_CONTEXT)

    def cuDevicePrimaryCtxRetain(self, out: int, number: int) -> None:
        if not 0 <= number < len(self._devices):
            raise Refused(INVALID_DEVICE)
        self._devices[number].retained += 1
        write(out, c_void_p, self._devices[number].handle)

    def cuDevicePrimaryCtxRelease_v2(self, number: int) -> None:
        if not 0 <= number < len(self._devices) or not self._devices[number].retained:
            raise Refused(INVALID_CONTEXT)
        self._devices[number].retained -= 1

    def cuCtxSetCurrent(self, handle: int | None) -> None:
        devices = [self._of(handle)] if handle else []
        self._stack()[-1:] = devices

    def cuCtxPushCurrent_v2(self, handle: int | None) -> None:
        self._stack().append(self._of(handle))

    def cuCtxPopCurrent_v2(self, out: int | None) -> None:
        handle = self.current_device().handle
        self._stack().pop()
        if out:
            write(out, c_void_p, handle)

    def cuCtxGetCurrent(self, out: int) -> None:
        device = self.current()
        write(out, c_void_p, device.handle if device else None)

    def cuCtxGetDevice(self, out: int) -> None:
        write(out, c_int, self.current_device().ordinal)

    def cuCtxGetApiVersion(self, handle: int | None, out: int) -> None:
        if self.current() is None:
            self._of(handle)
        write(out, c_uint, API_VERSION)
