"""Models that are refused before they are traced: kinds of modules and of tensors, training mode. Errors name the path.

Not here: example inputs (``inputs.py``), what only the traced graph shows (``frontend/torch/translate/graph.py``).
"""

from __future__ import annotations

from typing import Any

from ....support.errors import FrontendError
from ....support.optional import require
from ..runtime.arguments import PLACES, refuse_tensor
from ..runtime.module import CompiledModule


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
