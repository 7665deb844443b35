"""Inputs for products, transposed convolutions, pooling over other axes, losses and channel operators."""

import numpy as np
from op_values import f, i

CASES = [("einsum", [tuple(f(*s) for s in shapes)], {"subscripts": text}) for text, shapes in (
    ("ij,jk->ik", ((3, 4), (4, 5))), ("ii->i", ((4, 4),)), ("ii", ((3, 3),)), ("ij->ji", ((2, 3),)), ("i,j", ((3,), (4,))), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 2))),
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))), ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))), ("ab,b->", ((2, 3), (3,))), ("ij,ij->i", ((3, 1), (3, 4))),
    ("i...->...", ((3, 2),)), ("ij,jk->ik", ((3, 0), (0, 2))), ("ij, jk", ((0, 4), (4, 2))), ("abc,cd,ad->b", ((2, 3, 4), (4, 5), (2, 5))),
)]  # fmt: skip
CASES += [
    ("einsum", [(f(3, 4, dtype="float16"), f(4, 2, dtype="float16"))], {"subscripts": "ij,jk->ik"}),
    ("einsum", [(i(3, 4), i(4))], {"subscripts": "ij,j->i"}),
    ("outer", [f(3), f(4)], {}),
    ("outer", [i(0), i(4)], {}),
    ("outer", [f(1, dtype="float16"), f(2, dtype="float16")], {}),
]
CASES += [
    ("nn.conv1d_transpose", [f(2, 3, 5), f(3, 4, 3)], {"strides": 2, "padding": 1, "output_padding": 1}),
    ("nn.conv1d_transpose", [i(1, 1, 1), i(1, 1, 3)], {}),
    ("nn.conv2d_transpose", [f(1, 4, 3, 4), f(4, 2, 3, 2)], {"groups": 2, "strides": [2, 3], "padding": [1, 0, 0, 1]}),
    ("nn.conv2d_transpose", [f(1, 3, 4, 2), f(3, 5, 2, 2)], {"data_layout": "NHWC", "kernel_layout": "HOIW", "dilation": [2, 1]}),
    ("nn.conv3d_transpose", [f(1, 2, 2, 3, 2), f(2, 1, 2, 2, 2)], {"strides": [1, 2, 1]}),
    ("nn.conv2d_transpose", [f(1, 2, 3, 3, dtype="float16"), f(2, 2, 2, 2, dtype="float16")], {"strides": 2}),
]  # fmt: skip
for n in ("max", "avg"):
    for rank, shape in ((1, (2, 2, 7)), (3, (1, 2, 4, 5, 3))):
        CASES += [(f"nn.{n}_pool{rank}d", [f(*shape)], a) for a in ({"pool_size": 2, "strides": 2}, {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True}, {"pool_size": 3, "padding": 1, "count_include_pad": True})]  # fmt: skip
    CASES.append((f"nn.{n}_pool1d", [f(1, 5, 3)], {"pool_size": 2, "layout": "NWC"}))
CASES += [
    ("nn.max_pool1d", [i(1, 2, 6)], {"pool_size": 2, "dilation": 2}),
    ("nn.max_pool2d", [np.array([[[[np.nan, 1, 2], [3, -np.inf, 0], [1, 1, 1]]]], "float32")], {"pool_size": 2}),
    ("nn.avg_pool1d", [f(1, 2, 6, dtype="float16")], {"pool_size": 3}),
]
CASES += [("nn.adaptive_avg_pool1d", [f(2, 3, 7)], {"output_size": n}) for n in (1, 3, 7)]
CASES += [("nn.adaptive_avg_pool3d", [f(1, 2, 4, 3, 5)], {"output_size": n}) for n in ([2, 3, 1], 2, None)]
PREDICTIONS = np.log(np.abs(f(4, 3)) + 0.1)
TARGETS = np.array([0, 2, -100, 1], "int64")
for reduction in ("mean", "sum", "none"):
    CASES += [
        ("nn.nll_loss", [PREDICTIONS, TARGETS, np.array([0.5, 2, 1], "float32")], {"reduction": reduction}),
        ("nn.nll_loss", [f(2, 3, 2, 2), i(2, 2, 2, low=0, high=3)], {"reduction": reduction, "ignore_index": 1}),
    ]
CASES += [
    ("nn.nll_loss", [f(3), np.array(2, "int32")], {}),
    ("nn.nll_loss", [f(2, 3), np.array([-100, -100])], {}),
    ("nn.cross_entropy_with_logits", [f(3, 4), f(3, 4)], {}),
    ("nn.cross_entropy_with_logits", [f(4), f(4)], {}),
    ("nn.cross_entropy_with_logits", [f(3, 4, dtype="float16"), f(3, 4, dtype="float16")], {}),
    ("nn.prelu", [f(2, 3, 4), f(3)], {}),
    ("nn.prelu", [f(2, 3), f(1)], {"axis": -1}),
    ("nn.prelu", [f(0, 3), f(3)], {}),
    ("nn.prelu", [f(2, 3, dtype="float16"), f(2, dtype="float16")], {"axis": 0}),
    ("nn.instance_norm", [f(2, 3, 4, 2), f(3), f(3)], {"axes": [2, 3]}),
    ("nn.instance_norm", [f(2, 4, 3, dtype="float16"), f(3, dtype="float16"), f(3, dtype="float16")], {"axes": [1], "channel_axis": -1, "epsilon": 1e-3}),
    ("nn.instance_norm", [f(2, 3, 4), f(3), f(3)], {"axes": [-1], "center": False, "scale": False}),
    ("nn.pixel_shuffle", [f(2, 8, 3, 2)], {"upscale_factor": 2}),
    ("nn.pixel_shuffle", [i(9, 1, 2)], {"upscale_factor": 3}),
]  # fmt: skip
