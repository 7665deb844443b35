"""A small expression builder that writes LLVM IR text for any number of lanes.

A formula is written once over `Value` objects; each operation appends one instruction to the `FunctionText` being built.
Python numbers become splat constants of the other operand's type. With one lane the types are scalars (``float``), with
more they are vectors (``<16 x float>``). No optimisation happens here: LLVM folds constants and reuses subexpressions.
Invariant: every operand of an operation has the same lane count, and, where the instruction asks for it, the same kind.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

ELEMENT_NAMES = {"f32": "float", "f64": "double"}
FLOAT_BITS = {"f32": 32, "f64": 64}
Number = int | float


def element_name(kind: str) -> str:
    """LLVM's name of a scalar kind: ``f32`` -> ``float``; integer kinds (``i1``, ``i32``) are spelled the same."""
    return ELEMENT_NAMES.get(kind, kind)


def type_name(kind: str, lanes: int) -> str:
    """LLVM's name of a value type: a scalar for one lane, else a vector."""
    name = element_name(kind)
    return name if lanes == 1 else f"<{lanes} x {name}>"


def suffix(kind: str, lanes: int) -> str:
    """The type suffix of intrinsic names: ``f32`` or ``v16f32``."""
    return kind if lanes == 1 else f"v{lanes}{kind}"


def constant_text(number: Number, kind: str, lanes: int) -> str:
    """A constant operand. Floats are written as the exact bits LLVM expects (rounded to the kind first)."""
    if kind in ELEMENT_NAMES:
        value = float(number)
        if kind == "f32":
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    elif kind == "i1":
        text = "true" if number else "false"
    else:
        text = str(int(number))
    return text if lanes == 1 else f"splat ({element_name(kind)} {text})"


@dataclass(slots=True)
class FunctionText:
    """The instructions of one function under construction, and the definitions it refers to."""

    lines: list[str] = field(default_factory=list)
    needed: dict[str, str] = field(default_factory=dict)
    block: str = "entry"
    counter: int = 0
    scales: bool = False
    """The processor multiplies by powers of two in one instruction, which takes no longer where the product underflows."""
    estimates: bool = False
    """The device has instructions for approximate reciprocals of float32, and of roots; its division is long code."""

    def name(self) -> str:
        """A fresh local name."""
        self.counter += 1
        return f"%t{self.counter}"

    def emit(self, instruction: str, kind: str, lanes: int) -> Value:
        """Append ``name = instruction`` and return the name as a value."""
        name = self.name()
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, name, kind, lanes)

    def start_block(self, label: str) -> None:
        """Begin a basic block; the one before must have been ended by a branch."""
        self.lines.append(f"{label}:")
        self.block = label


Method = Callable[["Value", "Value | Number"], "Value"]


def _operator(float_op: str, int_op: str, swap: bool = False) -> Method:
    """The method that applies an instruction of floats or of integers; "" where there is none."""
    return lambda value, other: value._binary(float_op, int_op, other, swap)


def _comparison(float_code: str, int_code: str) -> Method:
    """The method that compares by a condition code of floats or of integers."""
    return lambda value, other: value._compare(float_code, int_code, other)


