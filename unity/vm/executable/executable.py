"""``Executable``: a compiled module: bytecode, constants, machine code, module text; saved to one file and loaded again.

Execution side: needs ``ffi`` alone; ``executable["main"]`` loads the virtual machine, which stands on its right. Recompiling
(``trust=False``, or another processor) goes through the hook ``RECOMPILE``, which ``vm.build`` fills when it is imported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ...ffi.abi import Dim
from ...ffi.dtype import DataType, from_numpy
from ...ffi.processor import host_triple, lacking_features
from ...ffi.tensor import Tensor
from ...support.errors import ArtifactError, FFIError, MissingExtraError
from ...support.lazy import lazy_function
from ...support.optional import require
from ...support.schema import Misfit, within
from .artifact import ALIGN, open_sections, write_sections
from .bytecode import Program, program_text
from .codec import SCHEMA, Costs, decode, encode, write_costs
from .memory_formula import MemoryFormula, memory_formula

_machine_of = lazy_function("unity.vm.virtual_machine", "VirtualMachine")
_FOREIGN_SUFFIXES = (".so", ".dylib", ".dll", ".o", ".a", ".tar")
"""Names of files that linkers, loaders and archivers read."""
RECOMPILE: list[Callable[[str, list[Tensor], dict[str, Any], bool], Executable]] = []
"""The hook: (module text, constants, options of the build, is it trusted) -> Executable; empty without the compiler rooms."""


@dataclass(slots=True, frozen=True)
class _Constant:
    """Where a constant lies in its section."""

    dtype: str
    shape: list[Annotated[int, within(0, 1 << 47)]]
    offset: Annotated[int, within(0, 1 << 62)]


@dataclass(slots=True, frozen=True)
class _Meta:
    """The section ``meta`` of a file."""

    triple: str
    features: str
    driver: str
    words: list[list[str | int | bool | None]]
    options: dict[str, str]
    constants: list[_Constant]
    source: list[_Constant]
    program_constants: Annotated[int, within(0, 1 << 31)]
    module_constants: list[Annotated[int, within(0, 1 << 31)]]
    costs: Costs


@dataclass(slots=True)
class Executable:
    """A compiled module. ``objects`` are ELF objects: ``kernels`` and, in native mode, ``driver``; ``driver_tag`` says what
    the driver was made for, ``driver_words`` which objects stand in its environment."""

    program: Program
    objects: dict[str, bytes] = field(default_factory=dict)
    triple: str = ""
    features: str = ""
    driver_tag: str = ""
    driver_words: list[list[Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    keep: list[Any] = field(default_factory=list)
    describe: Callable[[], tuple[str, list[Tensor]]] | None = None
    """Gives the module as text, and the constants it calls ``const_0``, ..., when they are first needed."""
    model: bytes = b""
    """The torch side of a model (``frontend/torch/runtime/model.py``); empty for a program that stands alone."""
    state: list[Tensor] = field(default_factory=list)
    """Tensors of that model which the program writes to."""
    count: Callable[[], dict[str, tuple[Dim, Dim]]] | None = None
    """Gives the work of the kernels when it is first needed."""
    provenance: Any = None
    """How the constants were made of the module's (``transform/infra/constant_provenance.py``), None where nobody knows."""
    machine: Any = field(default=None, init=False, repr=False, compare=False)
    """The virtual machine behind ``executable[name]``."""
    accuracy: Any = None
    """With a reduced precision: how far results are from float32 (``frontend/precision/accuracy.py``), if the build had inputs."""
    quantization: Any = None
    """With calibration: which layers are in 8 bits, with which ranges (``frontend/precision/calibration.py``)."""
    choices: Any = None
    """Which kernel computes each product and convolution, and why (`frontend.choose`); None for a loaded file."""

    def __reduce__(self) -> Any:
        raise ArtifactError("E661", "a compiled program is machine code and cannot be pickled",
                            help="program.save(path) and unity.load(path); a torch model: unity.load_model(path)")  # fmt: skip

    def __copy__(self) -> Executable:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Executable:
        return replace(self)  # calls change nothing in it

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function of a virtual machine that this executable keeps. Raises VMError E631 for an unknown name."""
        if self.machine is None:
            self.machine = _machine_of(self)
        return self.machine[name]  # type: ignore[no-any-return]

    def time_evaluator(self, name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """As ``VirtualMachine.time_evaluator``."""
        self[name]
        return self.machine.time_evaluator(name, *args, **kwargs)  # type: ignore[no-any-return]

    def as_text(self) -> str:
        """Disassembly of the bytecode."""
        return program_text(self.program)

    def stats(self) -> str:
        """Counts and sizes in words."""
        program = self.program
        instructions = sum([len(fn.code) for fn in program.functions.values()])
        constants = sum([c.numpy().nbytes for c in program.constants])
        code = ", ".join([f"{name} {len(data)} bytes" for name, data in self.objects.items()])
        return (f"{len(program.functions)} functions, {instructions} instructions, {len(program.kernels)} kernels, "
                f"{len(program.constants)} constants ({constants} bytes), machine code: {code or 'none'}")  # fmt: skip

    def memory(self, name: str = "main") -> MemoryFormula:
        """Memory of one call as formulas of the symbols: ``print(executable.memory())``. Raises VMError E631."""
        return memory_formula(self.program, name)

    @property
    def functions(self) -> tuple[str, ...]:
        """Names that can be called from outside."""
        return tuple([n for n, f in self.program.functions.items() if f.exported])

    def count_work(self) -> None:
        """Fill ``program.costs``."""
        if self.count is not None:
            self.program.costs = self.count()
            self.count = None

    def save(self, path: str | Path, source: bool = True) -> None:
        """Write everything to one file; without ``source`` the module's text and constants are left out: the file is smaller, and
        cannot be compiled again for another processor. They are left out too where constants were discarded.

        Raises ArtifactError E801; E809 for a name such as ``m.so``, which says another format.
        """
        suffix = Path(path).suffix
        if suffix.lower() in _FOREIGN_SUFFIXES:
            ours = Path(path).with_suffix(".unity").name
            raise ArtifactError("E809", f"{path}: a saved program is a file of its own format, not a {suffix} file",
                                help=f'save("{ours}"), then unity.load("{ours}"): no linker is needed')  # fmt: skip
        self.count_work()
        text, module_constants = self.describe() if source and self.describe is not None else ("", [])
        loaded = [*self.program.constants, *self.state]
        place = {id(c): index for index, c in enumerate(loaded)}
        extra = [c for c in module_constants if id(c) not in place]
        place |= {id(c): len(loaded) + index for index, c in enumerate(extra)}
        arrays = [np.asarray(c.numpy(), order="C") for c in (*loaded, *extra)]
        meta = {
            "triple": self.triple, "features": self.features, "driver": self.driver_tag,
            "words": self.driver_words, "options": self.options,
            "constants": _table(arrays[: len(loaded)]), "source": _table(arrays[len(loaded) :]),
            "program_constants": len(self.program.constants), "module_constants": [place[id(c)] for c in module_constants],
            "costs": write_costs(self.program.costs),
        }  # fmt: skip
        sections: dict[str, Any] = {"meta": json.dumps(meta).encode(), "bytecode": encode(self.program)}
        for name, data in self.objects.items():
            sections[f"object.{name}"] = data
        sections |= {"module": text.encode(), "model": self.model}
        sections["constants"] = _buffers(arrays[: len(loaded)])
        sections["source"] = _buffers(arrays[len(loaded) :])
        write_sections(path, sections)

    def export_library(self, file_name: str | Path) -> None:
        """``save`` by TVM's name. The file is one of ours, which ``load`` reads and no linker does: call it ``m.unity``.

        Raises what ``save`` raises: ArtifactError E809 for ``m.so`` and ``m.tar``.
        """
        self.save(file_name)

    def __repr__(self) -> str:
        return f"<Executable: {self.stats()}>"


def load(path: str | Path, trust: bool = True) -> Executable:
    """A saved executable. Its constants are the mapped file: no copy is made, and processes share them.

    The file holds machine code: ``trust=True`` runs it after its checksums hold (they find damage, not malice). ``trust=False``
    never touches it: the program is compiled again from the module text saved beside it, as it is when the file was made for
    a processor with features this one lacks; text that leaves its tensor programs is refused. Raises ArtifactError E801 to E808.
    """
    parts = open_sections(path)
    try:
        sections = {name: section.read() for name, section in parts.items() if name != "source"}
        meta: _Meta = SCHEMA.record(_Meta, json.loads(bytes(sections["meta"])))
        text = bytes(sections["module"]).decode()
        bytecode, model, pool = bytes(sections["bytecode"]), bytes(sections["model"]), sections["constants"]
        source = parts["source"]
        constants = _constants(meta.constants, pool)
        count, every = meta.program_constants, len(constants) + len(meta.source)
        if count > len(constants) or max(meta.module_constants, default=-1) >= every:
            raise Misfit("it names constants that are not there")
    except (KeyError, ValueError, RecursionError) as error:
        raise ArtifactError("E805", f"{path}: the description of the program is not valid: {error}") from error

    def describe() -> tuple[str, list[Tensor]]:
        known = [*constants, *(_constants(meta.source, source.read()) if meta.source else ())]
        return text, [known[k] for k in meta.module_constants]

    missing = missing_features(meta.triple, meta.features)
    if not trust or missing:
        reason = f"{path} was compiled for another processor ({missing})" if missing else f"{path} is not trusted"
        options: dict[str, Any] = dict(meta.options)
        if missing:
            options["target"] = _for_this_machine(str(options.get("target", "")))
        made = _recompile(*describe(), options, trust, reason)
    else:
        objects = {
            name.removeprefix("object."): bytes(data) for name, data in sections.items() if name.startswith("object.")
        }
        made = Executable(
            decode(bytecode, constants[:count], meta.costs), objects, meta.triple, meta.features, meta.driver, meta.words,
            dict(meta.options), [pool], describe,
        )  # fmt: skip
    made.model, made.state = model, constants[count:]
    return made


def _table(arrays: list[np.ndarray]) -> list[list[Any]]:
    """dtype, shape and place of arrays that stand behind each other."""
    rows, place = [], 0
    for array in arrays:
        rows.append([from_numpy(array.dtype).name, list(array.shape), place])
        place += (array.nbytes + ALIGN - 1) // ALIGN * ALIGN
    return rows


def _buffers(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The bytes of arrays, to be written."""
    return [array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8) for array in arrays]


