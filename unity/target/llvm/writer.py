"""State of code generation: one ModuleWriter per LLVM module, one FunctionWriter per LLVM function being written.

Here: naming, basic blocks, failure exits, what must be freed on the way out. The emitters of nodes, as far as all targets share
them, register themselves in ``EXPRESSIONS`` and ``STATEMENTS`` (`expressions.py`, `statements.py`, ...); a target puts its
``Emitters`` together from these and its own. Invariant: after each emitter the current block is open (has no terminator yet).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...arith.interval import Interval
from ...ffi.abi import KernelSignature
from ...ffi.dtype import DataType
from ...ir.buffer import Buffer
from ...ir.expr import Call, Var
from ...ir.function import PrimFunc
from ...ir.types import Expr
from ...support.errors import CodegenError
from .deferred_checks import NAMES, PURE, DeferredChecks, is_arithmetic

Expressions = dict[type, Callable[[Any, Any], str]]
"""Emitters (writer, expression) -> operand text, by exact node type."""
Statements = dict[type, Callable[[Any, Any], None]]
"""Emitters (writer, statement) -> None, by exact node type."""
Intrinsics = dict[str, Callable[[Any, Any], str | None]]
"""Emitters (writer, call) -> operand text, None without a result, by the name of a ``T.*`` intrinsic."""
Key = Expr | tuple[Any, ...]
"""Arithmetic under the operands of the variables in it that statements give values anew (`small_indices.py`)."""
Parts = tuple[Expr | None, dict[Var, int], int]
"""Parts of an index beside loops that are written out: what varies, factors of their variables, a constant (`small_indices.py`)."""
UNDEFINED = "undef"
"""The operand for a call without result."""
EXPRESSIONS: Expressions = {}
"""The emitters of expressions that all targets share."""
STATEMENTS: Statements = {}
"""The same of statements."""
INTRINSICS: Intrinsics = {}
"""The same of intrinsics."""

I64 = DataType("int64")
REPEATABLE = PURE | {"sdiv", "srem", "udiv", "urem"}
"""Instructions that stand once for each text in what a block dominates."""
MOVABLE = frozenset(("add", "sub", "mul", "shl", "lshr", "and", "or", "xor", "sext", "zext", "trunc", "getelementptr"))
"""Those that stand before a condition where several blocks behind it have them."""
MOST_WAITING = 16
"""Checks that one branch tests. LLVM's time is quadratic in branches, and in the instructions between two of them."""


@dataclass(slots=True, frozen=True)
class Emitters:
    """Code generation of each node for a kind of targets. ``leave`` ends the current block and the function with a status.
    ``call_function`` calls another tensor program of the module."""

    target: str
    """The target in messages: "a processor"."""
    statements: Statements
    intrinsics: Intrinsics
    leave: Callable[[Any, str], None]
    call_function: Callable[[Any, Any], str]
    expressions: Expressions = field(default_factory=lambda: EXPRESSIONS)
    release: tuple[str, str] = ("@free", "declare void @free(ptr)\n")
    """The function that gives heap memory back, and its text."""


@dataclass(slots=True)
class Kernel:
    """The facts about one tensor program while it is written, parallel bodies included."""

    name: str
    func: PrimFunc
    messages: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)
    """Status codes of messages."""
    packed_calls: list[str] = field(default_factory=list)
    stack_bytes: int = 0
    result: DataType | None = None

    def message(self, text: str) -> int:
        """Status code of a failure message."""
        code = self.codes.setdefault(text, len(self.messages) + 1)
        if code > len(self.messages):
            self.messages.append(text)
        return code