@dataclass(slots=True, eq=False)
class Value:
    """One SSA value: its operand text, kind (``f32 f64 i1 i8 i16 i32 i64``) and lane count."""

    function: FunctionText
    text: str
    kind: str
    lanes: int

    @property
    def type(self) -> str:
        """The LLVM type."""
        return type_name(self.kind, self.lanes)

    @property
    def is_float(self) -> bool:
        """True for f32 and f64."""
        return self.kind in ELEMENT_NAMES

    @property
    def bits(self) -> int:
        """Width of one element."""
        return FLOAT_BITS[self.kind] if self.is_float else int(self.kind[1:])

    def constant(self, number: Number) -> Value:
        """A splat constant of this value's type."""
        return Value(self.function, constant_text(number, self.kind, self.lanes), self.kind, self.lanes)

    def _operand(self, other: Value | Number) -> Value:
        return other if isinstance(other, Value) else self.constant(other)

    def _binary(self, float_op: str, int_op: str, other: Value | Number, swap: bool = False) -> Value:
        right = self._operand(other)
        assert (right.kind, right.lanes) == (self.kind, self.lanes), f"{self.type} against {right.type}"
        first, second = (right, self) if swap else (self, right)
        operation = float_op if self.is_float else int_op
        assert operation, f"no such operation on {self.type}"
        return self.function.emit(f"{operation} {self.type} {first.text}, {second.text}", self.kind, self.lanes)

    __add__ = __radd__ = _operator("fadd", "add")
    __sub__, __rsub__ = _operator("fsub", "sub"), _operator("fsub", "sub", swap=True)
    __mul__ = __rmul__ = _operator("fmul", "mul")
    __truediv__, __rtruediv__ = _operator("fdiv", ""), _operator("fdiv", "", swap=True)
    __and__, __or__, __xor__ = _operator("", "and"), _operator("", "or"), _operator("", "xor")
    __lshift__, __rshift__ = _operator("", "shl"), _operator("", "ashr")
    logical_shift_right = _operator("", "lshr")
    """Shift right that fills with zeros, where ``>>`` keeps the sign."""

    def __neg__(self) -> Value:
        if self.is_float:
            return self.function.emit(f"fneg {self.type} {self.text}", self.kind, self.lanes)
        return 0 - self

    def __invert__(self) -> Value:
        return self ^ -1 if self.kind != "i1" else self ^ 1

    def _compare(self, float_code: str, int_code: str, other: Value | Number) -> Value:
        right = self._operand(other)
        code = f"fcmp {float_code}" if self.is_float else f"icmp {int_code}"
        return self.function.emit(f"{code} {self.type} {self.text}, {right.text}", "i1", self.lanes)

    lt, le = _comparison("olt", "slt"), _comparison("ole", "sle")
    gt, ge = _comparison("ogt", "sgt"), _comparison("oge", "sge")
    eq, ne = _comparison("oeq", "eq"), _comparison("une", "ne")
    """Comparisons, of integers with their signs. Where an operand is NaN, only ``ne`` is true."""

    def is_nan(self) -> Value:
        """True where the value is NaN."""
        return self._compare("uno", "", self)

    def select(self, if_true: Value | Number, if_false: Value | Number) -> Value:
        """``self ? if_true : if_false`` per lane; self is an i1 value. At least one choice must be a Value."""
        model = if_true if isinstance(if_true, Value) else if_false
        assert isinstance(model, Value) and self.kind == "i1"
        first, second = model._operand(if_true), model._operand(if_false)
        assert first.kind == second.kind
        return self.function.emit(
            f"select {self.type} {self.text}, {model.type} {first.text}, {model.type} {second.text}",
            model.kind,
            model.lanes,
        )

    def clamp(self, low: Number, high: Number) -> Value:
        """The value held within [low, high]; NaN stays NaN (the comparisons are ordered)."""
        above = self.gt(high).select(high, self)
        return above.lt(low).select(low, above)

    def as_bits(self) -> Value:
        """A float reinterpreted as an integer of the same width."""
        return self.convert("bitcast", f"i{self.bits}")

    def as_float(self) -> Value:
        """An integer reinterpreted as a float of the same width."""
        return self.convert("bitcast", {32: "f32", 64: "f64"}[self.bits])

    def convert(self, instruction: str, kind: str) -> Value:
        """One conversion instruction (``fpext``, ``sitofp``, ``trunc``, ...) to another kind."""
        target = type_name(kind, self.lanes)
        return self.function.emit(f"{instruction} {self.type} {self.text} to {target}", kind, self.lanes)

    def widened(self) -> Value:
        """f32 as f64."""
        return self.convert("fpext", "f64")

    def narrowed(self) -> Value:
        """f64 rounded to f32."""
        return self.convert("fptrunc", "f32")


def intrinsic(name: str, *operands: Value) -> Value:
    """Call ``llvm.<name>`` overloaded on the operands' common type, which is also the result's type."""
    first = operands[0]
    symbol = f"llvm.{name}.{suffix(first.kind, first.lanes)}"
    arguments = ", ".join(f"{value.type} {value.text}" for value in operands)
    declared = ", ".join(value.type for value in operands)
    first.function.needed[symbol] = f"declare {first.type} @{symbol}({declared})\n"
    return first.function.emit(f"call {first.type} @{symbol}({arguments})", first.kind, first.lanes)


def fma(a: Value, b: Value | Number, c: Value | Number) -> Value:
    """a * b + c rounded once. The first operand must be a Value."""
    return intrinsic("fma", a, a._operand(b), a._operand(c))


