"""PTX text to a module: statements, declarations, operands. Debug information and pragmas are passed over.

Each statement ends with ``;`` but for labels, scopes and the bodies of functions.
Source: the PTX ISA 9.0.
"""

from __future__ import annotations

import struct

from ....support.source import Source
from .program import (
    Function,
    Instruction,
    Memory,
    Module,
    Number,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from .tokens import Tokens, refused
from .types import TYPES, Type

VERSION_LIMIT = (9, 0)
LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
SPACES = {".global": "global", ".const": "const", ".shared": "shared", ".local": "local", ".param": "param"}
PASSED_OVER = frozenset({".loc", ".file", ".section", ".pragma", ".alias", ".noreturn"})
LIMITS = frozenset({".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg"})


class Reader(Tokens):
    """Declarations and operands of a text."""

    # ---- declarations

    def variable(self, space: str, in_list: bool = False) -> list[Variable]:
        """The variables of one declaration, after the word of their space."""
        align, type_ = 0, None
        while True:
            word = self.take()
            if word == ".align":
                align = self.integer()
            elif word == ".ptr":  # then the space and the alignment of what is pointed to
                if self.peek() in SPACES:
                    self.take()
                if self.accept(".align"):
                    self.integer()
            elif word in (".v2", ".v4"):
                raise refused("a variable of vectors", self.span(self.at - 1))
            elif word[1:] in TYPES and word[0] == ".":
                type_ = TYPES[word[1:]]
            else:
                break
        if type_ is None:
            raise refused("a declaration without a type", self.span(self.at - 1))
        found = [self._declared(space, word, type_, align)]
        while not in_list and self.accept(","):
            found.append(self._declared(space, self.take(), type_, align))
        return found

    def _declared(self, space: str, name: str, type_: Type, align: int) -> Variable:
        count, dynamic = 1, False
        while self.accept("["):
            if self.accept("]"):
                count, dynamic = 0, True
                continue
            count *= self.integer()
            self.expect("]")
        if self.accept("<"):
            raise refused("a family of variables", self.span(self.at - 1))
        values: list[Operand] = []
        if self.accept("="):
            self._values(values)
            count = max(count, len(values)) if dynamic else count
        size = type_.bytes * count
        return Variable(name, space, type_, size, align or type_.bytes, tuple(values), dynamic and not size)

    def _values(self, into: list[Operand]) -> None:
        if self.accept("{"):
            while not self.accept("}"):
                self._values(into)
                self.accept(",")
            return
        into.append(self.operand({}))

    # ---- operands

    def operand(self, registers: dict[str, Register]) -> Operand:
        """One operand; ``registers`` are those declared so far."""
        found = self._simple(registers)
        if self.accept("|"):
            return Pair(found, self._simple(registers))
        return found

    def _simple(self, registers: dict[str, Register]) -> Operand:
        first = self.at
        kind, word = self.kinds[first], self.take()
        if word == "{":
            items: list[Operand] = []
            while not self.accept("}"):
                items.append(self._simple(registers))
                self.accept(",")
            return Vector(tuple(items))
        if word == "[":
            return self._memory(registers)
        if word == "(":
            found = self._simple(registers)
            self.expect(")")
            return found
        if word == "!":
            found = self._simple(registers)
            assert isinstance(found, Register)
            return Register(found.name, found.type, found.slot, not found.negated)
        if word in ("-", "~") or kind == "number":
            return self._number(word)
        if kind == "float":
            return Number(int(word[2:], 16), 32 if word[1] in "fF" else 64)
        if word == "_":
            return Sink()
        if kind != "word":
            raise refused(f"{word!r} is not an operand", self.span(first))
        if word in registers:
            return registers[word]
        if word[0] == "%":
            return Special(word)
        if word == "generic" and self.accept("("):
            found = self._simple(registers)
            self.expect(")")
            return self._offset(found)
        return self._offset(Symbol(word))

    def _offset(self, found: Operand) -> Operand:
        if isinstance(found, Symbol) and self.peek() in ("+", "-"):
            sign = -1 if self.take() == "-" else 1
            return Symbol(found.name, found.offset + sign * self.integer())
        return found

    def _number(self, word: str) -> Operand:
        if word == "~":
            found = self._number(self.take())
            assert isinstance(found, Number)
            return Number(~found.value)
        negative = word == "-"
        word = self.take() if negative else word
        if "." in word or (("e" in word or "E" in word) and word[1:2] not in ("x", "X")):
            value = -float(word) if negative else float(word)
            return Number(int.from_bytes(struct.pack("<d", value), "little"), 64)
        self.at -= 1
        value = self.integer()
        return Number(-value if negative else value)

    def _memory(self, registers: dict[str, Register]) -> Operand:
        base = self._simple(registers)
        offset = 0
        coordinates: tuple[Operand, ...] = ()
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        while self.peek() in ("+", "-"):
            sign = -1 if self.take() == "-" else 1
            offset += sign * self.integer()
        if self.accept(","):
            listed = self._simple(registers)
            coordinates = listed.items if isinstance(listed, Vector) else (listed,)
        self.expect("]")
        return Memory(base, offset, coordinates)


class BodyReader:
    """The body of one function: registers by scope, variables, labels, instructions."""

    def __init__(self, reader: Reader, function: Function) -> None:
        self.reader, self.function = reader, function
        self.scopes: list[dict[str, Register]] = [{}]
        self.renamed: list[dict[str, str]] = [{}]
        self.registers: dict[str, Register] = {}

    def read(self) -> None:
        """Statements up to the brace that closes the body."""
        reader, function = self.reader, self.function
        depth = 0
        while True:
            word = reader.peek()
            if word == "}":
                reader.take()
                if not depth:
                    return
                depth -= 1
                self._leave()
            elif word == "{":
                reader.take()
                depth += 1
                self.scopes.append({})
                self.renamed.append({})
            elif word == ";":
                reader.take()
            elif word[:1] == "." and reader.kinds[reader.at] == "word":
                self._directive(reader.take())
            elif reader.peek(1) == ":" and reader.kinds[reader.at] == "word":
                function.labels[word] = len(function.code)
                reader.at += 2
                if reader.peek() in (".branchtargets", ".calltargets"):
                    self._targets(word)
            else:
                self._instruction()

    def _leave(self) -> None:
        self.scopes.pop()
        self.renamed.pop()
        self.registers = {}
        for scope in self.scopes:
            self.registers.update(scope)

    def _targets(self, name: str) -> None:
        reader = self.reader
        if reader.take() == ".calltargets":
            raise refused("calls through a table are not modelled", reader.span(reader.at - 1))
        found = [reader.take()]
        while reader.accept(","):
            found.append(reader.take())
        reader.expect(";")
        self.function.tables[name] = tuple(found)

    def _directive(self, word: str) -> None:
        reader = self.reader
        if word == ".reg":
            self._registers()
        elif word in SPACES or word == ".extern":
            external = word == ".extern"
            space = SPACES[reader.take() if external else word]
            for variable in reader.variable(space):
                name = variable.name
                if (
                    name in self.function.variables
                ):  # the same name in another scope: calls use param0, retval0 again and again
                    count = sum([known.startswith(f"{name}@") for known in self.function.variables])
                    variable.name = f"{name}@{count + 1}"
                self.renamed[-1][name] = variable.name
                self.function.variables[variable.name] = variable
            reader.expect(";")
        elif word in PASSED_OVER:
            reader.skip_line()
        else:
            raise refused(f"{word} is not modelled inside a function", reader.span(reader.at - 1))

    def _registers(self) -> None:
        reader = self.reader
        word = reader.take()
        if word[1:] not in TYPES:
            raise refused(f"registers of type {word} are not modelled", reader.span(reader.at - 1))
        type_ = TYPES[word[1:]]
        while True:
            name = reader.take()
            names = [name]
            if reader.accept("<"):
                names = [f"{name}{k}" for k in range(reader.integer())]
                reader.expect(">")
            for one in names:
                made = Register(one, type_, len(self.function.registers))
                self.function.registers.append(made)
                self.scopes[-1][one] = self.registers[one] = made
            if not reader.accept(","):
                break
        reader.expect(";")

    def _instruction(self) -> None:
        reader = self.reader
        first = reader.at
        guard = None
        if reader.accept("@"):
            found = reader.operand(self.registers)
            if not isinstance(found, Register):
                raise refused("a guard that is not a predicate register", reader.span(first))
            guard = found
        opcode, *modifiers = reader.take().split(".")
        operands: list[Operand] = []
        if opcode == "call":
            operands = self._call_operands()
        else:
            while not reader.accept(";"):
                operands.append(self._renamed(reader.operand(self.registers)))
                if reader.accept(";"):
                    break
                reader.expect(",")
        span = reader.span(first, reader.at - 1)
        made = Instruction(opcode, tuple(modifiers), tuple(operands), guard, span)
        self.function.code.append(made)

    def _renamed(self, operand: Operand) -> Operand:
        """The operand with the variable that its name means in this scope."""
        if isinstance(operand, Symbol):
            for scope in reversed(self.renamed):
                if operand.name in scope:
                    return Symbol(scope[operand.name], operand.offset)
        elif isinstance(operand, Memory):
            return Memory(self._renamed(operand.base), operand.offset, operand.coordinates)
        return operand

    def _call_operands(self) -> list[Operand]:
        """``(results), function, (arguments)``: results and arguments as vectors, either may be absent."""
        reader = self.reader
        results: tuple[Operand, ...] = ()
        arguments: tuple[Operand, ...] = ()
        if reader.peek() == "(":
            results = self._list()
            reader.expect(",")
        callee = self._renamed(reader.operand(self.registers))
        if reader.accept(","):
            if reader.peek() == "(":
                arguments = self._list()
            if reader.accept(","):
                reader.take()
        reader.expect(";")
        return [callee, Vector(results), Vector(arguments)]

    def _list(self) -> tuple[Operand, ...]:
        self.reader.expect("(")
        found: list[Operand] = []
        while not self.reader.accept(")"):
            found.append(self._renamed(self.reader.operand(self.registers)))
            self.reader.accept(",")
        return tuple(found)


def _params(reader: Reader) -> list[Variable]:
    found: list[Variable] = []
    if not reader.accept("("):
        return found
    while not reader.accept(")"):
        word = reader.take()
        if word != ".param":
            raise refused(f"a parameter in {word} is not modelled", reader.span(reader.at - 1))
        found += reader.variable("param", in_list=True)
        reader.accept(",")
    return found


def _function(reader: Reader, entry: bool) -> Function:
    results = [] if entry or reader.peek() != "(" else _params(reader)
    made = Function(reader.take(), entry, results=results)
    made.params = _params(reader)
    while reader.peek() not in ("{", ";"):
        word = reader.take()
        if word in LIMITS:
            made.limits[word[1:]] = reader.integers()
        elif word not in PASSED_OVER:
            raise refused(f"{word} is not modelled", reader.span(reader.at - 1))
        elif word == ".pragma":
            reader.take()
    if reader.take() == ";":
        made.defined = False
        return made
    BodyReader(reader, made).read()
    return made


def read_module(text: str, name: str = "ptx") -> Module:
    """The module of a PTX text. Raises InterpreterError E391 for what is not PTX, or PTX of a kind that is not read."""
    reader = Reader(Source(name, text))
    if not reader.accept(".version"):
        raise refused("the text does not begin with .version", reader.span(0))
    major, minor = reader.take().split(".")
    version = int(major), int(minor)
    if version > VERSION_LIMIT:
        raise refused(f"PTX {major}.{minor} is newer than {VERSION_LIMIT[0]}.{VERSION_LIMIT[1]}", reader.span(1))
    reader.expect(".target")
    target = reader.take()
    while reader.accept(","):
        reader.take()
    made = Module(reader.source, version, target, {}, {})
    external = False
    while reader.kinds[reader.at] != "end":
        word = reader.take()
        if word in LINKAGE:
            external = word == ".extern"
            continue
        if word in (".entry", ".func"):
            function = _function(reader, word == ".entry")
            if function.defined or function.name not in made.functions:
                made.functions[function.name] = function
        elif word in SPACES:
            for variable in reader.variable(SPACES[word]):
                variable.external = external
                made.variables[variable.name] = variable
            reader.expect(";")
        elif word == ".address_size":
            if reader.integer() != 64:
                raise refused("only addresses of 64 bits are modelled", reader.span(reader.at - 1))
        elif word in PASSED_OVER:
            if word == ".section":
                reader.take()
                _skip_braces(reader)
            else:
                reader.skip_line()
        elif word != ";":
            raise refused(f"{word!r} is not modelled in a module", reader.span(reader.at - 1))
        external = False
    return made


def _skip_braces(reader: Reader) -> None:
    depth = 0
    while True:
        word = reader.take()
        depth += (word == "{") - (word == "}")
        if not depth:
            return
