"""A program as JSON and back. Reading checks every field: a hand-made or damaged text is an ArtifactError E805, never a crash.

Constants are not in here (raw sections of the file); their dtypes and shapes are.
"""

from __future__ import annotations

import json
from typing import Any

from ..ffi.abi import OPERATORS, BufferParam, Dim, KernelSignature, ScalarParam, SymbolSource
from ..support.errors import ArtifactError
from . import bytecode as bc
from .builtins import BUILTINS, CHECKS

_ARITY = {"not": 1, "select": 3}
_KINDS = ("vm", "kernel", "packed", "builtin")


def encode(program: bc.Program) -> bytes:
    """JSON text of everything but the constants' data."""
    data = {
        "functions": [_function(fn) for fn in program.functions.values()],
        "table": [[e.kind, e.name] for e in program.table],
        "contexts": [[c.function, c.what, c.annotation, c.place] for c in program.contexts],
        "places": program.places,
        "costs": [[name, *cost] for name, cost in program.costs.items()],
        "kernels": [[name, program.symbol(name), signature_data(s)] for name, s in program.kernels.items()],
    }
    return json.dumps(data, separators=(",", ":")).encode()


def _function(fn: bc.VMFunction) -> list[Any]:
    registers = [[r.kind, r.dtype, list(r.dims)] for r in fn.registers]
    return [fn.name, [list(p) for p in fn.params], fn.ret, registers, [[s.name, s.origin] for s in fn.slots],
            [_instruction(i) for i in fn.code], fn.prologue, fn.exported]  # fmt: skip


def _instruction(instruction: bc.Instruction) -> list[Any]:
    match instruction:
        case bc.Call(dst, function, args, place):
            return ["c", dst, function, [_arg(a) for a in args], place]
        case bc.Ret(value, place):
            return ["r", _arg(value), place]
        case bc.Goto(target):
            return ["g", target]
        case bc.If(cond, target, place):
            return ["i", _arg(cond), target, place]


def _arg(arg: bc.Arg) -> list[Any]:
    match arg:
        case bc.Reg(index):
            return ["r", index]
        case bc.Imm(value):
            return ["i", value] if not isinstance(value, float) else ["f", value.hex()]
        case bc.Const(index):
            return ["c", index]
        case bc.Func(index):
            return ["f@", index]
        case bc.Size(dim, dtype):
            return ["s", dim, dtype]
        case bc.Bind(slot):
            return ["b", slot]


def signature_data(s: KernelSignature) -> list[Any]:
    """A kernel's signature as JSON data."""
    params = [
        ["b", p.name, p.dtype, p.shape, p.strides, p.written] if isinstance(p, BufferParam) else ["s", p.name, p.dtype]
        for p in s.params
    ]
    return [
        s.name,
        params,
        [[y.name, y.param, y.axis, y.field] for y in s.symbols],
        s.messages,
        s.result,
        s.packed_calls,
    ]


def read_signature(value: Any) -> KernelSignature:
    """A signature from its JSON data. Raises ValueError, TypeError and the like for other data."""
    return _Reader({}, []).signature(value)


def decode(data: bytes, constants: list[Any]) -> bc.Program:
    """A program from JSON text. Raises ArtifactError E805 for text that is no program."""
    try:
        return _Reader(json.loads(data), constants).read()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        raise ArtifactError("E805", f"the bytecode of the file is not valid: {error}") from error


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _text(value: Any) -> str:
    _need(isinstance(value, str), "expected text")
    return str(value)


def _integer(value: Any, low: int, high: int, what: str) -> int:
    _need(type(value) is int and low <= value < high, f"{what} {value!r} is out of range")
    return int(value)


