"""A row of the table: unity and its peers on the same inputs, outputs checked, then timed in turn in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import unity
from benchmarks.gpu.clock import Clock, interleaved
from benchmarks.gpu.programs import Program
from unity.ffi.cuda.context import Context
from unity.script import parse

ABSENT = "not there"
UNITY = "unity"
_UNITS = {"TFLOP/s": 1e12, "GB/s": 1e9}


@dataclass(slots=True)
class Setting:
    """The device and the peers of a run. ``torch`` is torch where it has a CUDA device, else None; ``size`` names the sizes."""

    context: Context
    clock: Clock
    target: str
    torch: Any
    triton: Mapping[str, Callable[..., Any]]
    size: str
    budget: float
    rounds: int
    notes: dict[str, str] = field(default_factory=dict)
    """Why a peer is not there."""
    without: tuple[str, ...] = ()
    """Peers that are not asked for."""
    mode: str = "max-autotune"
    """How ``torch.compile`` compiles models."""


@dataclass(slots=True)
class Row:
    """``seconds`` by peer; ``notes`` say what is not there, or wrong, ``wanted``: the ratios aimed at, by peer or "best"."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, float] = field(default_factory=dict)
    rate: str = ""

    def ratios(self) -> dict[str, float]:
        """How many times faster than each peer, and than the fastest."""
        ours = self.seconds.get(UNITY)
        others = {name: taken for name, taken in self.seconds.items() if not name.startswith(UNITY)}
        if not ours or not others:
            return {}
        return {**{name: taken / ours for name, taken in others.items()}, "best": min(others.values()) / ours}


Run = Callable[[], Any]


def reason(error: BaseException) -> str:
    """An error in a line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{ABSENT}: {type(error).__name__}: {first[:160]}"


def measured(row: Row, makers: Mapping[str, Callable[[], Run]], wrong: Callable[[Any], str], setting: Setting) -> Row:
    """Build every runner, check what it gives, time those that are right. A failure is a note of the row."""
    runs: dict[str, Run] = {}
    for name, make in makers.items():
        if name in setting.without:
            continue
        try:
            run = make()
            problem = wrong(run())
        except Exception as error:  # what a peer or the compiler cannot do is a note
            problem = reason(error)
        if problem:
            row.notes[name] = problem
        else:
            runs[name] = run
    if runs:
        try:
            row.seconds = interleaved(setting.clock, runs, setting.budget, setting.rounds)
        except Exception as error:  # such as memory that is not enough for several calls
            row.notes["timing"] = reason(error)
    return row


def program_row(program: Program, size: int, setting: Setting) -> Row:
    """A program of the table at a size."""
    torch = setting.torch
    row = Row(f"{program.name} {size}", notes=dict(setting.notes), wanted={"best": program.wanted})
    inputs = program.inputs(size) if torch is None else []
    given = _tensors(program, size, inputs, setting)
    makers: dict[str, Callable[[], Run]] = {UNITY: lambda: _ours(program.script(size), given, setting.target)}
    if torch is not None:
        makers |= {name: (lambda f=f: lambda: f(*given)) for name, f in _eager(torch, program).items()}
        makers["torch.compile"] = lambda: _compiled(torch, next(iter(_eager(torch, program).values())), given)
    if program.name in setting.triton:
        makers["Triton"] = lambda: lambda: setting.triton[program.name](*given)
    elif setting.triton:
        row.notes["Triton"] = f"{ABSENT}: no kernel of it here"
    if torch is None:
        expected = program.expected(inputs)
        wrong = lambda found: program.difference(found.numpy().astype("float32"), expected)  # noqa: E731
    else:
        exact = next(iter(_eager(torch, program).values()))(*[value.float() for value in given])
        wrong = lambda found: _difference(torch, program, found, exact)  # noqa: E731
    measured(row, makers, wrong, setting)
    if UNITY in row.seconds:
        row.rate = f"{program.work(size) / row.seconds[UNITY] / _UNITS[program.unit]:,.4g} {program.unit}"
    return row


def _tensors(program: Program, size: int, inputs: list[np.ndarray], setting: Setting) -> list[Any]:
    """The inputs on the device: torch's tensors, drawn there, where torch is there, else the arrays."""
    torch = setting.torch
    if torch is None:
        return [unity.tensor(array, program.dtype, device=unity.cuda(setting.context.index)) for array in inputs]
    torch.manual_seed(size)
    return [torch.randn(shape, device="cuda", dtype=getattr(torch, program.dtype)) for shape in program.shapes(size)]


def _ours(script: str, given: list[Any], target: str) -> Run:
    run = unity.VirtualMachine(unity.compile(parse(script), target=target), unity.cuda(0))["main"]
    tensors = [unity.tensor(value) if not isinstance(value, unity.Tensor) else value for value in given]
    return lambda: run(*tensors)


def _compiled(torch: Any, fn: Callable[..., Any], given: list[Any]) -> Run:
    run = torch.compile(fn, mode="max-autotune-no-cudagraphs", dynamic=False)
    return lambda: run(*given)


def _eager(torch: Any, program: Program) -> dict[str, Callable[..., Any]]:
    """The program by torch's functions, by the name of the peer; the first is what ``torch.compile`` gets."""
    F = torch.nn.functional
    if program.name == "attention":
        return {f"torch, {name}": _attention(torch, backend) for name, backend in ATTENTION.items()}
    name = "cuBLAS" if program.name.startswith("product") else "torch"
    return {name: {
        "softmax": lambda x: F.softmax(x, -1),
        "layer norm": lambda x, g, b: F.layer_norm(x, g.shape, g, b),
        "RMS norm": lambda x, g: F.rms_norm(x, g.shape, g, 1e-5),
        "silu(x) * y + z": lambda x, y, z: F.silu(x) * y + z,
    }.get(program.name, torch.matmul)}  # fmt: skip


ATTENTION = {
    "default": "",
    "flash": "FLASH_ATTENTION",
    "cuDNN": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
}


def _attention(torch: Any, backend: str) -> Callable[..., Any]:
    def run(q: Any, k: Any, v: Any) -> Any:
        heads_first = [t.transpose(1, 2) for t in (q, k, v)]
        attend = torch.nn.functional.scaled_dot_product_attention
        if not backend:
            return attend(*heads_first, is_causal=True).transpose(1, 2)
        from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: PLC0415 - torch may not be there

        with sdpa_kernel(getattr(SDPBackend, backend)):
            return attend(*heads_first, is_causal=True).transpose(1, 2)

    return run


def _difference(torch: Any, program: Program, found: Any, expected: Any) -> str:
    """``Program.difference`` of a whole result, on the device."""
    made = (found.torch() if isinstance(found, unity.Tensor) else found).float()
    if made.shape != expected.shape:
        return f"shape {tuple(made.shape)} instead of {tuple(expected.shape)}"
    scale = torch.maximum(expected.abs(), expected.square().mean(-1, keepdim=True).sqrt())
    far = int((~((made - expected).abs() <= program.allowed * scale)).sum())
    return f"{far} of {made.numel()} values differ" if far else ""
