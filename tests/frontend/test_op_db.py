"""torch's own operator samples (``op_db``) against torch eager.

By default one sample of each variant of some fifty operators. ``OP_DB=all`` runs every sample of every operator in float32, several
minutes; ``OP_DB=all:int64`` in another dtype; ``OP_DB=add,sort`` the named operators. A sample is right by code of ours, or by a call
back into torch that ``IN_TORCH`` lists; anything else fails.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch's test samples need it")
from op_db_runner import Outcome, comparable_samples, run_operator, run_samples  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
CHOSEN, _, KIND = os.environ.get("OP_DB", "").partition(":")
DTYPE = getattr(torch, KIND or "float32")
FAST = """
add div remainder pow where lerp atan2 xlogy round
sum argmax var amax cumsum median linalg.vector_norm
matmul einsum softmax nn.functional.layer_norm nn.functional.scaled_dot_product_attention nn.functional.embedding_bag
nn.functional.cross_entropy nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.avg_pool2d
nn.functional.interpolate nn.functional.grid_sample nn.functional.pad
reshape cat roll repeat_interleave as_strided gather scatter_reduce index_put sort topk searchsorted unique
"""
SAMPLES = 1
SPECIAL = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 ndtri scaled_modified_bessel_k0
scaled_modified_bessel_k1 spherical_bessel_j0 zeta chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
"""
IN_TORCH = {
    **{f"special.{name}": f"special_{name}.default" for name in SPECIAL.split()},  # no graph operator
    **{name: f"{name}.default" for name in ("fmax", "fmin", "hypot", "signbit", "gcd", "lcm", "nextafter", "erfc", "erfinv", "lgamma",
                                            "digamma", "i0", "kthvalue", "logcumsumexp", "cholesky_inverse", "dist")},
    **{f"special.{name}": f"special_{name}.default" for name in ("i0e", "i1", "i1e", "erfcx")},
    "copysign": "copysign.Scalar copysign.Tensor", "frexp": "frexp.Tensor", "ldexp": "ldexp.Tensor",
    "igamma": "igamma.default", "igammac": "igammac.default", "hash_tensor": "hash_tensor.default",
    "resize_": "resize.default",
    "mode": "mode.default", "nanmedian": "nanmedian.default nanmedian.dim", "histc": "histc.default",
    "cummax": "cummax.default", "cummin": "cummin.default", "bincount": "bincount.default",
    "_upsample_bilinear2d_aa": "_upsample_bilinear2d_aa.default",
    "linalg.pinv": "linalg_pinv.atol_rtol_tensor", "linalg.pinv.hermitian": "linalg_pinv.atol_rtol_tensor",
    "pinverse": "linalg_pinv.atol_rtol_tensor", "linalg.cond": "linalg_cond.default",
    "linalg.tensorinv": "linalg_tensorinv.default", "linalg.tensorsolve": "linalg_tensorsolve.default",
    "linalg.lu": "linalg_lu.default", "lu_unpack": "lu_unpack.default", "linalg.lu_solve": "linalg_lu_solve.default",
    "lu_solve": "linalg_lu_solve.default", "triangular_solve": "triangular_solve.default", "geqrf": "geqrf.default",
    "ormqr": "ormqr.default", "nn.functional.pdist": "_pdist_forward.default", "put": "put.default",
    "index_reduce.prod": "index_reduce.default", "index_reduce.mean": "index_reduce.default",
    "index_reduce.amax": "index_reduce.default", "index_reduce.amin": "index_reduce.default", "linalg.eigvals": "view_as_real.default", "linalg.ldl_factor": "linalg_ldl_factor.default",
    "linalg.ldl_factor_ex": "linalg_ldl_factor_ex.default", "linalg.ldl_solve": "linalg_ldl_solve.default",
    "histogramdd": "_histogramdd_bin_edges.default _histogramdd_from_bin_cts.default _histogramdd_from_bin_tensors.default",
    "native_batch_norm": "native_batch_norm.default",  # in training: changes its statistics
    "nn.functional.batch_norm": "batch_norm.default",  # a tensor without an axis for channels
    "unique": "unique_dim.default", "unique_consecutive": "unique_consecutive.default", "searchsorted": "searchsorted.Tensor",  # no element
    "histogram": "histogram.bin_ct histogram.bins_tensor",
    "nn.functional.fractional_max_pool2d": "fractional_max_pool2d.default",
    "nn.functional.fractional_max_pool3d": "fractional_max_pool3d.default",  # random numbers
    "nn.functional.rrelu": "rrelu.default", "svd_lowrank": "randn.default", "pca_lowrank": "randn.default",
    "randn_like": "randn_like.default", "rand_like": "randn_like.default", "bernoulli": "rand.default",
    "_segment_reduce.offsets": "segment_reduce.default",
    "_unsafe_masked_index": "_unsafe_masked_index.default",
    "_unsafe_masked_index_put_accumulate": "_unsafe_masked_index_put_accumulate.default",
    "addbmm": "addbmm.default",
    "cholesky_solve": "cholesky_solve.default",
    "linalg.eig": "linalg_eig.default",
    "linalg.householder_product": "linalg_householder_product.default",
    "linalg.lu_factor_ex": "linalg_lu_factor_ex.default",
    "linalg.matrix_power": "linalg_matrix_power.default",
    "linspace.tensor_overload": "linspace.Scalar_Tensor linspace.Tensor_Scalar linspace.Tensor_Tensor",
    "logspace.tensor_overload": "logspace.Scalar_Tensor logspace.Tensor_Scalar logspace.Tensor_Tensor",
    "lu": "linalg_lu_factor_ex.default",
    "matrix_exp": "linalg_matrix_exp.default",
    "max_pool2d_with_indices_backward": "max_pool2d_with_indices.default max_pool2d_with_indices_backward.default",
    **{f"nn.functional.max_pool{rank}d": f"max_pool{rank}d_with_indices.default" for rank in (1, 2, 3)},  # with places
    **{f"nn.functional.adaptive_max_pool{rank}d": f"adaptive_max_pool{rank}d.default" for rank in (1, 2, 3)},
    "mvlgamma.mvlgamma_p_1": "lgamma.default",
    "mvlgamma.mvlgamma_p_3": "lgamma.default",
    "mvlgamma.mvlgamma_p_5": "lgamma.default",
    "nn.functional.embedding": "embedding_renorm.default",
    "nn.functional.embedding_bag": "embedding_renorm.default",
    "nn.functional.multilabel_margin_loss": "multilabel_margin_loss.default",
    "nonzero_static": "nonzero_static.default",
    "polygamma.polygamma_n_0": "polygamma.default",
    "polygamma.polygamma_n_1": "polygamma.default",
    "polygamma.polygamma_n_2": "polygamma.default",
    "polygamma.polygamma_n_3": "polygamma.default",
    "polygamma.polygamma_n_4": "polygamma.default",
    "signal.windows.kaiser": "i0.default linspace.Tensor_Tensor",
    "special.modified_bessel_i0": "special_modified_bessel_i0.default",
    "special.polygamma.special_polygamma_n_0": "polygamma.default",
    "take": "take.default",
    "randint": "randint.default randint.low", "randint_like": "randint_like.default randint_like.low_dtype",
}  # fmt: skip
"""The entries of which samples run in torch by design, in float32, and what runs there."""