class _Reader:
    """Reads a program; every index is compared with the table it points into."""

    def __init__(self, data: Any, constants: list[Any]) -> None:
        self.data = data
        self.program = bc.Program(constants=constants)

    def read(self) -> bc.Program:
        data, program = self.data, self.program
        program.places = [_text(p) for p in data["places"]]
        for kind, name in data["table"]:
            _need(kind in _KINDS, f"unknown function kind {kind!r}")
            _need(kind != "builtin" or name in BUILTINS or name in CHECKS, f"unknown operation {name!r}")
            program.table.append(bc.Entry(kind, _text(name)))
        for function, what, annotation, place in data["contexts"]:
            program.contexts.append(bc.Context(_text(function), _text(what), _text(annotation), self.place(place)))
        for name, symbol, signature in data["kernels"]:
            program.kernels[_text(name)] = self.signature(signature)
            program.symbols[name] = _text(symbol)
        for name, flops, moved in data.get("costs", []):
            count = len(program.kernels[name].symbols)
            program.costs[name] = (self.dim(flops, count), self.dim(moved, count))
        for item in data["functions"]:
            fn = self.function(item)
            program.functions[fn.name] = fn
        for entry in program.table:
            known: set[str] | None = {"vm": set(program.functions), "kernel": set(program.kernels)}.get(entry.kind)
            _need(known is None or entry.name in known, f"no {entry.kind} function {entry.name!r}")
        return program

    def place(self, value: Any) -> int:
        return _integer(value, -1, len(self.program.places), "place")

    def dim(self, value: Any, symbols: int) -> Dim:
        if type(value) is int:
            return _integer(value, -(2**63), 2**63, "dimension")
        kind = value[0]
        if kind == "sym":
            _need(len(value) == 2, "a symbol has one number")
            return ("sym", _integer(value[1], 0, symbols, "symbol"))
        _need(kind in OPERATORS and len(value) == 1 + _ARITY.get(kind, 2), f"unknown formula {kind!r}")
        return (kind, *[self.dim(v, symbols) for v in value[1:]])

    def signature(self, value: Any) -> KernelSignature:
        name, params, symbols, messages, result, packed = value
        count = len(symbols)
        made: list[BufferParam | ScalarParam] = []
        for p in params:
            if p[0] == "b":
                shape, strides = tuple([self.dim(d, count) for d in p[3]]), tuple([self.dim(d, count) for d in p[4]])
                made.append(BufferParam(_text(p[1]), _text(p[2]), shape, strides, bool(p[5])))
            else:
                made.append(ScalarParam(_text(p[1]), _text(p[2])))
        sources = tuple(
            [
                SymbolSource(_text(n), _integer(p, 0, len(made), "parameter"), _integer(a, 0, 1000, "axis"), _text(f))
                for n, p, a, f in symbols
            ]
        )
        texts = tuple([_text(m) for m in messages])
        return KernelSignature(
            _text(name),
            tuple(made),
            sources,
            texts,
            None if result is None else _text(result),
            tuple([_text(n) for n in packed]),
        )

    def function(self, value: Any) -> bc.VMFunction:
        name, params, ret, registers, slots, code, prologue, exported = value
        made_slots = tuple([bc.Slot(_text(n), _text(o)) for n, o in slots])
        made_registers = []
        for kind, dtype, shape in registers:
            _need(kind in ("tensor", "storage", "object"), f"unknown register kind {kind!r}")
            made_registers.append(bc.RegType(kind, _text(dtype), tuple([self.dim(d, len(slots)) for d in shape])))
        made_params = tuple([(_text(n), _text(a)) for n, a in params])
        start = _integer(prologue, 0, len(code), "prologue")
        _need(len(made_params) <= len(made_registers), "more parameters than registers")
        made_code = tuple([self.instruction(i, len(registers), len(slots), len(code)) for i in code])
        _need(bool(made_code) and isinstance(made_code[-1], (bc.Ret, bc.Goto)), "a function must end with a return")
        return bc.VMFunction(
            _text(name), made_params, _text(ret), tuple(made_registers), made_slots, made_code, start, bool(exported)
        )

    def instruction(self, value: Any, registers: int, slots: int, length: int) -> bc.Instruction:
        match value:
            case ["c", dst, function, args, place]:
                made = tuple([self.arg(a, registers, slots) for a in args])
                row = _integer(function, 0, len(self.program.table), "function")
                return bc.Call(_integer(dst, -1, registers, "register"), row, made, self.place(place))
            case ["r", arg, place]:
                return bc.Ret(self.arg(arg, registers, slots), self.place(place))
            case ["g", target]:
                return bc.Goto(_integer(target, 0, length, "target"))
            case ["i", arg, target, place]:
                return bc.If(self.arg(arg, registers, slots), _integer(target, 0, length, "target"), self.place(place))
        raise ValueError("unknown instruction")

    def arg(self, value: Any, registers: int, slots: int) -> bc.Arg:
        match value:
            case ["r", index]:
                return bc.Reg(_integer(index, 0, registers, "register"))
            case ["i", None | bool() | int() | str() as literal]:
                return bc.Imm(literal)
            case ["f", text]:
                return bc.Imm(float.fromhex(text))
            case ["c", index]:
                return bc.Const(_integer(index, 0, len(self.program.constants), "constant"))
            case ["f@", index]:
                return bc.Func(_integer(index, 0, len(self.program.table), "function"))
            case ["s", dim, dtype]:
                return bc.Size(self.dim(dim, slots), _text(dtype))
            case ["b", slot]:
                return bc.Bind(_integer(slot, 0, slots, "slot"))
        raise ValueError("unknown argument")
