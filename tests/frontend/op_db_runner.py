"""Runs torch's own operator samples (``op_db``) through export, import and machine code, against torch eager.

All samples of an operator go into one model, so that one build serves them; where the whole fails, it is split in halves until
the failing samples stand alone.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

import unity
from unity.support.errors import FrontendError, VMError

TOLERANCE = {
    torch.float64: (1e-7, 1e-7), torch.float32: (1e-4, 1e-5), torch.float16: (4e-3, 2e-3), torch.bfloat16: (2e-2, 1e-2),
}  # fmt: skip


WIDE = {False: torch.float64, True: torch.complex128}
"""The types of real and complex numbers in which rounding does not count."""
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


def largest(x: Any, *args: Any, **kwargs: Any) -> Any:
    """topk, whose places torch leaves open where elements are equal: the elements at these places instead."""
    values, places = torch.topk(x, *args, **kwargs)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    return values, torch.gather(x, dim, places)


def kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """kthvalue likewise."""
    values, places = torch.kthvalue(x, k, dim, True)
    found = torch.gather(x, dim, places) if x.dim() else x
    return values, found


def ordered(x: Any, *args: Any, **kwargs: Any) -> Any:
    """sort likewise; a stable sort leaves nothing open."""
    values, places = torch.sort(x, *args, **kwargs)
    dim = kwargs.get("dim", args[0] if args and not isinstance(args[0], bool) else -1)
    return (values, places) if kwargs.get("stable") or not x.dim() else (values, torch.gather(x, dim, places))


def product(factors: Any) -> Any:
    """Of ``u, s, v`` the matrix they are factors of, and the singular values."""
    u, s, v = factors
    return (u * s.unsqueeze(-2)) @ v.mT, s


ARBITRARY_SIGNS = {"linalg.eigh": None, "linalg.svd": None, "svd": None, "svd_lowrank": product, "pca_lowrank": product}
"""Operators whose vectors may be turned by any algorithm, and what is compared instead: None for what the samples themselves say."""


def most_common(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """mode likewise."""
    values, places = torch.mode(x, dim, True)
    return values, torch.gather(x, dim, places) if x.dim() else x


def order(x: Any, *args: Any, **kwargs: Any) -> Any:
    """argsort likewise."""
    places = torch.argsort(x, *args, **kwargs)
    dim = kwargs.get("dim", args[0] if args and not isinstance(args[0], bool) else -1)
    return places if kwargs.get("stable") or not x.dim() else torch.gather(x, dim, places)


EQUAL_PLACES = {"mode": most_common, "topk": largest, "kthvalue": kth, "sort": ordered, "argsort": order}


@dataclass
class Outcome:
    """What became of the samples of one operator."""

    same: int = 0
    different: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    fallbacks: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    """Samples torch refuses itself (eagerly, in torch.export, or when its exported program runs), random and uninitialised results,
    operators in training mode, sparse tensors."""


@dataclass
class Sample:
    """One call of an operator; ``leaves`` are the tensors among its arguments."""

    fn: Any
    leaves: list[Any]
    template: list[Any]
    spec: Any
    process: Any = None
    """What ``op_db`` compares of a result: for factors with arbitrary signs, not these themselves."""

    def call(self, tensors: list[Any], inplace: bool) -> Any:
        given = iter(tensors)
        values = [next(given) if is_tensor else value for is_tensor, value in self.template]
        args, kwargs = pytree.tree_unflatten(values, self.spec)
        if inplace:
            args = (args[0].clone(), *args[1:])
        made = self.fn(*args, **kwargs)
        return pytree.tree_map(as_real, made if self.process is None else self.process(made))


def as_real(value: Any) -> Any:
    """A complex tensor as a real one with a last axis of two, which is compared part by part."""
    complex_result = isinstance(value, torch.Tensor) and value.is_complex()
    return torch.view_as_real(value.resolve_conj()) if complex_result else value


def make_sample(fn: Any, sample: Any) -> Sample:
    """The call a torch SampleInput stands for."""
    values, spec = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
    tensors = [v.detach().clone() for v in values if isinstance(v, torch.Tensor)]
    return Sample(fn, tensors, [(isinstance(v, torch.Tensor), v) for v in values], spec)


class Samples(torch.nn.Module):
    """A model that computes several samples of one operator."""

    def __init__(self, samples: list[Sample], inplace: bool) -> None:
        super().__init__()
        self.samples, self.inplace = samples, inplace

    def forward(self, groups: list[list[Any]]) -> list[Any]:
        return [s.call(list(g), self.inplace) for s, g in zip(self.samples, groups)]


def dense(value: Any) -> bool:
    """Is a result free of tensors the compiler has no types for?"""
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and (leaf.is_quantized or leaf.layout is not torch.strided):
            return False
    return True


def run_samples(samples: list[Sample], inplace: bool, outcome: Outcome) -> None:
    """Compile and run samples together; count them in ``outcome``."""
    if not samples:
        return
    model = Samples(samples, inplace).eval()
    inputs = [s.leaves for s in samples]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = unity.compile(model, example_inputs=(inputs,))
            made = compiled([[t.clone() for t in g] for g in inputs])
    except Exception as error:  # every failure of a batch is looked at sample by sample
        if len(samples) > 1:
            half = len(samples) // 2
            run_samples(samples[:half], inplace, outcome)
            run_samples(samples[half:], inplace, outcome)
            return
        text = f"{describe(samples[0])}: {type(error).__name__}: {str(error)[:400]}"
        (outcome.refused if is_refusal(error, model, inputs) else outcome.errors).append(text)
        return
    for entry in compiled.report.fallbacks:
        outcome.fallbacks.setdefault(entry.operator, entry.reason)
    for sample, value in zip(samples, made):
        problem = difference(value, eager(sample, inplace))
        if problem is None or nearer(value, sample, inplace):
            outcome.same += 1
        else:
            outcome.different.append(f"{describe(sample)}: {problem}")


def eager(sample: Sample, inplace: bool, seed: int = 0) -> Any:
    """What torch computes. Operators that draw random numbers seed the generator themselves in ``op_db``; here they may not."""
    torch.manual_seed(seed)
    with torch.no_grad(), mock.patch.object(torch, "manual_seed"):
        return sample.call([t.clone() for t in sample.leaves], inplace)


def nearer(value: Any, sample: Sample, inplace: bool) -> bool:
    """Is a result that differs what torch itself computes in float64? Then torch's rounding errors differ (exponentials of matrices)."""
    if any(leaf.dtype in (torch.float64, torch.complex128) for leaf in sample.leaves):
        return False
    wide = [
        leaf.to(WIDE[leaf.is_complex()]) if leaf.is_floating_point() or leaf.is_complex() else leaf
        for leaf in sample.leaves
    ]
    try:
        exact = eager(Sample(sample.fn, wide, sample.template, sample.spec, sample.process), inplace)
    except RuntimeError:  # a dtype among the other arguments
        return False
    return difference(value, pytree.tree_map(as_dtype, exact, value)) is None


