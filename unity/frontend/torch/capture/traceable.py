"""Functions of torch that torch.export refuses or infers wrongly, replaced while a model is exported or traced again.

Not here: export itself (``trace.py``). Invariant: a replacement gives what the function gives.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from ....support.optional import require
from .open_sizes import recurrent_rules, symbolic_form


def traceable(torch: Any) -> Any:
    """A mode: while it lasts, the functions below stand in for torch's."""

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, fn: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            axis = kwargs.get("dim")
            if (
                getattr(fn, "__name__", "") == "unique_consecutive"
                and axis is not None
                and -args[0].dim() <= axis < args[0].dim()
            ):
                # torch infers a wrong shape for a negative axis, and for the axis of a vector, which is no different from none
                return fn(*args, **{**kwargs, "dim": axis % args[0].dim() if args[0].dim() > 1 else None})
            if fn is torch.nn.functional.gaussian_nll_loss:
                return _gaussian_nll_loss(torch, *args, **kwargs)
            if getattr(fn, "__name__", "") == "_pack_padded_sequence":
                raise TypeError("a packed sequence has sizes that only the data knows")
            form = symbolic_form(torch, fn, args, kwargs)
            return fn(*args, **kwargs) if form is None else form()

    return Mode()


def _gaussian_nll_loss(
    torch: Any, input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """torch's own, with an assertion that runs later instead of a branch on the data."""
    if isinstance(var, (int, float)):
        var = var * torch.ones_like(input)
    torch._assert_async(torch.logical_not(torch.any(var < 0)), "var has negative entry/entries")
    if var.size() != input.size() and input.size()[:-1] == var.size():
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


@contextmanager
def inferable(torch: Any) -> Iterator[None]:
    """While it lasts torch infers recurrent layers over any number of steps, and does not ask what no result depends on:

    ``nll_loss``, whether there are rows at all, to give NaN where not: so does the operator itself; layers of transformers, whether
    a mask is the causal one, a hint beside the mask. Distributions check their parameters and samples when the model runs;
    whether a matrix is symmetric does not decide whether they look further. torchvision chooses between two ways to suppress
    boxes by class, of equal results, by how many there are. Sizes that foreign operators find in their data are at least 2 only
    where their rules say so: ``create_unbacked_symint`` has it as a default.
    """
    table = require("torch._decomp").decomposition_table
    loss, forward = torch.ops.aten.nll_loss.default, torch.ops.aten.nll_loss_forward.default

    def infer(x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
        return forward(x, target, weight, reduction, ignore_index)[0]

    rules = {loss: infer, **recurrent_rules()}
    places = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)
    all_true = torch._is_all_true

    def valid_later(valid: Any) -> Any:
        """Stands for the answer that ``torch.distributions`` branches on; who else asks gets it."""
        if not torch.compiler.is_dynamo_compiling():  # which follows only the calls of distributions, see below
            asks = str(sys._getframe(1).f_globals.get("__name__"))
            other_thread = type(valid) is torch.Tensor and not torch._is_functional_tensor(valid)
            if other_thread or not asks.startswith("torch.distributions"):
                return all_true(valid)
        torch._assert_async(valid.all(), "a parameter or a sample of a distribution is not valid")
        return True

    def symmetric(self: Any, value: Any) -> Any:
        return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)

    matrices = {
        "_Symmetric": symmetric,
        "_PositiveSemidefinite": lambda self, value: (
            symmetric(self, value) & (torch.linalg.eigvalsh(value) >= 0).all(-1)
        ),
        "_PositiveDefinite": lambda self, value: symmetric(self, value) & (torch.linalg.cholesky_ex(value).info == 0),
    }

    def suppressed(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Any:
        """``torchvision.ops.batched_nms``: boxes of different classes do not overlap once each class has its own region."""
        beyond = torch.cat([boxes.flatten(), boxes.new_zeros(1)]).max() + 1  # there may be no boxes
        return vision.nms(boxes + (idxs.to(boxes) * beyond)[:, None], scores, iou_threshold)

    contexts = require("torch._library.fake_impl").FakeImplCtx
    vision: Any = sys.modules.get("torchvision.ops.boxes")
    constraints = torch.distributions.constraints
    programs = require("torch.export.exported_program")
    copies = next(
        n for n in dir(programs) if n.startswith("_remove_unne") and n.endswith("_copy_op_pass")
    )  # spelt in two ways
    replaced: list[tuple[Any, str, Any]] = [
        (torch.nn.modules.transformer, "_detect_is_causal_mask", lambda mask, is_causal=None, size=None: is_causal is True),
        (torch, "_is_all_true", valid_later),
        (constraints, "is_dependent", lambda one: isinstance(one, constraints._Dependent)),  # dynamo follows this one
        (programs, copies, lambda graph, signature: (graph, signature)),
        (contexts, "create_unbacked_symint", lambda c, *, min=0, max=None: c.new_dynamic_size(min=min, max=max)),
        *[(getattr(constraints, name), "check", check) for name, check in matrices.items()],
        *([(vision, "batched_nms", suppressed)] if vision else []),
    ]  # fmt: skip
    with ExitStack() as stack:
        for owner, name, function in replaced:
            stack.enter_context(mock.patch.object(owner, name, function))
        stack.enter_context(mock.patch.dict(table, rules))
        for target, rule in rules.items():
            kernels = {key: rule for key in places if key in target.py_kernels}
            stack.callback(target._dispatch_cache.clear)
            stack.enter_context(mock.patch.dict(target.py_kernels, kernels))
            target._dispatch_cache.clear()
        yield
