"""The one table of ``UNITY_*`` environment options: name, default, sentence."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .errors import OptionError


@dataclass(slots=True, frozen=True)
class Option:
    """An environment option. ``kind`` is ``int``, ``bool`` or ``str``."""

    name: str
    kind: type
    default: object
    doc: str


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("UNITY_CHECKED", bool, False, "Freeze IR nodes (tests)."),
        Option(
            "UNITY_VERIFY",
            int,
            1,
            "Verify the module: 0 never, 1 when it is parsed, compiled, and where code generation fails, 2 after every pass and"
            " step of a schedule.",
        ),
        Option("UNITY_DUMP", str, "", "Folder that receives one numbered script per pass that changed the module."),
        Option("UNITY_PRINT", str, "", "Names of passes (* for all): print the module before and after them."),
        Option("UNITY_TIME", bool, False, "Print the time each pass takes."),
        Option(
            "UNITY_EXPLAIN",
            bool,
            False,
            "Print the schedule of each tensor program, or why it has none, its accesses, and the reasons of cache misses.",
        ),
        Option(
            "UNITY_CHECK",
            bool,
            False,
            "Check every pass: run the module before and after it on generated inputs and compare.",
        ),
        Option("UNITY_CHECK_INPUTS", int, 4, "Inputs per function and pass of UNITY_CHECK."),
        Option(
            "UNITY_CHECK_STEPS",
            int,
            300_000,
            "Loop iterations one run of UNITY_CHECK may take, a tenth for one tensor program; longer runs are skipped.",
        ),
        Option(
            "UNITY_CHECK_SECONDS",
            int,
            120,
            "Most CPU seconds of UNITY_CHECK in a process; later checks are skipped.",
        ),
        Option("UNITY_CHECK_DIR", str, "", "Folder of the files UNITY_CHECK saves. Default: a temporary folder."),
        Option(
            "UNITY_VERBOSE",
            bool,
            False,
            "Show torch's output, logs and warnings when it refuses to export a model; by default only the error is shown.",
        ),
        Option("UNITY_BOUNDS", bool, False, "Check every index of tensor programs at run time; a wrong one is E614."),
        Option("UNITY_KEEP", str, "", "Folder that receives generated LLVM IR and assembly."),
        Option(
            "UNITY_CACHE",
            str,
            "",
            "Folder of the caches; 'off' disables them. Default: user cache folder.",
        ),
        Option(
            "UNITY_CACHE_BYTES",
            int,
            1 << 30,
            "Largest size of the object cache; above it the least recently used entries are removed. 0 stores nothing.",
        ),
        Option(
            "UNITY_RECYCLE_BYTES",
            int,
            256 << 20,
            "Bytes of freed results and temporaries that are kept for reuse; 0 keeps none.",
        ),
        Option(
            "UNITY_PROGRESS",
            str,
            "auto",
            "Bar for builds of more than two seconds: auto (on a terminal only), on, off.",
        ),
        Option(
            "UNITY_TARGET",
            str,
            "",
            "Default target, and default processor of `llvm`, e.g. `llvm -mcpu=x86-64-v3`. Default: this machine.",
        ),
        Option("UNITY_NUM_THREADS", int, 0, "Threads of the parallel loops; 0 means one per core."),
    )
}


def option(name: str) -> object:
    """Value of an option: the environment's, else the default. Raises OptionError E001 for text that does not fit."""
    entry = OPTIONS[name]
    text = os.environ.get(name)
    if text is None or text == "":
        return entry.default
    if entry.kind is bool:
        return text not in ("0", "false", "no", "off")
    if entry.kind is int:
        try:
            number = int(text)
        except ValueError:
            number = -1
        if number < 0:
            raise OptionError("E001", f"{name} must be an integer of at least 0, got {text!r}", help=entry.doc)
        return number
    return text


def check_options() -> None:
    """Raise OptionError E001 for an option whose text does not fit, whoever asks for it."""
    for name in OPTIONS:
        option(name)


def made_folder(path: str | Path) -> Path:
    """The folder that an option names, made where there is none. Raises OptionError E001."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OptionError(
            "E001", f"{str(path)!r} cannot be a folder: {error}", help="name one that can be written"
        ) from None
    return Path(path)


def int_option(name: str) -> int:
    """Value of an integer option."""
    value = option(name)
    assert isinstance(value, int)
    return value


def bool_option(name: str) -> bool:
    """Value of a yes/no option."""
    return bool(option(name))


def str_option(name: str) -> str:
    """Value of a text option."""
    return str(option(name))
