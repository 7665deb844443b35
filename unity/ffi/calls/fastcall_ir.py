"""The checked entry as LLVM IR: a ``METH_FASTCALL | METH_KEYWORDS`` function that checks, calls, converts the result.

The text depends on the spec and the mode alone; addresses come at run time from the words of ``self``, a numpy array:
``[raw, env, slow, status]``, then the devices of the spec, and their numbers; of a gated entry then its gate and lane. Invariant:
every check that fails goes to ``%slow`` (the Python checker), which raises, returns arguments that pass, or returns the result
itself (``Finished``); native memory is touched only after all checks.
"""

from __future__ import annotations

from ...support.errors import FFIError
from ..abi import Dim
from ..device import CPU, Device
from ..dtype import DataType
from ..formula import FormulaEmitter
from ..machine_code.layout import (
    ALIGNED,
    ARRAY_DATA,
    C_CONTIGUOUS,
    FLOAT_VALUE,
    OBJECT_TYPE,
    TUPLE_ITEMS,
    VAR_SIZE,
    WRITEABLE,
    member_offset,
)
from ..native.native_helpers import HELPER_DECLARATIONS, LEAF_BYTES
from ..native.runtime_table import DTYPE_INDEX, packed_dlpack_type, slot_offset
from .check import Finished
from .entry_spec import Arg, EntrySpec, ObjectArg, ScalarArg, ShapeArg, TensorArg, TupleArg, is_symbol
from .object_ir import ObjectWriter, llvm_scalar

FINISHED_VALUE = member_offset(Finished.__dict__["value"])
"""Byte offset of the value of a ``Finished``."""
TABLE_BYTES = 32
"""Bytes of the words of ``self`` that every entry has."""
ANY_LANE = (1 << 64) - 1
"""The lane of a gated entry that has no arena."""
NUMBER_DECLARATION = "declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)\n"
_EXTERNALS = f"""\
{NUMBER_DECLARATION}\
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""


def device_number(device: Device) -> int:
    """DLPack's type and index of a device, as the number that a DLTensor holds."""
    kind, index = device.dlpack
    return kind | index << 32


