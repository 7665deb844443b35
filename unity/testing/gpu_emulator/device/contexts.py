"""Contexts of emulated devices: each device has its primary one; a thread has a stack of them, the top one in force."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from ctypes import c_int, c_uint, c_void_p

from .devices import Device, write
from .status import INVALID_CONTEXT, INVALID_DEVICE, SUCCESS

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

    def here(self) -> Device:
        """The device of the context in force, which there is."""
        found = self.current()
        assert found is not None
        return found

    def _of(self, handle: int | None) -> Device | None:
        return next((device for device in self._devices if device.handle == handle), None)

    def cuDevicePrimaryCtxRetain(self, place: int, number: int) -> int:
        if not 0 <= number < len(self._devices):
            return INVALID_DEVICE
        self._devices[number].retained += 1
        return write(place, c_void_p, self._devices[number].handle)

    def cuDevicePrimaryCtxRelease_v2(self, number: int) -> int:
        if not 0 <= number < len(self._devices) or not self._devices[number].retained:
            return INVALID_CONTEXT
        self._devices[number].retained -= 1
        return SUCCESS

    def cuCtxSetCurrent(self, handle: int | None) -> int:
        device, stack = self._of(handle), self._stack()
        if handle and device is None:
            return INVALID_CONTEXT
        if stack:
            stack.pop()
        if device is not None:
            stack.append(device)
        return SUCCESS

    def cuCtxPushCurrent_v2(self, handle: int | None) -> int:
        device = self._of(handle)
        if device is None:
            return INVALID_CONTEXT
        self._stack().append(device)
        return SUCCESS

    def cuCtxPopCurrent_v2(self, place: int | None) -> int:
        stack = self._stack()
        if not stack:
            return INVALID_CONTEXT
        handle = stack.pop().handle
        return write(place, c_void_p, handle) if place else SUCCESS

    def cuCtxGetCurrent(self, place: int) -> int:
        device = self.current()
        return write(place, c_void_p, device.handle if device else None)

    def cuCtxGetDevice(self, place: int) -> int:
        return write(place, c_int, self.here().ordinal)

    def cuCtxGetApiVersion(self, handle: int | None, place: int) -> int:
        return write(place, c_uint, API_VERSION) if self._of(handle) or self.current() else INVALID_CONTEXT

    def cuCtxSynchronize(self) -> int:
        return SUCCESS
