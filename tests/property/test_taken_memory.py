"""Random graph functions in which calls write into their arguments while views, tuples, branches and functions show the same memory:
what the verifier accepts is what a reader of values expects, in the interpreter, after the passes that reuse memory, and compiled."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass

import numpy as np
import pytest
from fuzz import TIMES

import unity
from unity.ir.interpret import run
from unity.script import parse
from unity.support.errors import UnityError
from unity.transform.infra.passes import Pipeline

SHAPES = {2: "(4, 4)", 1: "(16,)"}
PROGRAMS = """
    @T.prim_func(private=True)
    def inc{r}(A: T.Buffer({shape}, "float32")):
        for {i} in T.grid({extents}):
            with T.block("inc"):
                {v} = T.axis.remap("{kinds}", [{i}])
                A[{v}] = A[{v}] * T.float32(0.5) + T.float32(1)

    @T.prim_func(private=True)
    def acc{r}(A: T.Buffer({shape}, "float32"), B: T.Buffer({shape}, "float32")):
        for {i} in T.grid({extents}):
            with T.block("acc"):
                {v} = T.axis.remap("{kinds}", [{i}])
                A[{v}] = A[{v}] - B[{w}] * T.float32(0.25)
"""
HELPER = """
    @R.function(private=True)
    def flat(p: R.Tensor((4, 4), "float32"), q: R.Tensor((4, 4), "float32")):
        return R.reshape(p, (16,))
