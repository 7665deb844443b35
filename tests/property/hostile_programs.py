"""Random modules that graph passes find hard, as script: several entry functions, private helpers with tuples, nested functions
that capture values, conditionals inside conditionals, effects (``pass_fuzz.note``), memory given away, tensor programs, integer
and bool data, scalars, sizes 0 and 1, constants with NaN and infinities.

``hostile_program(rng)`` is the script; ``main`` takes ``PARAMS``. ``hostile_inputs(rng, wild)`` are its arguments, with corner
cases among the numbers where ``wild``.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from fuzz_values import random_array

PARAMS = {
    "x": ("float32", "n, 4"), "y": ("float32", "n, 4"), "w": ("float32", "4, 4"), "i": ("int32", "n, 4"), "b": ("bool", "n, 4"),
    "s": ("float32", ""), "k": ("int64", ""), "e": ("float32", "0, 4"), "o": ("float32", "1, 4"), "d": ("float64", "4"),
}  # fmt: skip
FLOAT_UNARY = ("negative", "abs", "exp", "nn.relu", "floor", "sqrt", "tanh")
INT_UNARY = ("negative", "abs", "sign")
FLOAT_BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "divide")
INT_BINARY = ("add", "subtract", "multiply", "maximum", "bitwise_and", "bitwise_xor")
COMPARE = ("less", "greater_equal", "equal", "not_equal")
CONSTANTS = {
    "float32": ("0.0", "-0.0", "1.0", "-2.5", "3.0", 'float("nan")', 'float("inf")'), "float64": ("0.0", "1.0", "0.1"),
    "int32": ("0", "1", "-3"), "int64": ("0", "2"), "int8": ("1", "-1"), "bool": ("True", "False"),
}  # fmt: skip
KERNELS = """
    @T.prim_func(private=True)
    def twice(p: T.handle, q: T.handle):
        r = T.int64()
        A = T.match_buffer(p, (r, 4), "float32")
        B = T.match_buffer(q, (r, 4), "float32")
        for i, j in T.grid(r, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @T.prim_func(private=True)
    def sums(p: T.handle, q: T.handle):
        r = T.int64()
        A = T.match_buffer(p, (r, 4), "float32")
        B = T.match_buffer(q, (r,), "float32")
        for i, j in T.grid(r, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vj]

    @T.prim_func(private=True)
    def increase(p: T.handle):
        r = T.int64()
        A = T.match_buffer(p, (r, 4), "float32")
        for i, j in T.grid(r, 4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] + T.float32(1)
"""
Value = tuple[str, str, str]
"""A variable, its data type, its shape."""


def tensor(dtype: str, shape: str, quoted: bool = False) -> str:
    """The type in script; in a signature symbols stand between quotes."""
    dims = [f'"{d}"' if quoted and not d.isdigit() else d for d in shape.split(", ")] if shape else []
    inside = ", ".join(dims) + ("," if len(dims) == 1 else "")
    return f'R.Tensor(({inside}), "{dtype}")'


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.impure = rng.random() < 0.3
        self.wild = rng.random() < 0.3
        self.helpers: list[str] = []

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, dtype: str) -> str:
        known = [c for c in CONSTANTS[dtype] if self.wild or not c.startswith("float(")]
        return f'R.const({self.rng.choice(known)}, "{dtype}")'

    def pick(self, values: list[Value], dtype: str = "", shape: str | None = None) -> Value | None:
        found = [v for v in values if (not dtype or v[1] == dtype) and (shape is None or v[2] == shape)]
        return self.rng.choice(found) if found else None

    def step(self, values: list[Value]) -> tuple[list[str], list[Value]]:
        """Lines that bind more values, without effects, and what they bind."""
        rng, out = self.rng, self.name()
        name, dtype, shape = rng.choice(values)
        is_float = dtype.startswith("float")
        match rng.randrange(15):
            case 0 | 1 if dtype != "bool":
                return [f"{out} = R.{rng.choice(FLOAT_UNARY if is_float else INT_UNARY)}({name})"], [
                    (out, dtype, shape)
                ]
            case 2 | 3 if dtype != "bool":
                other = self.pick(values, dtype, shape) or ("", "", "")
                second = other[0] if rng.random() < 0.7 else self.constant(dtype)
                first, second = (name, second) if rng.random() < 0.7 else (second, name)
                return [f"{out} = R.{rng.choice(FLOAT_BINARY if is_float else INT_BINARY)}({first}, {second})"], [
                    (out, dtype, shape)
                ]
            case 4 if dtype != "bool":
                return [f"{out} = R.{rng.choice(COMPARE)}({name}, {self.constant(dtype)})"], [(out, "bool", shape)]
            case 5:
                chosen = self.pick(values, "bool", shape)
                other = self.pick(values, dtype, shape)
                if chosen and other:
                    return [f"{out} = R.where({chosen[0]}, {name}, {other[0]})"], [(out, dtype, shape)]
            case 6 if dtype != "bool" and shape and shape != "0, 4":
                how = rng.choice(("sum", "max", "min")) if shape != "n, 4" else "sum"
                return [f"{out} = R.{how}({name}, axis=(0,))"], [(out, dtype, shape.partition(", ")[2])]
            case 7:
                target = rng.choice(
                    [d for d in CONSTANTS if d != dtype and (dtype in ("int32", "bool", "int8") or d != "int8")]
                )
                if not (is_float and target.startswith("int")):
                    return [f'{out} = R.astype({name}, "{target}")'], [(out, target, shape)]
            case 8 if shape == "n, 4" and dtype == "float32":
                weight = self.pick(values, "float32", "4, 4")
                if weight and rng.random() < 0.5:
                    return [f"{out} = R.matmul({name}, {weight[0]})"], [(out, dtype, shape)]
                return [f"{out} = R.call_dps(twice, ({name},), {tensor(dtype, shape)})"], [(out, dtype, shape)]
            case 9 if shape.count(",") == 1:
                flat = self.name()
                rows, cols = shape.split(", ")
                return [f"{flat} = R.reshape({name}, R.shape([{rows} * {cols}]))", f"{out} = R.reshape({flat}, R.shape([{shape}]))"], [
                    (out, dtype, shape)]  # fmt: skip
            case 10:
                pair, other = self.name(), rng.choice(values)
                at = rng.randrange(2)
                return [f"{pair} = ({name}, ({other[0]}, {name}))", f"u{pair} = {pair}[1]", f"{out} = u{pair}[{at}]"], [
                    (out, *((other[1:], (dtype, shape))[at]))]  # fmt: skip
            case 11 if shape.count(",") == 1:
                turned = self.name()
                return [f"{turned} = R.permute_dims({name})", f"{out} = R.permute_dims({turned})"], [
                    (out, dtype, shape)
                ]
            case 12 if shape.count(",") == 1:
                parts = self.name()
                return [f"{parts} = R.split({name}, 2, axis=1)", f"p{parts} = {parts}[0]", f"q{parts} = {parts}[1]",
                        f"{out} = R.concat((q{parts}, p{parts}), axis=1)"], [(out, dtype, shape)]  # fmt: skip
            case 13 if dtype == "float32" and shape in ("n, 4", "1, 4", "0, 4"):
                rows = shape.split(", ")[0]
                return [f"{out} = R.call_dps(sums, ({name},), {tensor(dtype, rows)})"], [(out, dtype, rows)]
            case 14 if self.helpers and dtype == "float32" and shape == "n, 4":
                helper, other, pair = rng.randrange(len(self.helpers)), self.pick(values, dtype, shape), self.name()
                assert other
                return [f"{pair} = helper{helper}(({name}, {other[0]}), {name})", f"{out} = {pair}[{rng.randrange(2)}]"], [
                    (out, dtype, shape)]  # fmt: skip
        return [f"{out} = R.add({name}, {name})" if dtype != "bool" else f"{out} = R.logical_not({name})"], [
            (out, dtype, shape)
        ]

    def body(self, values: list[Value], steps: int, depth: int = 0) -> list[str]:
        """Lines of a sequence; ``values`` grows by what they bind."""
        rng, lines = self.rng, []
        while steps > 0:
            steps -= 1
            pick = rng.random()
            if pick < 0.35:
                inner: list[str] = []
                known = list(values)
                for _ in range(rng.randint(1, 4)):
                    more, made = self.step(known)
                    inner += more
                    known += made
                made = known[len(values) :]
                shown = rng.sample(made, rng.randint(1, len(made)))
                lines += [
                    "with R.dataflow():",
                    *["    " + x for x in inner],
                    f"    R.output({', '.join([v[0] for v in shown])})",
                ]
                values += shown
            elif pick < 0.5 and depth < 2:
                lines += self.branch(values, depth)
            elif pick < 0.6 and depth == 0:
                lines += self.closure(values)
            elif pick < 0.66 and self.impure:
                what = rng.choice(values)
                lines += [f'R.call_packed("pass_fuzz.note", {what[0]}, ty_args=(R.Object,))']
            elif pick < 0.72 and (given := self.pick(values, "float32", "n, 4")):
                own, out = self.name(), self.name()
                how = f"R.call_inplace(increase, ({own},), {tensor('float32', 'n, 4')}, inplace_indices=(0,))"
                lines += [f"{own} = R.tanh({given[0]})", f"{out} = {how}"]
                values += [(out, "float32", "n, 4")]
            elif pick < 0.76:
                name, dtype, shape = rng.choice(values)
                out = self.name()
                lines += [f"{out} = R.match_cast({name}, {tensor(dtype, shape)})"]
                values += [(out, dtype, shape)]
            else:
                more, made = self.step(values)
                lines += more
                values += made
        return lines

    def branch(self, values: list[Value], depth: int) -> list[str]:
        """A conditional whose sides give values of one type."""
        rng, out = self.rng, self.name()
        flag, dtype, shape = f"f{out}", *rng.choice(values)[1:]
        sides = []
        for _ in range(2):
            known = list(values)
            inner = self.body(known, rng.randint(0, 2), depth + 1)
            found = self.pick(known, dtype, shape)
            assert found
            last = f"{out} = R.{'logical_not' if dtype == 'bool' else 'negative'}({found[0]})"
            sides.append(["    " + x for x in [*inner, last]])
        chosen = self.pick(values, "bool", "")
        lines = (
            [f"{flag} = {chosen[0]}"] if chosen else [f'{flag} = R.greater(k, R.const({rng.randint(0, 3)}, "int64"))']
        )
        values.append((out, dtype, shape))
        return [*lines, f"if {flag}:", *sides[0], "else:", *sides[1]]

    def closure(self, values: list[Value]) -> list[str]:
        """A local function that captures a value, called twice."""
        rng, fn, out = self.rng, self.name(), self.name()
        captured, given = self.pick(values, "float32", rng.choice(("", "n, 4"))), self.pick(values, "float32", "n, 4")
        if captured is None or given is None:
            return []
        ty = tensor("float32", "n, 4")
        inside = [f"def {fn}(z: {ty}) -> {ty}:", f"    a{fn} = R.{rng.choice(FLOAT_UNARY)}(z)",
                  f"    return R.{rng.choice(FLOAT_BINARY)}(a{fn}, {captured[0]})"]  # fmt: skip
        lines = ["@R.function", *inside, f"r{fn} = {fn}({given[0]})", f"{out} = {fn}(r{fn})"]
        values += [(f"r{fn}", "float32", "n, 4"), (out, "float32", "n, 4")]
        return lines

    def helper(self, index: int) -> str:
        """A private function with a tuple; its results may repeat or hand a parameter on."""
        ty = tensor("float32", "m, 4", quoted=True)
        values: list[Value] = [("p0", "float32", "m, 4"), ("q", "float32", "m, 4"), ("p1", "float32", "m, 4")]
        lines = ["p0 = p[0]", "p1 = p[1]"]
        for _ in range(self.rng.randint(0, 3)):
            out, one, two = self.name(), *[self.rng.choice(values)[0] for _ in range(2)]
            lines += [f"{out} = R.{self.rng.choice(FLOAT_BINARY)}({one}, {two})"]
            values.append((out, "float32", "m, 4"))
        result = f"return ({self.rng.choice(values)[0]}, {self.rng.choice(values)[0]})"
        head = f"    @R.function(private=True)\n    def helper{index}(p: R.Tuple({ty}, {ty}), q: {ty}):\n"
        return head + "\n".join(["        " + x for x in [*lines, result]]) + "\n\n"

    def entry(self, name: str, results: int) -> str:
        """A public function over ``PARAMS``."""
        values: list[Value] = [(p, *ty) for p, ty in PARAMS.items()]
        self.count = 0
        lines = self.body(values, self.rng.randint(2, 7))
        made = values[len(PARAMS) :] or values
        chosen = [v[0] for v in self.rng.choices(made, k=results)]
        params = ", ".join([f"{p}: {tensor(*ty, quoted=True)}" for p, ty in PARAMS.items()])
        result = chosen[0] if results == 1 else f"({', '.join(chosen)})"
        body = "\n".join(["        " + x for x in ["n = T.int64()", *lines, f"return {result}"]])
        effects = "(pure=False)" if "R.call_packed" in body else ""
        return f"    @R.function{effects}\n    def {name}({params}):\n{body}\n\n"


def hostile_program(rng: random.Random) -> str:
    """Script of a random module."""
    writer = _Writer(rng)
    for index in range(rng.randint(0, 2)):
        writer.helpers.append(writer.helper(index))
    entries = [writer.entry("main", rng.randint(1, 4))]
    if rng.random() < 0.4:
        entries.append(writer.entry("other", rng.randint(1, 2)))
    return "@I.ir_module\nclass Module:\n" + "".join([*entries, *writer.helpers]) + KERNELS


def hostile_inputs(rng: random.Random, wild: bool) -> list[Any]:
    """Arguments of ``main``; n may be 0 or 1."""
    data = np.random.default_rng(rng.randrange(1 << 30))
    n = rng.choice((0, 1, 2, 3, 5))
    arrays: list[Any] = []
    for dtype, shape in PARAMS.values():
        sizes = tuple([n if d == "n" else int(d) for d in shape.split(", ")]) if shape else ()
        if wild:
            arrays.append(random_array(data, sizes, dtype).astype(dtype))
        elif dtype == "bool":
            arrays.append(data.integers(0, 2, sizes).astype(bool))
        else:
            arrays.append((data.integers(-8, 8, sizes) / (2 if "float" in dtype else 1)).astype(dtype))
    return [np.asarray(a) for a in arrays]
