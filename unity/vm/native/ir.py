"""The native driver in LLVM IR: the tools for writing one function. Instructions are in ``body.py``, the frame
and the module in ``driver.py``.

Per function three symbols:

    ptr body.F(ptr env, ptr leaves, ptr symbols, i64 limit)  the code; parameters as leaf records of the calling convention
    ptr drive.F(ptr env, ptr leaves, ptr symbols)            behind the checked entry: Python calls this
    ptr call.F(ptr env, ptr args, i64 limit)                 for calls inside the program: objects, checked here

``env`` is an array of words (``EnvLayout``): the arena, then Python objects. ``limit`` is the lowest address the C stack
may reach, by which recursion is bounded. A tensor in a register is (%p pointer, %o Tensor object or null, %w owner of its
memory or null); dimensions are formulas of the slots. Invariant: every reference held by a frame is dropped at its one exit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...ffi.abi import Dim, ScalarParam, symbols_of
from ...ffi.calls.object_ir import ObjectWriter
from ...ffi.dtype import DataType
from ...ffi.formula import FormulaEmitter
from ...ffi.machine_code.layout import ALIGNED, C_CONTIGUOUS
from ...ffi.native.native_helpers import LEAF_BYTES
from ...ffi.native.runtime_table import DTYPE_INDEX, packed_dlpack_type
from ..executable import bytecode as bc
from ..executable.entry import EntryPlan, plan_entry
from .segments import Segment

ARENA_WORDS = 8
"""Words before the objects: arena address, its size, its lock, spare; the last thread, the lowest address of its stack."""
FIXED = ("report", "recheck", "explain", "note", "value", "truth", "table", "closure_of", "function_offset")
"""Objects every program has: callbacks of ``Callbacks`` in ``run.py`` and the table of registered functions."""
ON_DEVICE = ("device", "place", "packed", "invoke", "new_block", "grow")
"""Objects of a program whose tensors lie in a device's own memory: that device, its number as DLPack has it, callbacks."""
KERNEL_FAILED = 64
"""Number of the error of a failed check in a kernel, plus that of the function which calls the kernel."""
NO_VALUE = 16
"""Number of the error of an operator that has no value for some numbers, plus that of the operator in ``FAULTS``."""
STACK_BYTES = 3 << 20
"""Depth of C stack that calls inside the program may use before E632."""

DECLARATIONS = """\
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare ptr @llvm.frameaddress.p0(i32)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
declare i32 @PyCallable_Check(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
"""


@dataclass(slots=True)
class EnvLayout:
    """The object in each word.

    Keys: ("fixed", name), ("imm", type name, value), ("const", i), ("data", i), ("row", i), ("name", i), ("builtin", name).
    """

    words: dict[tuple[object, ...], int] = field(default_factory=dict)

    def word(self, *key: object) -> int:
        """Byte offset of an object's word, added when new."""
        found = self.words.get(key)
        if found is None:
            found = self.words[key] = ARENA_WORDS + len(self.words)
        return found * 8


def register_scalars(program: bc.Program, instruction: bc.Instruction) -> list[int]:
    """The arguments of a kernel that are scalars in registers: where it fails, their values follow the slots."""
    if not isinstance(instruction, bc.Call):
        return []
    entry = program.table[instruction.function]
    params = program.kernels[entry.name].params if entry.kind == "kernel" else ()
    return [
        k for k, (arg, param) in enumerate(zip(instruction.args, params))
        if isinstance(arg, bc.Reg) and isinstance(param, ScalarParam) and param.dtype != "handle"
    ]  # fmt: skip


def quoted(name: str) -> str:
    """A global name of LLVM IR."""
    plain = [chr(b) if b < 128 and (chr(b).isalnum() or b in b"._$") else f"\\{b:02X}" for b in name.encode()]
    return f'@"{"".join(plain)}"'