class ArgumentWriter(ObjectWriter):
    """Writes checks of arguments, held as objects, against a spec: what they hold goes to the records at ``%leaves``, the values of
    symbols to ``symbols``. ``%again`` is true where the checker has converted the arguments."""

    SPACE = ("%strides = alloca [2 x i64], align 8", "%overflow = alloca i32, align 4", "%wide = alloca i64, align 8")
    """Space that the checks need."""

    def __init__(self, spec: EntrySpec) -> None:
        super().__init__()
        self.spec = spec
        self.leaf = 0
        self.raw_args: list[str] = []
        self.symbols: dict[int, str] = {}
        self.waiting: list[tuple[Dim, str]] = []
        self.formulas = FormulaEmitter(self.emit, lambda condition, *_: self.require(condition))

    def device_words(self, device: Device) -> tuple[str, str] | None:
        """The object of the device where a tensor must lie, and its number as DLPack has it; None for the host."""
        raise NotImplementedError

    def arguments(self) -> list[str]:
        """Check all arguments, which ``%args`` holds, then the formulas that waited for symbols; the values of the symbols."""
        for index, arg in enumerate(self.spec.args):
            self.argument(arg, self.load("%args", 8 * index))
        names = [self.symbols.get(number, "undef") for number in range(len(self.spec.symbols))]
        for dim, value in self.waiting:
            expected = self.formulas.value(dim, names)
            self.require(self.emit(f"icmp eq i64 {value}, {expected}"))
        return names

    def store_symbols(self, names: list[str]) -> None:
        """Put the values of the symbols in a row, as drivers take them."""
        for number, name in enumerate(names):
            self.store("i64", name, "%symbols", 8 * number)

    def match(self, dim: Dim | None, value: str, free: str | None = None) -> None:
        """``value`` equals the formula; a symbol alone is defined by its first value. ``free``: an i1 that excuses."""
        if dim is None:
            return
        if isinstance(dim, int):
            self._equal(str(dim), value, free)
        elif not is_symbol(dim):
            self.waiting.append((dim, value if free is None else self._excused(dim, value, free)))
        elif dim[1] in self.symbols:
            self._equal(self.symbols[dim[1]], value, free)
        else:
            self.symbols[dim[1]] = value

    def _excused(self, dim: Dim, value: str, free: str) -> str:
        raise FFIError("E711", f"{self.spec.name}: strides are integers or symbols in a checked entry, got {dim!r}")

    def _equal(self, expected: str, value: str, free: str | None) -> None:
        same = self.emit(f"icmp eq i64 {value}, {expected}")
        self.require(same if free is None else self.emit(f"or i1 {same}, {free}"))

    def argument(self, arg: Arg, obj: str) -> None:
        """Check one argument held in ``obj``."""
        if isinstance(arg, TupleArg):
            self.require(self.is_type(obj, "tuple"))
            size = self.load(obj, VAR_SIZE, "i64")
            self.require(self.emit(f"icmp eq i64 {size}, {len(arg.fields)}"))
            for index, field in enumerate(arg.fields):
                self.argument(field, self.load(obj, TUPLE_ITEMS + 8 * index))
            return
        place = self.emit(f"getelementptr i8, ptr %leaves, i64 {LEAF_BYTES * self.leaf}")
        self.leaf += 1
        if isinstance(arg, TensorArg):
            self.tensor(arg, obj, place)
            return
        self.store("ptr", obj, place, 8)
        if isinstance(arg, ScalarArg):
            self.scalar(arg, obj, place)
        else:
            self.store("ptr", obj, place, 0)
            self.raw_args.append(f"ptr {obj}")
            if isinstance(arg, ShapeArg):
                self.shape(arg, obj)
            else:
                assert isinstance(arg, ObjectArg)

    def tensor(self, arg: TensorArg, obj: str, place: str) -> None:
        flags = ALIGNED | (C_CONTIGUOUS if arg.strides is None else 0) | (WRITEABLE if arg.written else 0)
        rank = -1 if arg.shape is None else len(arg.shape)
        index, packed, mask = -1, 0, max(arg.align, 1) - 1
        if arg.dtype is not None:
            size = DataType(arg.dtype).itemsize
            index, packed, mask = (
                DTYPE_INDEX[DataType(arg.dtype).name],
                packed_dlpack_type(arg.dtype),
                max(arg.align, size) - 1,
            )
        steps = "null" if arg.strides is None else "%strides"
        what = f"ptr {obj}, ptr {place}, i64 {index}, i32 {packed}, i32 {rank}, i32 {flags}, i64 {mask}, ptr {steps}"
        words = self.device_words(arg.device)
        if words is None:
            self.require(self.emit(f"call i1 @unity_extract({what})"))
        else:
            self.require(self.emit(f"call i1 @unity_extract_on({what}, ptr {words[0]}, i64 {words[1]})"))
        self.raw_args.append(f"ptr {self.load(place, 0)}")
        dims = self.load(place, 16) if arg.shape else ""
        extents = [self.load(dims, 8 * axis, "i64") for axis in range(len(arg.shape or ()))]
        for dim, extent in zip(arg.shape or (), extents, strict=True):
            self.match(dim, extent)
        if arg.strides:
            table, unit = self.load("%strides", 0), self.load("%strides", 8, "i64")
            empty = "false"
            for extent in extents:
                empty = self.emit(f"or i1 {empty}, {self.emit(f'icmp eq i64 {extent}, 0')}")
            for axis, dim in enumerate(arg.strides):
                bytes_ = self.load(table, 8 * axis, "i64")
                step = self.emit(f"sdiv i64 {bytes_}, {unit}")
                back = self.emit(f"mul i64 {step}, {unit}")
                self.require(self.emit(f"icmp eq i64 {back}, {bytes_}"))
                self.match(dim, step, self.emit(f"or i1 {empty}, {self.emit(f'icmp sle i64 {extents[axis]}, 1')}"))

    def scalar(self, arg: ScalarArg, obj: str, place: str) -> None:
        dtype = DataType(arg.dtype)
        kind = llvm_scalar(dtype)
        if dtype.is_float and not arg.bits:
            self.require(self.is_type(obj, "float"))
            value = wide = self.load(obj, FLOAT_VALUE, "double")
            if kind == "float":
                value = self.emit(f"fptrunc double {wide} to float")
            self.store("double", wide, place, 0)
        elif dtype.is_bool:
            yes = self.truth(obj)
            value = self.emit(f"zext i1 {yes} to i8")
            self.store("i64", self.emit(f"zext i1 {yes} to i64"), place, 0)
        else:
            if arg.bits:
                self.require("%again")
            number = value = self.integer(obj) if dtype.is_int or dtype.bits < 64 else self.unsigned(obj)
            if dtype.bits < 64 and kind != "ptr":
                value = self.narrowed(number, dtype)
            elif kind == "ptr":
                value = self.emit(f"inttoptr i64 {number} to ptr")
            self.store("i64", number, place, 0)
            if arg.symbol is not None:
                self.match(("sym", arg.symbol), number)
        self.raw_args.append(f"{kind} {value}")

    def integer(self, obj: str) -> str:
        """The i64 of an exact ``int``."""
        self.require(self.is_type(obj, "int"))
        number = self.emit(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {obj}, ptr %overflow)")
        over = self.emit("load i32, ptr %overflow")
        self.require(self.emit(f"icmp eq i32 {over}, 0"))
        return number

    def unsigned(self, obj: str) -> str:
        """The bits of an exact ``int`` as an unsigned number; that one from 2**63 on is not a negative one, the checker says."""
        self.require(self.is_type(obj, "int"))
        status = self.emit(f"call i32 @unity_as_int(ptr {obj}, ptr %wide)")
        self.lines.append("  call void @PyErr_Clear()")
        self.require(self.emit(f"icmp eq i32 {status}, 0"))
        number = self.emit("load i64, ptr %wide")
        self.require(self.emit(f"or i1 {self.emit(f'icmp sge i64 {number}, 0')}, %again"))
        return number

    def shape(self, arg: ShapeArg, obj: str) -> None:
        self.require(self.is_type(obj, "tuple"))
        if arg.dims is None:  # the checker looks at every entry, so native code may trust them
            self.require("%again")
            return
        size = self.load(obj, VAR_SIZE, "i64")
        self.require(self.emit(f"icmp eq i64 {size}, {len(arg.dims)}"))
        for index, dim in enumerate(arg.dims):
            self.match(dim, self.integer(self.load(obj, TUPLE_ITEMS + 8 * index)))


