"""``python -m unity <command>``: print, check, opt, tune, upgrade, explain, cache, version.

Exit codes: 0 fine; 1 the input has errors, a pass is unknown or failed, or ``upgrade --check`` found old spellings; 2 wrong
command line or unreadable file. Invariant: errors in the input are shown as errors, never as a Python traceback.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any

from ..ffi.cache.object_cache import differs, object_cache
from ..ir.module import IRModule
from ..ir.verifier.verifier import violations
from ..script import parse
from ..script.printer.core import DIALECTS
from ..script.printer.highlight import ansi, wants_color
from ..script.printer.show import script
from ..script.upgrade import upgrade
from ..support.errors import OptionError, ScriptError, UnityError, suggest
from ..support.lazy import load
from ..transform.infra.passes import PASSES, Pipeline
from ..version import VERSION

FINE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except OptionError as error:
        print(error, file=sys.stderr)
        return USAGE
    except UnityError as error:
        print(error, file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        return FINE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m unity", description="Work with script files from the command line.",
        epilog="exit codes: 0 fine, 1 errors in the input, 2 wrong command line or unreadable file",
    )  # fmt: skip
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("print", help="read a script and print it in canonical form")
    command.add_argument("file", help="script file, - for standard input")
    command.add_argument("--dialect", choices=sorted(DIALECTS), default="unity")
    command.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    command.set_defaults(run=run_print)

    command = commands.add_parser("check", help="read and verify a script; every error is printed")
    command.add_argument("file", nargs="+", help="script files, - for standard input")
    command.set_defaults(run=run_check)

    command = commands.add_parser("opt", help="run passes over a script and print the result")
    command.add_argument("file", nargs="?", help="script file, - for standard input")
    command.add_argument("-p", "--passes", default="", help='pipeline such as "legalize_ops,dead_code"')
    command.add_argument("--list", action="store_true", help="list the passes and end")
    command.add_argument("--dialect", choices=sorted(DIALECTS), default="unity")
    command.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    command.set_defaults(run=run_opt)

    command = commands.add_parser(
        "tune", help="search for schedules of the tensor programs of a script by measuring them here"
    )
    command.add_argument("file", nargs="?", help="script file, - for standard input")
    command.add_argument("--queue", help="write the candidates to this file, for a machine with the device")
    command.add_argument("--work-off", metavar="QUEUE", help="measure the candidates of such a file; takes no script")
    command.add_argument("--trials", type=int, default=128, help="candidates to measure (default: 128)")
    command.add_argument("--work-dir", default="tuning", help="folder of the database (default: tuning)")
    command.add_argument("--target", help="target; without it, this machine")
    command.add_argument("--op", action="append", help="only programs whose names have this text; may be repeated")
    command.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the size of a symbol; may be repeated"
    )
    command.add_argument("--seed", type=int, default=0, help="start of all random choices (default: 0)")
    command.add_argument("--resume", action="store_true", help="count the trials that the database has")
    command.add_argument("--show", action="store_true", help="print the schedule and the program of each winner")
    command.set_defaults(run=run_tune)

    command = commands.add_parser("upgrade", help="rewrite old spellings in a source file")
    command.add_argument("file", nargs="+", help="source files, - for standard input")
    what = command.add_mutually_exclusive_group()
    what.add_argument("--in-place", action="store_true", help="change the files")
    what.add_argument("--diff", action="store_true", help="print a unified diff")
    what.add_argument("--check", action="store_true", help="only say which files would change, exit 1 if any")
    command.set_defaults(run=run_upgrade)

    command = commands.add_parser("explain", help="explain an error code")
    command.add_argument("code", nargs="?", help="for example E203; without it, all codes are listed")
    command.set_defaults(run=run_explain)

    command = commands.add_parser("cache", help="say what the cache of builds holds, and what each entry was new for")
    command.add_argument("stage", nargs="?", help="program, kernel, schedule, object, ...; without it, all are counted")
    command.set_defaults(run=run_cache)

    command = commands.add_parser("version", help="print the version")
    command.set_defaults(run=run_version)
    return parser


# ---------------------------------------------------------------------------------------------------------- commands


def run_print(options: argparse.Namespace) -> int:
    """``print``: canonical text of a script."""
    write(script(read_script(options.file), options.dialect), options.color)
    return FINE


def run_check(options: argparse.Namespace) -> int:
    """``check``: every error of every file."""
    code = FINE
    for file in options.file:
        problems = errors_of(file)
        for problem in problems:
            print(problem.render(), file=sys.stderr)
        if problems:
            code = FAILED
            print(f"{shown_name(file)}: {len(problems)} error{'s' if len(problems) != 1 else ''}", file=sys.stderr)
        else:
            print(f"{shown_name(file)}: fine")
    return code


def errors_of(file: str) -> list[UnityError]:
    """The errors of a script file: those of reading, else those of verification."""
    text = read_text(file)
    try:
        found = parse(text, name=shown_name(file))
    except ScriptError as error:
        return list(error.errors)
    except UnityError as error:
        return [error]
    return list(violations(found))


def run_opt(options: argparse.Namespace) -> int:
    """``opt``: a pipeline over a module."""
    if options.list:
        load("names")
        for name in sorted(PASSES):
            lines = PASSES[name].doc.strip().splitlines()
            print(f"{name:32} {lines[0] if lines else ''}".rstrip())
        return FINE
    if options.file is None:
        raise OptionError("E004", "opt needs a file", help="or --list to see the passes")
    pipeline = Pipeline.parse(options.passes)
    found = read_script(options.file)
    mod = found if isinstance(found, IRModule) else IRModule.from_expr(found)
    write(script(pipeline(mod), options.dialect), options.color)
    return FINE


def run_tune(options: argparse.Namespace) -> int:
    """``tune``: measured schedules of the tensor programs of a module, and the table of what they gain."""
    if (options.file is None) == (options.work_off is None):
        raise OptionError("E004", "tune takes a script or --work-off QUEUE, one of them")
    if options.work_off is not None:
        if not Path(options.work_off).is_file():
            raise OptionError("E004", f"cannot read {options.work_off}: there is no such file")
        load("options").work_off(options.work_off, options.work_dir, seed=options.seed)
        return FINE
    found = read_script(options.file)
    mod = found if isinstance(found, IRModule) else IRModule.from_expr(found)
    if options.trials < 1:
        raise OptionError("E004", f"--trials {options.trials}: at least one candidate is measured")
    database = load("options").tune_relax(
        mod,
        None,
        options.target,
        options.work_dir,
        options.trials,
        op_names=options.op,
        sizes=dict([_size(text) for text in options.size]),
        seed=options.seed,
        resume=options.resume,
        queue=options.queue,
    )
    if options.show:
        for record in [record for record in database.best_records() if record.gain > 1.0]:
            print(f"# {record.workload.shash}: {record.gain:.2f} times as fast as the default: {record.reason}")
            print(f"{record.as_python()}\n\n{record.script()}\n")
    return FINE


def _size(text: str) -> tuple[str, int]:
    """Name and number of ``--size``."""
    name, _, number = text.partition("=")
    if not name or not number.isdecimal():
        raise OptionError("E004", f"--size {text}: write a symbol and its size, as in --size n=128")
    return name, int(number)


def run_upgrade(options: argparse.Namespace) -> int:
    """``upgrade``: old spellings to the present ones."""
    code = FINE
    for file in options.file:
        before = read_text(file)
        after = upgrade(before, name=shown_name(file))
        if options.check:
            if after != before:
                print(f"{shown_name(file)}: has old spellings")
                code = FAILED
        elif options.diff:
            name = shown_name(file)
            lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, f"{name} (upgraded)")
            sys.stdout.write("".join(lines))
        elif options.in_place and file != "-":
            if after != before:
                Path(file).write_bytes(after.encode("utf-8"))
                print(f"{file}: upgraded")
        else:
            sys.stdout.write(after)
    return code


def run_explain(options: argparse.Namespace) -> int:
    """``explain``: the page of an error code."""
    folder = resources.files("unity.support") / "error_docs"
    pages = {page.name[:-3]: page for page in folder.iterdir() if page.name.endswith(".md")}
    if options.code is None:
        for name in sorted(pages):
            print(pages[name].read_text(encoding="utf-8").splitlines()[0].lstrip("# "))
        return FINE
    code = options.code.strip().upper()
    code = code if code.startswith("E") else f"E{code}"
    if code not in pages:
        raise OptionError("E005", f"no error code {options.code!r}", help=suggest(code, pages))
    print(pages[code].read_text(encoding="utf-8").rstrip())
    return FINE


def run_cache(options: argparse.Namespace) -> int:
    """``cache``: entries by stage; of one stage each entry with the parts of its key that older ones do not have."""
    store = object_cache()
    if options.stage is None:
        print(f"{store.folder or 'caching is off'}")
        sizes: dict[str, list[int]] = {}
        for entry in store.entries():
            sizes.setdefault(entry.stage, []).append(entry.size)
        for stage, found in sorted(sizes.items()):
            print(f"{stage:12}{len(found):8} entries {sum(found) / 2**20:10.2f} MB")
        return FINE
    stages = {entry.stage for entry in store.entries()}
    if options.stage not in stages:
        listed = f"stages: {', '.join(sorted(stages)) or 'none'}"
        raise OptionError("E004", f"the cache has no entries of the stage {options.stage!r}", help=listed)
    entries = store.entries(options.stage)
    for place, entry in enumerate(entries):
        print(f"{time.strftime('%F %T', time.localtime(entry.used))}  {differs(entry.parts, entries[place + 1 :])}")
    return FINE


def run_version(options: argparse.Namespace) -> int:
    """``version``."""
    print(f"unity {VERSION}")
    return FINE


# ----------------------------------------------------------------------------------------------------------- helpers


def shown_name(file: str) -> str:
    """Name of an input in messages."""
    return "<stdin>" if file == "-" else file


def read_text(file: str) -> str:
    """Text of a file or of standard input. Raises OptionError E004."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8")  # line ends stay as they are
    except OSError as error:
        raise OptionError("E004", f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError("E004", f"{shown_name(file)} is not UTF-8 text") from None


def read_script(file: str) -> Any:
    """The module or function a script file holds."""
    return parse(read_text(file), name=shown_name(file))


def write(text: str, color: str) -> None:
    """Write script to standard output, coloured when asked or when it is a terminal."""
    colored = color == "always" or (color == "auto" and wants_color(sys.stdout))
    print(ansi(text) if colored else text)