def _constants(table: list[_Constant], pool: memoryview) -> list[Tensor]:
    """Tensors over the mapped file: read-only by convention, private pages. Raises ArtifactError E805."""
    memory = np.frombuffer(pool, np.uint8) if pool.nbytes else np.empty(0, np.uint8)
    memory.flags.writeable = False
    found = []
    try:
        for row in table:
            data_type = DataType(row.dtype).numpy
            size = data_type.itemsize * math.prod(row.shape)
            if row.offset % ALIGN or row.offset + size > memory.size:
                raise ValueError("a constant lies outside the file")
            array = memory[row.offset : row.offset + size].view(data_type) if size else np.empty(0, data_type)
            found.append(Tensor(array.reshape(row.shape)))
    except (ValueError, TypeError, FFIError, OverflowError) as error:
        raise ArtifactError("E805", f"the constants of the file are not valid: {error}") from error
    return found


def missing_features(triple: str, features: str) -> str:
    """Why machine code for this triple and these features cannot run here, or ""."""
    if not triple:
        return ""
    if triple.split("-")[0] != host_triple().split("-")[0] or triple.split("-")[2:3] != host_triple().split("-")[2:3]:
        return f"{triple}, this machine is {host_triple()}"
    lacks = lacking_features(features)
    return f"it needs {', '.join(lacks[:8])}" if lacks else ""


def _for_this_machine(target: str) -> str:
    """A target without the processor and the features it names."""
    return " ".join([part for part in target.split() if not part.startswith(("-mcpu=", "-mattr=", "-mtriple="))])


def _recompile(text: str, constants: list[Tensor], options: dict[str, Any], trust: bool, reason: str) -> Executable:
    if not RECOMPILE:
        try:
            require(f"{__package__}.build")
        except MissingExtraError as error:
            raise ArtifactError("E804", f"{reason}, and the compiler is not installed: {error}") from error
    if not text.strip() or not RECOMPILE:
        raise ArtifactError("E804", f"{reason}, and the file holds no module text to compile again")
    return RECOMPILE[0](text, constants, options, trust)