class EntryWriter(ArgumentWriter):
    """Writes one checked entry. ``driver`` chooses the mode; ``result`` is the scalar a kernel returns, if any; a ``gated`` one
    enters the program of a device by itself, and leaves everything out of the ordinary to the function that is its ``slow``."""

    failure = "slow"

    def __init__(self, spec: EntrySpec, driver: bool, result: str | None, gated: bool) -> None:
        super().__init__(spec)
        self.driver = driver
        self.gated = gated
        self.result = None if result is None else DataType(result)
        self.devices = spec.devices()

    def device_words(self, device: Device) -> tuple[str, str] | None:
        """Those in the table of the entry."""
        if device is CPU:
            return None
        table, word = self.load("%self", ARRAY_DATA), TABLE_BYTES + 8 * self.devices.index(device)
        return self.load(table, word), self.load(table, word + 8 * len(self.devices), "i64")

    def body(self) -> None:
        """Checks of all arguments, then the call."""
        right = self.emit(f"icmp eq i64 %nargs, {len(self.spec.args)}")
        plain = self.emit("icmp eq ptr %kw, null")
        self.require(self.emit(f"and i1 {right}, {plain}"))
        self.call(self.arguments())

    def call(self, symbols: list[str]) -> None:
        """The raw call and its result."""
        table = self.load("%self", ARRAY_DATA)
        raw = self.load(table, 0)
        if self.gated:
            words = TABLE_BYTES + 16 * len(self.devices)
            gate, lane = self.load(table, words), self.load(table, words + 8, "i64")
            self.require(self.emit(f"call i1 @unity_enter(ptr {gate}, i64 {lane}, ptr %undo)"))
        if self.driver:
            self.store_symbols(symbols)
            value = self.emit(f"call ptr {raw}(ptr {self.load(table, 8)}, ptr %leaves, ptr %symbols)")
            self.lines += [*self.leave(), "  call void @Py_DecRef(ptr %held)", f"  ret ptr {value}"]
            return
        args = [*self.raw_args, *[f"i64 {name}" for name in symbols]]
        if self.result is not None:
            args.append("ptr %result")
        status = self.emit(f"call i32 {raw}({', '.join(args)})")
        self.lines += [*self.leave(), "  call void @Py_DecRef(ptr %held)"]
        fine = self.emit(f"icmp eq i32 {status}, 0")
        self.lines += [f"  br i1 {fine}, label %success, label %failure", "success:"]
        made = "call ptr @unity_none()"
        self.do(f"ret ptr {self.emit(made) if self.result is None else self.number(self.result, '%result')}")
        self.lines.append("failure:")
        positive = self.emit(f"icmp sgt i32 {status}, 0")
        self.lines += [f"  br i1 {positive}, label %report, label %raised", "report:"]
        wide = self.emit(f"sext i32 {status} to i64")
        reporter = self.load(table, 24)
        leaves = self.spec.leaves()
        known = [
            *symbols,
            *[self.load("%leaves", LEAF_BYTES * leaves.index(s), "i64") for s in self.spec.shown_scalars()],
        ]
        for number, name in enumerate(known):
            self.store("i64", name, "%known", 8 * number)
        place = self.emit("ptrtoint ptr %known to i64")
        self.lines.append(f"  call void @unity_raise_by(ptr {reporter}, i64 {wide}, i64 {place}, i64 {len(known)})")
        self.lines += ["  br label %raised", "raised:", "  ret ptr null"]

    def leave(self) -> list[str]:
        """The text after the raw call of a gated entry."""
        return ["  call void @unity_leave(ptr %undo)"] if self.gated else []

    def text(self) -> str:
        """The whole module."""
        self.body()
        leaves = max(1, len(self.spec.leaves()))
        head = [
            _EXTERNALS + HELPER_DECLARATIONS,
            "define ptr @entry(ptr %self, ptr %args0, i64 %nargs0, ptr %kw0) {",
            "start:",
            f"  %leaves = alloca [{leaves * LEAF_BYTES} x i8], align 16",
            f"  %symbols = alloca [{max(1, len(self.spec.symbols))} x i64], align 8",
            *[f"  {space}" for space in self.SPACE],
            f"  %known = alloca [{len(self.spec.symbols) + leaves} x i64], align 8",
            "  %result = alloca i64, align 8",
            "  %undo = alloca [2 x i64], align 8",
            "  br label %try",
            "try:",
            *[self.phi(*row) for row in _START],
        ]
        tail = [
            "slow:",
            *([] if self.gated else ["  br i1 %again, label %disagree, label %convert", *_DISAGREE]),
            f"  %slowtable.p = getelementptr i8, ptr %self, i64 {ARRAY_DATA}",
            "  %slowtable = load ptr, ptr %slowtable.p",
            "  %slow.p = getelementptr i8, ptr %slowtable, i64 16",
            "  %checker = load ptr, ptr %slow.p",
            "  %checked = call ptr @PyObject_Vectorcall(ptr %checker, ptr %args, i64 %nargs, ptr %kw)",
            *(["  ret ptr %checked"] if self.gated else _CHECKED),
            "}",
        ]
        return "\n".join([*head, *self.lines, *tail]) + "\n"

    def phi(self, kind: str, name: str, first: str, again: str) -> str:
        """A value that is another one where the checker gave arguments that pass."""
        return f"  %{name} = phi {kind} [ {first}, %start ]" + ("" if self.gated else f", [ {again}, %retry ]")