@cache
def entries() -> list[Any]:
    """torch's entries with the dtype. Their module takes two seconds to import: longer than all other tests to collect."""
    database = import_module("torch.testing._internal.common_methods_invocations")
    return [info for info in database.op_db if DTYPE in info.supported_dtypes("cpu")]


def title(info: Any) -> str:
    """Name of an entry with its variant."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def check(outcome: Outcome, in_torch: set[str]) -> None:
    assert not outcome.different and not outcome.errors, "\n".join([*outcome.different, *outcome.errors])
    assert set(outcome.fallbacks) == in_torch, f"run in torch: {outcome.fallbacks}, expected: {in_torch}"


if CHOSEN:
    WANTED = [info for info in entries() if CHOSEN == "all" or info.name in CHOSEN.split(",")]

    @pytest.mark.parametrize("info", WANTED, ids=[title(i) for i in WANTED])
    def test_operator(info: Any) -> None:
        check(run_operator(info, DTYPE), {f"aten.{name}" for name in IN_TORCH.get(title(info), "").split()})

else:

    @pytest.mark.parametrize("part", range(2))
    def test_samples_of_common_operators(part: int) -> None:
        names = FAST.split()
        chosen = [info for info in entries() if info.name in names[part::2]]
        assert {info.name for info in chosen} == set(names[part::2])
        samples, outcome = [], Outcome()
        for info in chosen:
            found = comparable_samples(info, DTYPE, SAMPLES, False, outcome)
            samples += found
        run_samples(samples, False, outcome)
        check(outcome, set())
        assert outcome.same == len(samples) > 20