def load_exponent(x: Value, power: Value, whole: Value) -> Value:
    """x * 2^power rounded once, for processors with ``FunctionText.scales``; ``whole`` is the power as an integer. A number
    goes through what LLVM makes vectors of, which converts the integer once more; vectors go through the instruction."""
    if x.lanes == 1:
        symbol = f"llvm.ldexp.{x.kind}.{whole.kind}"
        x.function.needed[symbol] = f"declare {x.type} @{symbol}({x.type}, {whole.type})\n"
        return x.function.emit(f"call {x.type} @{symbol}({x.type} {x.text}, {whole.type} {whole.text})", x.kind, 1)
    return _scaled(x, power)


def _scaled(x: Value, power: Value) -> Value:
    """The instruction on vectors of any length: in parts of a register, the last filled."""
    lanes, most = x.lanes, 512 // x.bits
    if lanes > most:
        half = 1 << (lanes - 1).bit_length() - 1
        parts = [range(half), range(half, lanes)]
        low, high = [_scaled(*[_shuffled(v, v, part, half) for v in (x, power)]) for part in parts]
        return _shuffled(low, high, range(lanes), lanes)
    register = next(n for n in (most // 4, most // 2, most) if n >= lanes)
    if lanes < register:
        wide = _scaled(*[_shuffled(v, v, range(lanes), register) for v in (x, power)])
        return _shuffled(wide, wide, range(lanes), lanes)
    symbol = f"llvm.x86.avx512.mask.scalef.{'ps' if x.bits == 32 else 'pd'}.{x.bits * lanes}"
    mask, rounding = f"i{max(8, lanes)}", ", i32" if lanes == most else ""
    x.function.needed[symbol] = f"declare {x.type} @{symbol}({x.type}, {x.type}, {x.type}, {mask}{rounding})\n"
    operands = f"{x.type} {x.text}, {x.type} {power.text}, {x.type} poison, {mask} -1{rounding and rounding + ' 4'}"
    return x.function.emit(f"call {x.type} @{symbol}({operands})", x.kind, lanes)


def _shuffled(a: Value, b: Value, places: Sequence[int], lanes: int) -> Value:
    """A vector of ``lanes`` that begins with the lanes of a, and of b after them, at these places."""
    indices = [f"i32 {n}" for n in places] + ["i32 poison"] * (lanes - len(places))
    shuffle = f"shufflevector {a.type} {a.text}, {b.type} {b.text}, <{lanes} x i32> <{', '.join(indices)}>"
    return a.function.emit(shuffle, a.kind, lanes)


def divide(a: Value | Number, b: Value) -> Value:
    """a / b for quotients that are normal numbers, and b from 2^-126 to 2^126, 0 or infinite: nearest numbers, or next to."""
    if not (b.function.estimates and b.kind == "f32"):
        return a / b
    a = b._operand(a)
    inverse = _estimate("rcp.approx.ftz.f", b)
    rough = a * inverse
    better = fma(fma(-b, rough, a), inverse, rough)
    return better.is_nan().select(rough, better)


def reciprocal_root(x: Value) -> Value:
    """1 / sqrt(x)."""
    if not (x.function.estimates and x.kind == "f32"):
        return 1.0 / intrinsic("sqrt", x)
    rough = _estimate("rsqrt.approx.f", x)
    left = fma(-(x * rough), rough, x.constant(1.0))
    better = fma(rough * 0.5, left, rough)
    return better.is_nan().select(rough, better)  # of 0 and infinity


def _estimate(name: str, x: Value) -> Value:
    """An instruction of the device, which takes single numbers, on each lane."""
    symbol = f"llvm.nvvm.{name}"
    x.function.needed[symbol] = f"declare float @{symbol}(float)\n"
    if x.lanes == 1:
        return x.function.emit(f"call float @{symbol}(float {x.text})", x.kind, 1)
    made = "poison"
    for lane in range(x.lanes):
        one = x.function.emit(f"extractelement {x.type} {x.text}, i64 {lane}", x.kind, 1)
        one = x.function.emit(f"call float @{symbol}(float {one.text})", x.kind, 1)
        made = x.function.emit(f"insertelement {x.type} {made}, float {one.text}, i64 {lane}", x.kind, x.lanes).text
    return Value(x.function, made, x.kind, x.lanes)


def absolute(x: Value) -> Value:
    """|x| of a float."""
    return intrinsic("fabs", x)


def copy_sign(magnitude: Value, sign: Value) -> Value:
    """The magnitude of the first with the sign bit of the second."""
    return intrinsic("copysign", magnitude, sign)


def square_root(x: Value) -> Value:
    """Correctly rounded square root (an instruction on every processor we target)."""
    return intrinsic("sqrt", x)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's scheme with one fma per coefficient; constant term first."""
    result = x.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result


def where_any(mask: Value, rare: Callable[[], list[Value]], usual: list[Value]) -> list[Value]:
    """`rare()` where the mask is true, else `usual`; the instructions of `rare` run only if some lane needs them.

    `rare` computes all lanes; the choice per lane is made here.
    """
    function = mask.function
    some = mask
    if mask.lanes > 1:
        symbol = f"llvm.vector.reduce.or.v{mask.lanes}i1"
        function.needed[symbol] = f"declare i1 @{symbol}({mask.type})\n"
        some = function.emit(f"call i1 @{symbol}({mask.type} {mask.text})", "i1", 1)
    number = function.counter
    before = function.block
    function.lines.append(f"  br i1 {some.text}, label %rare{number}, label %join{number}")
    function.start_block(f"rare{number}")
    chosen = [mask.select(r, u) for r, u in zip(rare(), usual, strict=True)]
    after = function.block
    function.lines.append(f"  br label %join{number}")
    function.start_block(f"join{number}")
    return [
        function.emit(f"phi {u.type} [ {u.text}, %{before} ], [ {c.text}, %{after} ]", u.kind, u.lanes)
        for c, u in zip(chosen, usual, strict=True)
    ]


def call_per_lane(
    symbol: str, definition: dict[str, str], arguments: list[Value], results: Sequence[str]
) -> list[Value]:
    """Call a scalar function once per lane; it returns a struct with one field per entry of `results` (kinds).

    Vectors go through one function that is not inlined: the calls are rare, and a formula stands in a program many times.
    """
    function, lanes = arguments[0].function, arguments[0].lanes
    function.needed.update(definition)
    called = symbol
    if lanes > 1:
        called = f"{symbol}.v{lanes}"
        function.needed[called] = _over_lanes(symbol, called, [a.kind for a in arguments], results, lanes)
    return _call(function, called, arguments, results)


def _call(function: FunctionText, symbol: str, arguments: list[Value], results: Sequence[str]) -> list[Value]:
    """The fields of what a function returns, as many lanes as its arguments have."""
    lanes = arguments[0].lanes
    struct_type = _struct_type(results, lanes)
    passed = ", ".join(f"{a.type} {a.text}" for a in arguments)
    answer = function.emit(f"call {struct_type} @{symbol}({passed})", "struct", 1)
    return [
        function.emit(f"extractvalue {struct_type} {answer.text}, {index}", kind, lanes)
        for index, kind in enumerate(results)
    ]


def _struct_type(kinds: Sequence[str], lanes: int) -> str:
    return "{ " + ", ".join(type_name(kind, lanes) for kind in kinds) + " }"


def _over_lanes(symbol: str, name: str, kinds: Sequence[str], results: Sequence[str], lanes: int) -> str:
    """The definition of a function of vectors that calls one of scalars for each lane."""
    function = FunctionText()
    arguments = [Value(function, f"%x{index}", kind, lanes) for index, kind in enumerate(kinds)]
    columns = [Value(function, "poison", kind, lanes) for kind in results]
    for lane in range(lanes):
        scalars = [function.emit(f"extractelement {a.type} {a.text}, i64 {lane}", a.kind, 1) for a in arguments]
        parts = _call(function, symbol, scalars, results)
        columns = [
            function.emit(f"insertelement {c.type} {c.text}, {p.type} {p.text}, i64 {lane}", c.kind, lanes)
            for c, p in zip(columns, parts)
        ]
    whole = _struct_type(results, lanes)
    made = "poison"
    for index, column in enumerate(columns):
        made = function.emit(f"insertvalue {whole} {made}, {column.type} {column.text}, {index}", "struct", 1).text
    parameters = ", ".join(f"{a.type} {a.text}" for a in arguments)
    body = "\n".join(["entry:", *function.lines, f"  ret {whole} {made}"])
    return f"define internal {whole} @{name}({parameters}) noinline nounwind {{\n{body}\n}}\n"