def entry_ir(spec: EntrySpec, driver: bool = False, result: str | None = None, gated: bool = False) -> str:
    """LLVM IR text of a checked entry; the function is called ``entry``. Raises FFIError E711."""
    return EntryWriter(spec, driver, result, gated).text()


_START = (
    ("ptr", "args", "%args0", "%items"),
    ("i64", "nargs", "%nargs0", "%size"),
    ("ptr", "kw", "%kw0", "null"),
    ("ptr", "held", "null", "%checked"),
    ("i1", "again", "false", "true"),
)
_DISAGREE = [
    "disagree:",
    "  call void @Py_DecRef(ptr %held)",
    "  call void @unity_raise(i64 9, i64 0, i64 0)",
    "  ret ptr null",
    "convert:",
]
_CHECKED = [
    "  %refused = icmp eq ptr %checked, null",
    "  br i1 %refused, label %refuse, label %answered",
    "refuse:",
    "  ret ptr null",
    "answered:",
    f"  %kind.p = getelementptr i8, ptr %checked, i64 {OBJECT_TYPE}",
    "  %kind = load ptr, ptr %kind.p",
    f"  %tuple = load ptr, ptr getelementptr (i8, ptr @unity_runtime, i64 {slot_offset('tuple')})",
    "  %arguments = icmp eq ptr %kind, %tuple",
    "  br i1 %arguments, label %retry, label %finished",
    "finished:",
    f"  %value.p = getelementptr i8, ptr %checked, i64 {FINISHED_VALUE}",
    "  %value = load ptr, ptr %value.p",
    "  call void @Py_IncRef(ptr %value)",
    "  call void @Py_DecRef(ptr %checked)",
    "  ret ptr %value",
    "retry:",
    f"  %size.p = getelementptr i8, ptr %checked, i64 {VAR_SIZE}",
    "  %size = load i64, ptr %size.p",
    f"  %items = getelementptr i8, ptr %checked, i64 {TUPLE_ITEMS}",
    "  br label %try",
]
