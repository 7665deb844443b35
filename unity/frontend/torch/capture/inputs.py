"""Torch models and their example inputs, looked at before the model is traced: kinds of modules and of tensors, training mode.
Errors name the path.

Not here: the inputs of a call (`frontend/torch/runtime/arguments.py`), what only the traced graph shows
(``frontend/torch/translate/graph.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from ....ffi.targets.target import Target
from ....support.errors import FrontendError
from ....support.optional import require
from ....transform.infra.backend import BACKENDS
from ..runtime.arguments import PLACES, refuse_tensor
from ..runtime.module import CompiledModule

_PLAIN = (int, float, bool, str, type(None))


def check_examples(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise FrontendError E962 for example inputs ``forward`` does not take, E015 for tensors of a kind that is not supported."""
    torch = require("torch")
    signature = forward_signature(model)
    if signature is not None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise FrontendError("E962", f"the example inputs do not fit {type(model).__name__}.forward{signature}: {error}",
                                help="pass example_inputs as a tuple and example_kwargs as a dict") from error  # fmt: skip
    for name, value in named_inputs(model, args, kwargs):
        for path, leaf in torch.utils._pytree.tree_flatten_with_path(value)[0]:
            _check_leaf(torch, f"{name}{torch.utils._pytree.keystr(path)}", leaf)


def named_inputs(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """The inputs of a call by the names of the parameters, else by their places."""
    names = placed_names(model)
    return [*zip([*names, *[f"input {i}" for i in range(len(names), len(args))]], args), *kwargs.items()]


def placed_names(model: Any) -> list[str]:
    """The parameters of a model's ``forward`` that a call may give by place, but for those of ``*args``."""
    signature = forward_signature(model)
    parameters = [] if signature is None else signature.parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def forward_signature(model: Any) -> inspect.Signature | None:
    """Parameters of a model's ``forward``; None where Python does not know them."""
    try:
        return inspect.signature(model.forward)
    except (AttributeError, TypeError, ValueError):
        return None


def device_target(values: Iterable[Any]) -> str | None:
    """The target of a model that nobody gave one, by the device of its torch tensors; None for those of the host."""
    for place in [value.device for value in values if isinstance(value, require("torch").Tensor)]:
        for backend in BACKENDS.values():
            kind = backend.runtime.device
            if kind.name == place.type and not kind.host_memory and backend.of_device and Target.current() is None:
                return backend.of_device(place.index or 0)
    return None


def _check_leaf(torch: Any, name: str, leaf: Any) -> None:
    if isinstance(leaf, torch.Tensor):
        refuse_tensor(torch, f"the input {name}", leaf, PLACES)
    elif not isinstance(leaf, _PLAIN) and not type(leaf).__module__.startswith(("torch", "enum")):
        kind = type(leaf)
        hint = "torch.from_numpy(x) shares memory with an array" if kind.__module__ == "numpy" else None
        raise FrontendError(
            "E962", f"the input {name} is a {kind.__module__}.{kind.__qualname__}, expected torch tensors", help=hint
        )


def refuse_foreign(model: Any) -> None:
    """Raise FrontendError for modules and weights that cannot be imported: E013 for modules of ``torch.jit``, E015 for quantised
    modules, weights that wait for a first input, and tensors on another device or in another layout."""
    torch = require("torch")
    for path, module in model.named_modules():
        where = path or "the model"
        if isinstance(module, torch.jit.ScriptModule):
            raise FrontendError(
                "E013", f"{where} is a torch.jit module, which cannot be exported", help="use the Python module it was made from"
            )  # fmt: skip
        if isinstance(module, CompiledModule):
            raise FrontendError("E013", f"{where} is compiled already", help="compile the torch model it was made of")
        if ".quantized" in type(module).__module__:
            raise FrontendError(
                "E015", f"{where} is a quantised {type(module).__name__}, which is not supported",
                help='give the float model and let unity quantise it: unity.compile(model, ..., precision="int8")',
            )  # fmt: skip
        for name, value in [*module._parameters.items(), *module._buffers.items(), *vars(module).items()]:
            if not isinstance(value, torch.Tensor):
                continue
            if torch.nn.parameter.is_lazy(value):
                raise FrontendError(
                    "E015", f"{where} is a {type(module).__name__} whose {name} has no size yet",
                    help="call the model once with the example inputs",
                )  # fmt: skip
            refuse_tensor(torch, f"{path}.{name}" if path else name, value, PLACES)


def refuse_training(model: Any) -> None:
    """Raise FrontendError E011 where a submodule in training mode would behave differently; names them."""
    found = [f"{path or 'the model'} ({type(m).__name__})" for path, m in model.named_modules() if _trains(m)]
    if found:
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        raise FrontendError("E011", f"in training mode: {', '.join(found[:4])}{more}", help="call model.eval() first")


def _trains(module: Any) -> bool:
    """True if a module in training mode draws random numbers or changes its statistics."""
    if not module.training:
        return False
    name = type(module).__name__
    if "Norm" in name or isinstance(module, require("torch").nn.modules.batchnorm._NormBase):
        return bool(getattr(module, "track_running_stats", False))
    if "Drop" in name or name == "RReLU":
        return bool(getattr(module, "p", getattr(module, "drop_prob", 1)))
    return isinstance(getattr(module, "dropout", None), float) and module.dropout > 0