@dataclass(slots=True)
class ModuleWriter:
    """Texts of one LLVM module. ``definitions`` maps symbols to their text (declarations, helpers, global data)."""

    functions: Mapping[str, PrimFunc]
    emitters: Emitters
    symbols: dict[str, str]
    """LLVM symbol of each function."""
    signatures: dict[str, KernelSignature]
    definitions: dict[str, str] = field(default_factory=dict)
    bodies: list[str] = field(default_factory=list)
    metadata: list[str] = field(default_factory=lambda: ['!0 = !{!"branch_weights", i32 1048575, i32 1}', "!1 = !{}"])
    externs: dict[str, None] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    """Features of the processor that code is made for."""
    scales: bool = False
    """It multiplies by powers of two in one instruction."""
    estimates: bool = False
    """It has approximate reciprocals, and division is long code."""
    converts: frozenset[str] = frozenset()
    """The types, float16 or bfloat16, for which it has instructions that round float32 to them."""
    small_floats: bool = False
    """Code that came as it is computes with ``half`` or ``bfloat``."""
    imported: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Functions of LLVM IR that the programs import: LLVM types of result and parameters."""
    trials: dict[str, tuple[str, str, Call]] = field(default_factory=dict)
    """Calls of LLVM intrinsics by a small module of each, which LLVM has to compile before it sees this one. First the module in
    which wide constants are parameters, so that it serves all of them; the call in words."""
    counter: int = 0

    def unique(self, hint: str) -> str:
        """A fresh symbol."""
        self.counter += 1
        return f"{hint}.{self.counter}"

    def declare(self, symbol: str, text: str) -> str:
        """Have a declaration or definition in the module once; returns the symbol."""
        self.definitions.setdefault(symbol, text)
        return symbol

    def string(self, text: str) -> str:
        """A global with a C string."""
        data = text.encode() + b"\0"
        shown = "".join([chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in data])
        for symbol, known in self.definitions.items():
            if known.endswith(f'c"{shown}"\n') and f"[{len(data)} x i8]" in known:
                return symbol
        symbol = "@" + self.unique("str")
        self.definitions[symbol] = f'{symbol} = private unnamed_addr constant [{len(data)} x i8] c"{shown}"\n'
        return symbol

    def loop_metadata(self, *properties: str) -> str:
        """A distinct loop node with properties such as ``!"llvm.loop.vectorize.enable", i1 true``."""
        own = len(self.metadata)
        items = ", ".join([f"!{own}"] + [f"!{own + 1 + i}" for i in range(len(properties))])
        self.metadata.append(f"!{own} = distinct !{{{items}}}")
        self.metadata += [f"!{own + 1 + i} = !{{{text}}}" for i, text in enumerate(properties)]
        return f"!{own}"

    def text(self) -> str:
        """The whole module."""
        return "".join(self.definitions.values()) + "\n".join(self.bodies) + "\n" + "\n".join(self.metadata) + "\n"


@dataclass(slots=True)
class LoopScope:
    """The targets of ``break`` and ``continue``, and the number of live heap blocks at the beginning of the loop."""

    exit: str
    next: str
    heap: int


@dataclass(slots=True)
class FunctionWriter:
    """Instructions of one LLVM function."""

    module: ModuleWriter
    kernel: Kernel
    lines: list[str | list[str] | list[list[str]]] = field(default_factory=list)
    """Instructions; in lists those that may move, and those that have moved to the end of a block (`moves`)."""
    entry: list[str] = field(default_factory=list)
    """Instructions for the top of the entry block (stack slots)."""
    env: dict[Var, str] = field(default_factory=dict)
    masks: dict[Expr, Expr] = field(default_factory=dict)
    """Conditions of vectors that statements bind to variables."""
    loops: list[LoopScope] = field(default_factory=list)
    heap: list[str] = field(default_factory=list)
    buffers: dict[Var, Buffer] = field(default_factory=dict)
    """The buffer that declared each data pointer."""
    spaces: dict[Var, tuple[str, str]] = field(default_factory=dict)
    """Data pointers that are known in an address space of their own: (type, operand) beside the generic one in ``env``."""
    ranges: dict[Var, Interval] = field(default_factory=dict)
    """Ranges of variables that fit into 32 bits, for targets that count in these where they can (`small_indices.py`)."""
    fits: dict[Key, Interval | None] = field(default_factory=dict)
    """Those of expressions of them, as far as asked."""
    written: dict[Var, int] = field(default_factory=dict)
    """Numbers of the variables of loops that are written out."""
    changing: dict[Expr, tuple[tuple[Var, ...], bool]] = field(default_factory=dict)
    """The variables in expressions whose values statements give anew, and whether it is arithmetic alone, as far as asked."""
    computed: dict[tuple[Key, str], tuple[str, int]] = field(default_factory=dict)
    """Indices that the current block has computed, in 32 bits, in 64, or in either."""
    parts: dict[Expr, Parts] = field(default_factory=dict)
    """The parts of indices, as far as asked."""
    held: dict[tuple[Buffer, Expr], tuple[Parts, DataType] | None] = field(default_factory=dict)
    """The parts of numbers of elements that ``places`` keep, and the type of what is there, as far as asked."""
    bound: dict[Var, tuple[str, int]] = field(default_factory=dict)
    """Of variables that statements bind to indices: an operand, and a constant to be added."""
    sizes: dict[Var, str] = field(default_factory=dict)
    """Sizes above zero, for such targets: as divisors of what fits."""
    aligned: dict[Var, int] = field(default_factory=dict)
    """Bytes that data pointers from outside are multiples of, where that is known."""
    multiples: dict[Expr, int] = field(default_factory=dict)
    """Divisors of first indices of vectors, as far as asked."""
    places: dict[Var, Any] = field(default_factory=dict)
    """Where a target keeps the elements of data pointers that need not be in memory (`target/cuda/places.py`)."""
    unchanging: dict[Var, str] = field(default_factory=dict)
    """Data pointers to memory that nothing writes while the function runs, and what LLVM is told where they are read."""
    block: str = "entry"
    counter: int = 0
    mask: str | None = None
    """Lanes that may touch memory, as an operand, inside a lazily evaluated vector expression."""
    mask_lanes: int = 0
    fast: str = ""
    """Fast-math flags of the accumulations at hand ("" or "contract reassoc ")."""
    numbers: bool = False
    """Extremes at hand may leave NaN out (``NUMBERS`` in ir/analysis/reductions.py)."""
    accumulations: set[Expr] = field(default_factory=set)
    """Additions that accumulate, and the products added: what may be reassociated and contracted; extremes of a cell and a value
    that may be left out. The values accumulated keep their bits: one computed inside a reduction equals one computed elsewhere."""
    inside_parallel: bool = False
    known: dict[str, str] = field(default_factory=dict)
    """Results of the pure instructions on every way to here, by text; conditions that were checked there, under themselves."""
    noted: list[str] = field(default_factory=list)
    """The keys of ``known`` in order."""
    dominators: list[int] = field(default_factory=lambda: [0])
    """Where the keys of each block on every way to here begin in ``noted``; the current block is the last."""
    ahead: dict[str, int] = field(default_factory=dict)
    """Of labels that were jumped to and not begun: how many of ``dominators`` are on all ways there so far."""
    begun: set[str] = field(default_factory=set)
    moves: bool = False
    """Integer arithmetic that stands in several blocks is moved to one before them, for targets whose assembler does not do so."""
    chain: tuple[str, ...] = ("entry",)
    """The blocks on every way to here; the current one is the last."""
    ends: list[list[list[str]]] = field(default_factory=lambda: [[]])
    """Where more instructions of them can stand."""
    floor: int = 0
    """The first of them to which instructions are moved: none leaves a loop, or goes before one."""
    levels: dict[str, int] = field(default_factory=dict)
    """The block of ``chain`` in which a name is made."""
    movable: dict[str, tuple[str, list[str], tuple[str, ...]]] = field(default_factory=dict)
    """Of arithmetic that was written, by text: its name, its place and the blocks on every way to it."""
    late: DeferredChecks = field(default_factory=DeferredChecks)
    """Checks of divisors that wait."""
    cheap: dict[Expr, bool] = field(default_factory=dict)
    """The expressions without effect that read no memory and cannot fail, as far as asked."""

    def name(self) -> str:
        """A fresh local name."""
        self.counter += 1
        return f"%x{self.counter}"

    def emit(self, instruction: str) -> str:
        """Append ``name = instruction``; returns the name, an earlier one where the block has computed the same already."""
        found = self.known.get(instruction)
        if found is not None:
            return found
        opcode = instruction[: instruction.find(" ")]
        movable = self.moves and opcode in MOVABLE and not self.late.failed
        if movable and instruction in self.movable:
            moved = self._moved(instruction)
            if moved:
                return moved
        self.counter += 1
        name = f"%x{self.counter}"
        if self.late.failed and not self.late.is_harmless(name, instruction):
            self.settle()
        self.levels[name] = len(self.chain) - 1
        if movable:
            place = [f"  {name} = {instruction}"]
            self.lines.append(place)
            self.movable[instruction] = name, place, self.chain
        else:
            self.lines.append(f"  {name} = {instruction}")
        if opcode in REPEATABLE or (opcode == "call" and is_arithmetic(instruction)):
            self.note(instruction, name)
        return name

    def emit_before_loops(self, instruction: str) -> str:
        """Write arithmetic at the end of the first block that has its operands, which may be before loops around this place."""
        level = max([0, *[self.levels.get(operand, len(self.chain)) for operand in NAMES.findall(instruction)]])
        if not self.moves or instruction in self.known or level >= len(self.chain) - 1 or self.late.failed:
            return self.emit(instruction)
        name = self.name()
        self.ends[level].append([f"  {name} = {instruction}"])
        self._stands(instruction, name, level)
        return name

    def read(self, buffer: Buffer, instruction: str) -> str:
        """Append a read of a buffer; one of memory that nothing writes stands once in what a block dominates."""
        name = self.emit(instruction)
        if buffer.data in self.unchanging and instruction not in self.known:
            self.note(instruction, name)
        return name

    def _moved(self, instruction: str) -> str:
        """Move arithmetic of another block to the end of the first block on every way to both where it can stand; returns its name,
        or "" where there is no such block."""
        name, place, chain = self.movable[instruction]
        last = len(self.chain) - 1
        level = max([self.floor, *[self.levels.get(operand, last) for operand in NAMES.findall(instruction)]])
        if level >= last or chain[: level + 1] != self.chain[: level + 1]:
            return ""
        here = [*place]
        self.ends[level].append(here)
        place.clear()
        self._stands(instruction, name, level)
        self.movable[instruction] = name, here, self.chain[: level + 1]
        return name

    def _stands(self, instruction: str, name: str, level: int) -> None:
        """Know a result that a block of the chain has."""
        self.levels[name] = level
        self.noted.insert(self.dominators[level + 1], instruction)
        self.known[instruction] = name
        for later in range(level + 1, len(self.dominators)):
            self.dominators[later] += 1

    def call(self, result: str, callee: str, arguments: str) -> str:
        """Append a call; the value of one without result is undefined."""
        text = f"call {result} {callee}({arguments})"
        if result.partition(" ")[0] != "void":
            return self.emit(text)
        self.do(text)
        return UNDEFINED

    def note(self, text: str, value: str = "") -> None:
        """Know a result or a condition here and in the blocks that only this one leads to."""
        self.known[text] = value
        self.noted.append(text)

    def do(self, instruction: str) -> None:
        """Append an instruction without result."""
        if self.late.failed and not self.late.is_harmless("", instruction):
            self.settle()
        self.lines.append("  " + instruction)

    def label(self, hint: str) -> str:
        """A fresh block label."""
        self.counter += 1
        return f"{hint}.{self.counter}"

    def start(self, label: str) -> None:
        """Begin a block; the one before must have been ended. Jumps to it that are still to come stand in blocks it leads to."""
        self.lines.append(f"{label}:")
        self.computed.clear()
        for place in self.places.values():
            place.begin_block()
        self.block = label
        self.begun.add(label)
        depth = self.ahead.pop(label, 0)
        if depth < len(self.dominators):
            first = self.dominators[depth]
            for text in self.noted[first:]:
                del self.known[text]
            del self.noted[first:], self.dominators[depth:]
            for other, known in self.ahead.items():
                self.ahead[other] = min(known, depth)
        self.dominators.append(len(self.noted))
        self.chain = (*self.chain[:depth], label)
        self.ends[depth:] = [[]]
        self.floor = min(self.floor, depth)

    def begin_region(self) -> None:
        """Nothing behind here is moved before the current block."""
        self.floor = len(self.chain) - 1

    def _end(self) -> None:
        """More instructions of the block can stand here."""
        for place in self.places.values():
            place.end_block(self)
        if self.moves:
            self.lines.append(self.ends[-1])

    def jump(self, label: str) -> str:
        """End the block with a jump; returns the block's label."""
        self.settle()
        self._end()
        self.lines.append(f"  br label %{label}")
        self._leads_to(label)
        return self.block

    def branch(self, condition: str, then: str, otherwise: str, hints: str = "") -> str:
        """End the block with a conditional jump; returns the block's label."""
        self.settle()
        self._end()
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}{hints}")
        self._leads_to(then)
        self._leads_to(otherwise)
        return self.block

    def _leads_to(self, label: str) -> None:
        if label not in self.begun:
            self.ahead.setdefault(label, len(self.dominators))

    def slot(self, type_text: str, align: int = 0, count: int = 1) -> str:
        """A stack slot made in the entry block."""
        name = self.name()
        held = f"[{count} x {type_text}]" if count != 1 else type_text  # SROA leaves counted allocas alone
        self.entry.append(f"  {name} = alloca {held}" + (f", align {align}" if align else ""))
        return name

    def value(self, expr: Expr) -> str:
        """Operand text of an expression. Raises CodegenError E520 for a node that has no emitter."""
        emitters = self.module.emitters
        emitter = emitters.expressions.get(type(expr))
        if emitter is None:
            raise CodegenError(
                "E520", f"{type(expr).__name__} cannot stand in code for {emitters.target}", getattr(expr, "span", None)
            )
        return emitter(self, expr)

    def unmasked(self, expr: Expr) -> str:
        """Operand text of a vector whose lanes are going to change places: the current mask says nothing about them."""
        mask, self.mask = self.mask, None
        text = self.value(expr)
        self.mask = mask
        return text

    def statement(self, stmt: Any) -> None:
        """Write a statement. Raises CodegenError E520 for a node that has no emitter."""
        emitter = self.module.emitters.statements.get(type(stmt))
        if emitter is None:
            raise CodegenError(
                "E520", f"{type(stmt).__name__} must be lowered before code generation", getattr(stmt, "span", None)
            )
        try:
            emitter(self, stmt)
        except CodegenError as error:
            error.locate(getattr(stmt, "span", None))
            raise

    def fail_unless(self, condition: str, message: str) -> None:
        """Leave the function with the status of ``message`` unless ``condition`` (an i1) holds. A second line is its place."""
        if condition == "true" or condition in self.known:
            return
        self.settle()
        code = self.kernel.message(message)
        good, bad = self.label("ok"), self.label("fail")
        self.branch(condition, good, bad, ", !prof !0")
        self.start(bad)
        self.leave(str(code))
        self.start(good)
        self.note(condition)

    def leave_unless(self, condition: str, status: Callable[[], str]) -> None:
        """Leave the function unless ``condition`` (an instruction that gives an i1) holds, with a status that is written there."""
        good, bad = self.label("ok"), self.label("fail")
        self.branch(self.emit(condition), good, bad)
        self.start(bad)
        self.leave(status())
        self.start(good)

    def fail_later(self, failed: str, wrong: str) -> None:
        """Leave the function with "integer division by zero" where ``failed`` (an i1) holds, before ``wrong``, a value that is
        wrong then, can do harm."""
        if failed not in self.known:
            self.note(failed)
            self.late.failed.append(failed)
            self.late.wrong.add(wrong)
            if len(self.late.failed) == MOST_WAITING:
                self.settle()

    def settle(self) -> None:
        """Test the checks that wait: one branch for all. The first that failed decides: those behind it saw wrong values."""
        failed = self.late.forget()
        if not failed:
            return
        while len(failed) > 1:  # a tree, not a chain: LLVM looks a few steps up
            pairs = [self.emit(f"select i1 {a}, i1 true, i1 {b}") for a, b in zip(failed[::2], failed[1::2])]
            failed = pairs + failed[len(failed) // 2 * 2 :]
        self.fail_unless(self.emit(f"xor i1 {failed[0]}, true"), "integer division by zero")

    def leave(self, status: str) -> None:
        """Free what is held and return a status; ends the block."""
        self.settle()
        self.free_down_to(0)
        self.module.emitters.leave(self, status)

    def body(self) -> str:
        """The text of the function between its braces."""
        return "\n".join(["entry:", *self.entry, self.text()])

    def text(self) -> str:
        """The instructions after the stack slots."""
        texts: list[str] = []
        for part in self.lines:
            for line in [part] if isinstance(part, str) else part:
                texts += [line] if isinstance(line, str) else line
        return "\n".join(texts)

    def free_down_to(self, depth: int) -> None:
        """Write calls freeing heap blocks above a depth; the list itself stays (other paths need it)."""
        for pointer in reversed(self.heap[depth:]):
            symbol, text = self.module.emitters.release
            self.module.declare(symbol, text)
            self.do(f"call void {symbol}(ptr {pointer})")
