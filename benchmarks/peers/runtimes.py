"""Who is measured: each runtime builds a callable from a torch module; one that is not installed is left out.

A callable takes the module's inputs as torch tensors and gives its first output as an array or tensor.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import unity

Inputs = tuple[torch.Tensor, ...]
Run = Callable[..., Any]
TRIALS = 300
"""Candidates that a search measures for ``unity tuned``, which runs when it is asked for by name."""


def _unity(model: nn.Module, inputs: Inputs, threads: int) -> Run:
    unity.set_num_threads(threads)
    return unity.compile(model, example_inputs=inputs)


def _tuned(model: nn.Module, inputs: Inputs, threads: int) -> Run:
    unity.set_num_threads(threads)
    return unity.compile(model, example_inputs=inputs, tune=TRIALS)


def _torch(model: nn.Module, inputs: Inputs, threads: int) -> Run:
    return model


def _inductor(model: nn.Module, inputs: Inputs, threads: int) -> Run:
    run: Run = torch.compile(model)
    run(*inputs)  # it builds at its first call
    return run


def _onnx(model: nn.Module, inputs: Inputs) -> str:
    path = str(Path(tempfile.mkdtemp()) / "model.onnx")
    torch.onnx.export(model, inputs, path, dynamo=True, verbose=False)
    return path


def _onnxruntime(model: nn.Module, inputs: Inputs, threads: int) -> Run:
    import onnxruntime  # noqa: PLC0415 - optional

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(_onnx(model, inputs), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return lambda *args: session.run(None, {n: a.numpy() for n, a in zip(names, args)})[0]


def _openvino(model: nn.Module, inputs: Inputs, threads: int) -> Run:
    import openvino  # noqa: PLC0415 - optional

    core = openvino.Core()
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    compiled = core.compile_model(openvino.convert_model(model, example_input=inputs), "CPU", config)
    request = compiled.create_infer_request()
    return lambda *args: request.infer([a.numpy() for a in args], share_inputs=True, share_outputs=True)[0]


def _tvm(model: nn.Module, inputs: Inputs, threads: int) -> Run:
    import tvm  # noqa: PLC0415 - optional
    from tvm import relax  # noqa: PLC0415
    from tvm.relax.frontend.torch import from_exported_program  # noqa: PLC0415

    with torch.no_grad():
        mod = from_exported_program(torch.export.export(model, inputs), unwrap_unit_return_tuple=True)
    vm = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    return lambda *args: vm["main"](*[tvm.runtime.from_dlpack(a) for a in args]).numpy()


@dataclass(slots=True, frozen=True)
class Runtime:
    """A runtime; ``module`` is the package it needs."""

    name: str
    module: str
    build: Callable[[nn.Module, Inputs, int], Run]

    @property
    def installed(self) -> bool:
        """Can it be measured here."""
        return importlib.util.find_spec(self.module) is not None


RUNTIMES: tuple[Runtime, ...] = (
    Runtime("unity", "unity", _unity),
    Runtime("unity tuned", "unity", _tuned),
    Runtime("torch", "torch", _torch),
    Runtime("torch.compile", "torch", _inductor),
    Runtime("ONNX Runtime", "onnxruntime", _onnxruntime),
    Runtime("OpenVINO", "openvino", _openvino),
    Runtime("TVM", "tvm", _tvm),
)