def as_dtype(exact: Any, made: Any) -> Any:
    """A float64 result in the type of another."""
    floats = isinstance(exact, torch.Tensor) and isinstance(made, torch.Tensor) and exact.is_floating_point()
    return exact.to(made.dtype) if floats else exact


def is_refusal(error: Exception, model: Any, inputs: Any) -> bool:
    """Is a failure a documented refusal, or one that torch's own exported program shares?"""
    if isinstance(error, FrontendError):
        return error.code in ("E011", "E015", "E016") or "tensors of complex" in error.message
    if not isinstance(error, VMError):
        return False
    program = torch.export.export(model, (inputs,))
    try:
        program.module()(inputs)
    except RuntimeError:
        return True
    return False


def difference(made: Any, expected: Any) -> str | None:
    """What differs between two nested results, else None."""
    left, right = pytree.tree_leaves(made), pytree.tree_leaves(expected)
    if len(left) != len(right):
        return f"{len(left)} results instead of {len(right)}"
    for m, e in zip(left, right):
        if not isinstance(e, torch.Tensor):
            if m != e and not (m != m and e != e):
                return f"{m!r} instead of {e!r}"
            continue
        rtol, atol = TOLERANCE.get(e.dtype, (0, 0))
        try:
            torch.testing.assert_close(m, e, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return " ".join(str(error).split())[:300]
    return None


def describe(sample: Sample) -> str:
    """A sample in one line."""
    leaves = iter(sample.leaves)

    def shown(is_tensor: bool, value: Any) -> str:
        if not is_tensor:
            return repr(value)
        leaf = next(leaves)
        return f"{str(leaf.dtype)[6:]}{list(leaf.shape)}"

    return f"({', '.join([shown(t, v) for t, v in sample.template])})"


def comparable_samples(info: Any, dtype: Any, limit: int | None, inplace: bool, outcome: Outcome) -> list[Sample]:
    """Samples of an entry of ``op_db`` (at most ``limit``, spread evenly) whose result torch repeats; others count as refused."""
    torch.manual_seed(0)
    fn = info.inplace_variant if inplace else info.op
    given = [s for s in info.sample_inputs("cpu", dtype, requires_grad=False) if not (inplace and s.broadcasts_input)]
    if limit is not None and len(given) > limit:
        given = [given[i * len(given) // limit] for i in range(limit)]
    samples = []
    fn = EQUAL_PLACES.get(info.name, fn)
    for raw in given:
        sample = make_sample(fn, raw)
        if info.name in ARBITRARY_SIGNS:
            sample.process = ARBITRARY_SIGNS[info.name] or raw.output_process_fn_grad
        try:
            expected = eager(sample, inplace)
            same = all(difference(eager(sample, inplace, seed), expected) is None for seed in range(1, 6))
        except Exception as error:  # torch itself refuses some of its samples
            outcome.refused.append(f"{type(error).__name__}: {error}")
            continue
        if not dense(expected) or not dense(sample.leaves):
            outcome.refused.append("sparse or quantised tensors")
        elif not same or info.name in UNINITIALISED:
            outcome.refused.append("random or uninitialised")
        else:
            samples.append(sample)
    return samples


def run_operator(info: Any, dtype: Any, limit: int | None = None, inplace: bool = False) -> Outcome:
    """All samples (at most ``limit``) of one entry of ``op_db`` in one dtype."""
    outcome = Outcome()
    run_samples(comparable_samples(info, dtype, limit, inplace, outcome), inplace, outcome)
    return outcome


__all__ = ["Outcome", "comparable_samples", "run_operator", "run_samples"]