class FunctionWriter(ObjectWriter):
    """Writes one function of a program; ``fail`` is the exit with the Python error already set."""

    def __init__(
        self, program: bc.Program, fn: bc.VMFunction, index: int, layout: EnvLayout, used: set[str], on_device: bool
    ) -> None:
        super().__init__()
        self.program = program
        self.on_device = on_device
        """True if tensors lie in memory that the host does not read."""
        self.fn = fn
        self.index = index
        self.layout = layout
        self.used = used
        self.plan: EntryPlan = plan_entry(fn, program)
        self.scratch = 1
        self.allocas: list[str] = []
        self.formulas = FormulaEmitter(self.emit, self.formula_fault)
        self.owned_storage = boxes_storage(fn, program)
        self.writers: dict[int, list[bc.Call]] = {}
        for instruction in fn.code:
            if isinstance(instruction, bc.Call):
                self.writers.setdefault(instruction.dst, []).append(instruction)
        self.slot_words = len(fn.slots) + max([len(register_scalars(program, i)) for i in fn.code], default=0) + 1
        self.current = 0
        """Number of the instruction that is being written."""
        self.records: dict[int, str] = {}
        """Leaf record of each register whose tensor was read by a check."""
        self.segments: list[Segment] = []
        self.known_dims: dict[Dim, str] = {}
        self.known_arrays: dict[tuple[Dim, ...], str] = {}
        self.known_sizes: dict[tuple[str, tuple[Dim, ...]], str] = {}

    def alloca(self, kind: str) -> str:
        """Space in the frame."""
        self.count += 1
        self.allocas.append(f"  %a{self.count} = alloca {kind}, align 16")
        return f"%a{self.count}"

    def env(self, *key: object) -> str:
        """An object of the environment (borrowed)."""
        return self.load("%env", self.layout.word(*key))

    def leaf_record(self, index: int) -> str:
        """Leaf record of a parameter."""
        return self.gep("%leaves", LEAF_BYTES * index)

    # ---- control

    def require_object(self, value: str) -> str:
        """Fail where a returned object is null."""
        self.require(self.emit(f"icmp ne ptr {value}, null"))
        return value

    def report_unless(self, condition: str, code: int, first: str, second: str = "0") -> None:
        """Raise error number ``code`` of ``Callbacks.report`` where an i1 does not hold."""
        good, bad = self.label(), self.label()
        self.do(f"br i1 {condition}, label %{good}, label %{bad}")
        self.start(bad)
        self.branch_to_report(code, first, second)
        self.start(good)

    def branch_to_report(self, code: int, first: str, second: str, exit_label: str = "report") -> None:
        """Leave through the one place of the function that raises errors by number."""
        for slot, value in (("%code", str(code)), ("%first", first), ("%second", second)):
            self.do(f"store i64 {value}, ptr {slot}")
        self.do(f"br label %{exit_label}")

    def formula_fault(self, condition: str, fault: int, first: str, second: str) -> None:
        """Numbers that have no value in a formula."""
        self.report_unless(condition, 3 if fault < 0 else NO_VALUE + fault, first, second)

    def dim(self, dim: Dim) -> str:
        """The i64 operand of a formula of the slots."""
        if isinstance(dim, int):
            return str(dim)
        found = self.known_dims.get(dim)
        if found is None:
            if dim[0] == "sym":
                found = self.emit(f"load i64, ptr %s{dim[1]}")
            else:
                used = symbols_of(dim)
                names = [self.dim(("sym", k)) if k in used else "undef" for k in range(len(self.fn.slots))]
                found = self.formulas.value(dim, names)
            self.known_dims[dim] = found
        return found

    def dims_array(self, dims: tuple[Dim, ...]) -> str:
        """Dimensions in an array of the frame."""
        array = self.known_arrays.get(dims)
        if array is None:
            array = self.known_arrays[dims] = self.alloca(f"[{max(1, len(dims))} x i64]")
            for axis, d in enumerate(dims):
                self.store("i64", self.dim(d), array, 8 * axis)
        return array

    def set_slot_value(self, slot: int, value: str) -> None:
        """Store into a slot; what was computed from it is forgotten."""
        self.do(f"store i64 {value}, ptr %s{slot}")
        self.invalidate()

    def invalidate(self) -> None:
        """Nothing is known any more: another path joins, or a slot has changed."""
        self.known_dims, self.known_arrays, self.known_sizes = {}, {}, {}

    @contextmanager
    def side_blocks(self) -> Iterator[None]:
        """Blocks beside the main path: what they compute is not known after them."""
        before = (dict(self.known_dims), dict(self.known_arrays), dict(self.known_sizes))
        yield
        self.known_dims, self.known_arrays, self.known_sizes = before

    # ---- values

    def extract(self, obj: str, leaf: str, dtype: str | None, ndim: int, written: bool) -> str:
        """i1: the object is a tensor that fits; its leaf record is filled."""
        flags = ALIGNED | C_CONTIGUOUS | (0x400 if written else 0)
        index, packed, mask = -1, 0, 0
        if dtype is not None:
            index, packed, mask = DTYPE_INDEX[dtype], packed_dlpack_type(dtype), DataType(dtype).itemsize - 1
        what = f"ptr {obj}, ptr {leaf}, i64 {index}, i32 {packed}, i32 {ndim}, i32 {flags}, i64 {mask}, ptr null"
        if not self.on_device:
            return self.emit(f"call i1 @unity_extract({what})")
        device = self.load("%env", self.layout.word("fixed", "place"), "i64")
        return self.emit(f"call i1 @unity_extract_on({what}, ptr {self.env('fixed', 'device')}, i64 {device})")

    def label_device(self, obj: str) -> str:
        """A tensor that was just made over memory of the program (may be null), labelled with the program's device."""
        return self.emit(f"call ptr @unity_on(ptr {obj}, ptr {self.env('fixed', 'device')})") if self.on_device else obj


def boxes_storage(fn: bc.VMFunction, program: bc.Program) -> bool:
    """True if a tensor that lies in storage may become a Python object. Then each storage is an object that such tensors keep
    alive."""
    inside: set[int] = set()
    changed = True
    while changed:
        changed = False
        for instruction in fn.code:
            if isinstance(instruction, bc.Call) and instruction.dst >= 0 and instruction.dst not in inside:
                entry = program.table[instruction.function]
                if entry.kind == "builtin" and entry.name in ("tensor_in", "view", "move", "alloc_storage"):
                    if entry.name == "alloc_storage" or any(
                        [isinstance(a, bc.Reg) and a.index in inside for a in instruction.args]
                    ):
                        inside.add(instruction.dst)
                        changed = True
    native = ("tensor_in", "view", "kill")
    for instruction in fn.code:
        if isinstance(instruction, bc.Ret):
            if isinstance(instruction.value, bc.Reg) and instruction.value.index in inside:
                return True
        elif isinstance(instruction, bc.Call):
            entry = program.table[instruction.function]
            typed_move = entry.name == "move" and fn.registers[instruction.dst].kind == "tensor"
            if entry.kind == "kernel" or (entry.kind == "builtin" and (entry.name in native or typed_move)):
                continue
            if any([isinstance(a, bc.Reg) and a.index in inside for a in instruction.args]):
                return True
    return False
