"""Each intrinsic of the table in a kernel, with operands of many types: code for a device, or a refusal before LLVM sees it.

``python tests/gpu/intrinsic_table.py ARCH`` prints each program before it compiles it, as LLVM ends the process over what it cannot
select; then the names of those that have code.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

from device_programs import device_function

import unity
from unity.ir.intrinsic import INTRINSICS
from unity.support.errors import InternalError
from unity.target.cuda.codegen import ptx_of, write_programs

TYPES = ("float32", "float16", "int32", "bool")
OPERANDS = ("{x}", "tx", "1", "X_ptr", "T.address_of(X[tx])", "T.bool(True)", '"float32"')
MOST = 6
"""Operands of an intrinsic that takes any number."""


def programs(name: str) -> Iterator[tuple[str, str]]:
    """(type, statement) of calls of an intrinsic: all operands of a kind, and mixtures."""
    row = INTRINSICS[name]
    least, most = row.arity
    counts = {least, min(max(least, most), MOST) if most > 0 else least + 2}
    for count in sorted(counts):
        mixed = [(kind,) * count for kind in OPERANDS]
        mixed += [tuple(itertools.islice(itertools.cycle(OPERANDS[start:]), count)) for start in range(5) if count > 1]
        for operands in dict.fromkeys(mixed):
            for dtype in TYPES if "{x}" in operands else TYPES[:1]:
                call = f"{name}({', '.join(operands).format(x='X[tx]')})"
                yield dtype, call if row.result == "void" else f"Y[tx] = {call}"


def written(dtype: str, statements: list[str], arch: str) -> Any:
    """A kernel as LLVM IR; None where it is refused. Raises whatever else happens."""
    try:
        func = device_function("\n".join(statements), X=dtype, Y=dtype)
        return write_programs({"kernel": func}, unity.Target(f"cuda -arch={arch}"))
    except InternalError:
        raise
    except unity.UnityError:
        return None


if __name__ == "__main__":
    arch = sys.argv[1]
    for name in sorted(INTRINSICS):
        taken: dict[str, list[str]] = {}
        for dtype, statement in programs(name):
            if written(dtype, [statement], arch) is not None:
                taken.setdefault(dtype, []).append(statement)
        for dtype, statements in taken.items():
            print(f"{dtype}: {statements}", file=sys.stderr, flush=True)
            made = written(dtype, statements, arch)
            assert made is not None and ".entry" in ptx_of(made.device, made.arch)
        if taken:
            print(name)
