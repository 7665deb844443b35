"""Calls for worker processes of tests: ones that fail in every way."""

import ctypes
import os
import time


def double(x):
    return 2 * x


def crash():
    ctypes.string_at(0)


def hang():
    while True:
        time.sleep(1)


def fail():
    raise ValueError("by itself")


def eat():
    return len(bytearray(64 << 30))


def process():
    return os.getpid()


def unsendable():
    return lambda: None