"""
PASSES = ("legalize_ops,dataflow_use_inplace_calls,dead_code", "rewrite_reshape,legalize_ops,fuse_ops,fuse_tir,dataflow_use_inplace_calls",
          "eliminate_common_subexpr,canonicalize,dead_code", "remove_redundant_reshape,fold_constant,inline_private_functions")  # fmt: skip


@dataclass
class Value:
    name: str
    rank: int
    places: frozenset[int]
    data: np.ndarray


def module(lines: list[str], result: str) -> str:
    one = PROGRAMS.format(r=1, shape="(16,)", i="i", extents="16", v="vi", w="15 - vi", kinds="S").replace(
        "T.grid(16)", "range(16)"
    )
    two = PROGRAMS.format(r=2, shape="(4, 4)", i="i, j", extents="4, 4", v="vi, vj", w="vj, vi", kinds="SS")
    head = '    @R.function\n    def main(x: R.Tensor((4, 4), "float32"), flag: R.Tensor((), "bool")):\n        '
    body = "\n        ".join([*lines, f"return {result}"])
    return f"@I.ir_module\nclass Module:{one}{two}{HELPER}\n{head}{body}\n"


class Writer:
    """Writes bindings and what they mean as values; ``wrong`` says after how many steps one uses what was taken, if it can."""

    def __init__(self, rng: random.Random, x: np.ndarray, flag: bool, wrong: int) -> None:
        self.rng, self.flag, self.wrong = rng, flag, wrong
        self.count, self.lines, self.taken, self.broken = 0, [], set(), False
        self.values = [Value("x", 2, frozenset([0]), x)]
        for name in ("exp", "sin"):
            self.bind(f"R.{name}(x)", 2, None, getattr(np, name)(x))

    def bind(self, text: str, rank: int, places: frozenset[int] | None, data: np.ndarray) -> None:
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"{name} = {text}")
        self.values.append(Value(name, rank, frozenset([self.count]) if places is None else places, data))

    def pick(self, rank: int = 0, apart: frozenset[int] = frozenset()) -> Value:
        fits = [v for v in self.values if rank in (0, v.rank)]
        bad = [v for v in fits if v.places & (self.taken | apart)]
        gone = [v for v in bad if v.places & (self.taken | (apart - {0}))]
        if self.count >= self.wrong and not self.broken and gone:
            self.broken = True
            return self.rng.choice(gone)
        good = [v for v in fits if v not in bad]
        if not good:
            self.bind(
                "R.cos(x)" if rank != 1 else "R.flatten(R.cos(x))",
                rank or 2,
                None,
                np.cos(self.values[0].data).reshape((4, 4) if rank != 1 else 16),
            )
            return self.values[-1]
        return self.rng.choice(good[-6:])

    def step(self) -> None:
        rng = self.rng
        kind = rng.randrange(9)
        if kind == 0:
            a = self.pick()
            self.bind(f"R.{'sin'}({a.name})", a.rank, None, np.sin(a.data))
        elif kind == 1:
            a = self.pick()
            shape = (16,) if a.rank == 2 else (4, 4)
            text = rng.choice([f"R.reshape({a.name}, {shape})", f"R.memory.view({a.name}, R.shape({list(shape)}))"])
            self.bind(text, 3 - a.rank, a.places, a.data.reshape(shape))
        elif kind == 2:
            a, b = self.pick(), self.pick()
            self.count += 1
            self.lines.append(f"t{self.count} = ({a.name}, {b.name})")
            self.bind(f"t{self.count}[1]", b.rank, b.places, b.data)
        elif kind == 3:
            a = self.pick(2)
            b = self.pick(2)
            self.bind(f"flat({a.name}, {b.name})", 1, a.places, a.data.reshape(16))
        elif kind == 4:
            a = self.pick()
            b = self.pick(a.rank)
            self.count += 1
            name = f"v{self.count}"
            self.lines += ["if flag:", f"    {name} = {a.name}", "else:", f"    {name} = {b.name}"]
            self.values.append(Value(name, a.rank, a.places | b.places, a.data if self.flag else b.data))
        elif kind == 5:
            a = self.pick()
            b = self.pick(a.rank)
            self.bind(f"R.add({a.name}, {b.name})", a.rank, None, a.data + b.data)
        else:
            two = rng.random() < 0.5
            a = self.pick(apart=frozenset([0]))  # the caller's tensor stays as it is
            b = self.pick(a.rank, a.places) if two else None
            args = f"{a.name}, {b.name}" if b is not None else f"{a.name},"
            data = a.data * np.float32(0.5) + np.float32(1)
            if b is not None:
                data = a.data - (b.data.T if a.rank == 2 else b.data[::-1]) * np.float32(0.25)
            text = f'R.call_inplace({"acc" if two else "inc"}{a.rank}, ({args}), R.Tensor({SHAPES[a.rank]}, "float32"), inplace_indices=[0])'
            self.taken |= a.places
            self.bind(text, a.rank, None, data)


def written(seed: int, wrong: int = 1000) -> tuple[Writer, str, list[np.ndarray], np.ndarray]:
    rng = random.Random(f"taken {seed}")
    x, flag = np.linspace(-1, 1, 16, dtype="float32").reshape(4, 4), rng.random() < 0.5
    writer = Writer(rng, x, flag, wrong)
    for _ in range(rng.randint(4, 14)):
        writer.step()
    last = [writer.pick(2), writer.pick(2)]
    text = module(writer.lines, f"R.add({last[0].name}, {last[1].name})")
    return writer, text, [x, np.array(flag)], last[0].data + last[1].data


def close(found: object, wanted: np.ndarray, place: str) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4, err_msg=place)


@pytest.mark.parametrize("block", range(TIMES))
def test_values_are_what_a_reader_expects(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        _, text, args, wanted = written(seed)
        mod = parse(text)
        close(run(mod, "main", *copy.deepcopy(args)), wanted, f"interpreter, seed {seed}\n{text}")
        for passes in PASSES:
            after = Pipeline.parse(passes)(mod)
            close(run(after, "main", *copy.deepcopy(args)), wanted, f"{passes}, seed {seed}\n{text}\n{after.script()}")
        if seed % 7 == 0:
            compiled = unity.VirtualMachine(unity.compile(mod))["main"](*copy.deepcopy(args))
            close(compiled, wanted, f"compiled, seed {seed}\n{text}")


def test_what_was_taken_is_refused() -> None:
    refused = 0
    for seed in range(50 * TIMES):
        writer, text, _, _ = written(seed, wrong=random.Random(seed).randint(3, 12))
        if not writer.broken:
            continue
        with pytest.raises(UnityError) as found:
            parse(text)
        assert found.value.code == "E339", f"seed {seed}\n{text}"
        refused += 1
    assert refused > 20


def test_what_a_function_of_the_module_hands_on_is_its_argument() -> None:
    taken = 'R.call_inplace(inc1, (v2,), R.Tensor((16,), "float32"), inplace_indices=[0])'
    for result, refused in (("R.add(v1, v1)", True), ("R.add(v3, v3)", False)):
        text = module(["v1 = R.exp(x)", "v2 = flat(v1, x)", f"v3 = {taken}"], result)
        if not refused:
            parse(text)
            continue
        with pytest.raises(UnityError, match="v1 is used after inc1 took") as found:
            parse(text)
        assert found.value.code == "E339"
