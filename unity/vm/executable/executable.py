"""``Executable``: a compiled module: bytecode, constants, machine code, module text; saved to one file.

Execution side: needs ``ffi`` alone. Not here: reading a file (``vm/load.py``), running (``vm/virtual_machine.py``): whoever
makes an executable hands that in as ``start``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...ffi.abi import Dim
from ...ffi.dtype import from_numpy
from ...ffi.tensor import Tensor
from ...support.arguments import guarded_class
from ...support.errors import ArtifactError
from .artifact import ALIGN, file_path, write_sections
from .bytecode import Program, program_text
from .codec import encode, write_costs
from .memory_formula import MemoryFormula, memory_formula

_FOREIGN_SUFFIXES = (".so", ".dylib", ".dll", ".o", ".a", ".tar")
"""Names of files that linkers, loaders and archivers read."""


def not_pickled() -> ArtifactError:
    """The error of pickling a program, a machine or a function of it."""
    return ArtifactError("E661", "a compiled program is machine code and cannot be pickled",
                         help="program.save(path) and unity.load(path); a torch model: unity.load_model(path)")  # fmt: skip


@guarded_class
@dataclass(slots=True)
class Executable:
    """A compiled module: bytecode, constants and machine code.

    ``objects``: ELF objects, ``kernels`` and, in native mode, ``driver``. ``driver_tag``: the machine and options of the driver.
    ``driver_words``: the objects that stand in its environment.
    """

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
    """The steps by which the constants were made of the module's (``transform/infra/constant_provenance.py``); None if unknown."""
    start: Callable[[Executable], Any] | None = None
    """Makes the virtual machine behind ``executable[name]``."""
    own_code: Callable[[Executable], bytes] | None = None
    """Gives the package's own machine code that the program needs to run, for its file."""
    machine: Any = field(default=None, init=False, repr=False, compare=False)
    """The virtual machine behind ``executable[name]``."""
    accuracy: Any = None
    """With a reduced precision: how far results are from float32 (``frontend/precision/accuracy.py``), if the build had inputs."""
    quantization: Any = None
    """With calibration: which layers are in 8 bits, with which ranges (``frontend/precision/calibration.py``)."""
    choices: Any = None
    """The kernel that computes each product and convolution, with the reason (`frontend.choose`); None for a loaded file."""

    def __reduce__(self) -> Any:
        raise not_pickled()

    def __copy__(self) -> Executable:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Executable:
        return replace(self)  # calls change nothing in it

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function of a virtual machine that this executable keeps. Raises VMError E631 for an unknown name."""
        if self.machine is None:
            assert self.start is not None, "an executable that nobody linked"
            self.machine = self.start(self)
        return self.machine[name]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[str]:
        """The names that ``[]`` takes."""
        return iter([*self.functions, *self.program.kernels])

    def __contains__(self, name: object) -> bool:
        return name in self.functions or name in self.program.kernels

    def __call__(self, *args: Any) -> Any:
        """The function ``main``, or the only one, run with arguments. Raises VMError E631 where there is no such function."""
        names = self.functions or tuple(self.program.kernels)
        return self[names[0] if len(names) == 1 else "main"](*args)

    def time_evaluator(self, name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Time the function ``name``; ``args`` and ``kwargs`` as in ``VirtualMachine.time_evaluator``."""
        self[name]
        return self.machine.time_evaluator(name, *args, **kwargs)  # type: ignore[no-any-return]

    def as_text(self) -> str:
        """Return the disassembly of the bytecode."""
        return program_text(self.program)

    def stats(self) -> str:
        """Return counts and sizes as text."""
        program = self.program
        instructions = sum([len(fn.code) for fn in program.functions.values()])
        constants = sum([c.numpy().nbytes for c in program.constants])
        code = ", ".join([f"{name} {len(data)} bytes" for name, data in self.objects.items()])
        return (f"{len(program.functions)} functions, {instructions} instructions, {len(program.kernels)} kernels, "
                f"{len(program.constants)} constants ({constants} bytes), machine code: {code or 'none'}")  # fmt: skip

    def memory(self, name: str = "main") -> MemoryFormula:
        """Return the memory of one call of the function ``name``, in bytes, as formulas of its symbols. Raises VMError E631."""
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
        """Write the executable to the file ``path``.

        ``source=False`` leaves out the module's text and constants: the file is smaller, but cannot be compiled again for another
        processor. They are also left out after ``discard_parameters``. Raises ArtifactError E801; E809 for a name such as ``m.so``,
        which names another format.
        """
        target = file_path(path)
        suffix = target.suffix
        if suffix.lower() in _FOREIGN_SUFFIXES:
            ours = target.with_suffix(".unity").name
            raise ArtifactError("E809", f"{path}: a saved program is a file of its own format, not a {suffix} file",
                                help=f'save("{ours}"), then unity.load("{ours}"): no linker is needed')  # fmt: skip
        self.count_work()
        text, module_constants = self.describe() if source and self.describe is not None else ("", [])
        loaded = [*self.program.constants, *self.state]
        index_of = {id(c): index for index, c in enumerate(loaded)}
        extra = [c for c in module_constants if id(c) not in index_of]
        index_of |= {id(c): len(loaded) + index for index, c in enumerate(extra)}
        arrays = [np.asarray(c.numpy(), order="C") for c in (*loaded, *extra)]
        meta = {
            "triple": self.triple, "features": self.features, "driver": self.driver_tag,
            "words": self.driver_words, "options": self.options,
            "constants": _table(arrays[: len(loaded)]), "source": _table(arrays[len(loaded) :]),
            "program_constants": len(self.program.constants), "module_constants": [index_of[id(c)] for c in module_constants],
            "costs": write_costs(self.program.costs),
        }  # fmt: skip
        sections: dict[str, Any] = {"meta": json.dumps(meta).encode(), "bytecode": encode(self.program)}
        for name, data in self.objects.items():
            sections[f"object.{name}"] = data
        sections["own_code"] = self.own_code(self) if self.own_code is not None else b""
        sections |= {"module": text.encode(), "model": self.model}
        sections["constants"] = _buffers(arrays[: len(loaded)])
        sections["source"] = _buffers(arrays[len(loaded) :])
        write_sections(path, sections)

    def export_library(self, file_name: str | Path) -> None:
        """Save the executable: TVM's name of ``save``. No linker reads the file: call it (``file_name``) ``m.unity``."""
        self.save(file_name)

    def __repr__(self) -> str:
        return f"<Executable: {self.stats()}>"


def _table(arrays: list[np.ndarray]) -> list[list[Any]]:
    """dtype, shape and place of arrays that stand behind each other."""
    rows, offset = [], 0
    for array in arrays:
        rows.append([from_numpy(array.dtype).name, list(array.shape), offset])
        offset += (array.nbytes + ALIGN - 1) // ALIGN * ALIGN
    return rows


def _buffers(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The bytes of arrays, to be written."""
    return [array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8) for array in arrays]
