"""Inputs for every operator: (name, inputs, attributes). Inputs are arrays, tuples of arrays, shapes (``Shape``) or numbers."""

import image_cases
import nn_cases
import numpy as np
import order_cases
import row_samples
import scatter_cases
import special_cases
from op_values import Shape, b, f, i

SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, 2.5, np.nan, np.inf, -np.inf], "float32")
INTS = np.array([0, 1, -1, 5, -7, 2**31 - 1, -(2**31)], "int32")

NUMBER_UNARY = ["abs", "ceil", "floor", "negative", "round", "sign", "square", "trunc"]

CASES = [*row_samples.CASES]
for n in NUMBER_UNARY:
    CASES += [
        (n, [f(1, 7, low=-9, high=9)], {}),
        (n, [SPECIAL], {}),
        (n, [i(3, 3)], {}),
    ]
for n in ["exp", "sqrt", "tanh", "isnan", "isinf", "isfinite", "sin", "erf"]:
    CASES.append((n, [SPECIAL], {}))
CASES += [
    ("clip", [f(9)], {"min": -1.0, "max": 0.5}),
    ("clip", [i(9)], {"min": -2.5, "max": 3}),
    ("clip", [SPECIAL], {"min": -1, "max": 1}),
]

SHAPES = [((3, 4), (3, 4)), ((3, 1), (1, 4)), ((4,), (2, 3, 4)), ((), (3,)), ((0, 4), (1, 4)), ((1,), (1, 1))]
for n in ["add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "floor_mod", "mod"]:
    CASES += [(n, [f(*p), f(*q)], {}) for p, q in SHAPES] + [(n, [i(*p), i(*q)], {}) for p, q in SHAPES[:3]]
    CASES += [(n, [INTS[:, None], INTS[None]], {}), (n, [SPECIAL[:, None], SPECIAL[None]], {}), (n, [f(3), 2], {})]
for n in ["divide", "atan2", "log_add_exp"]:
    CASES += [(n, [f(*p), f(*q)], {}) for p, q in SHAPES]
CASES += [
    ("divide", [SPECIAL[:, None], SPECIAL[None]], {}),
]
CASES += [("power", [f(3, 4, low=0.1), f(4)], {}), ("power", [f(5), 2.0], {})]
for n in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
    CASES += [(n, [i(3, 4), i(4)], {})]
for n in ["left_shift", "right_shift"]:
    CASES += [
        (n, [i(9), i(9, low=0, high=40)], {}),
        (n, [i(9, dtype="uint8", low=0), i(9, dtype="uint8", low=0, high=12)], {}),
    ]
for n in ["gcd", "lcm"]:
    CASES += [(n, [i(*p, low=-40, high=40), i(*q, low=-40, high=40)], {}) for p, q in SHAPES]
    CASES += [
        (n, [i(3, 4, dtype=d, low=0, high=90), i(4, dtype=d, low=0, high=90)], {})
        for d in ("int8", "uint8", "int16", "int64", "uint64")
    ]
    CASES += [(n, [INTS[:-1, None], INTS[None, :-1]], {})]
WORDS = np.arange(-120, 120, 3, dtype="int8").reshape(2, 5, 8)
for old, new in [
    ("float32", "int32"), ("int32", "float32"), ("float64", "int16"), ("int8", "float32"), ("uint8", "int64"),
    ("float16", "uint8"), ("int16", "bfloat16"), ("int64", "bool"), ("uint8", "bool"), ("float32", "float64"), ("int8", "int8"),
]:  # fmt: skip
    CASES += [
        ("reinterpret", [WORDS.view(old)], {"dtype": new}),
        ("reinterpret", [WORDS.view(old)[:0]], {"dtype": new}),
    ]
CASES += [("reinterpret", [b(3, 8)], {"dtype": "int16"}), ("reinterpret", [f()], {"dtype": "uint32"})]
for n in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]:
    CASES += [(n, [i(3, 4), i(4)], {}), (n, [SPECIAL[:, None], SPECIAL[None]], {})]
CASES += [
    ("where", [b(3, 1), f(3, 4), f(4)], {}),
    ("where", [b(3), f(3), 0.5], {}),
    ("ewise_fma", [f(3, 4), f(4), f(1)], {}),
]

for n in ["sum", "prod", "max", "min", "mean", "variance", "std"]:
    for axis, keep in ((None, False), ((0,), True), ((-1,), False), ((0, 2), False), (1, False), (None, True)):
        CASES.append((n, [f(3, 4, 5)], {"axis": axis, "keepdims": keep}))
    CASES += [(n, [f(6, dtype="float16")], {}), (n, [np.array([1, np.nan, 2], "float32")], {})]
for n in ["sum", "prod", "max", "min"]:
    CASES += [(n, [i(3, 4)], {"axis": 0}), (n, [b(40, 3) | b(40, 3)], {"axis": 0}), (n, [b(0, 3)], {"axis": [0]})]
    CASES += [(n, [b()], {}), (n, [b(5)], {"axis": []})]
CASES += [
    ("sum", [f(0, 3)], {"axis": 0}),
    ("sum", [f()], {}),
    ("mean", [f(200) + 1e4], {}),
    ("variance", [f(200) + 100], {}),
]
for n in ["argmax", "argmin"]:
    CASES += [
        (n, [i(4, 5, low=0, high=3)], {"axis": -1}),
        (n, [f(3, 4)], {}),
        (n, [f(3, 4)], {"axis": 0, "keepdims": True}),
    ]
    CASES += [
        (n, [np.array([[1, np.nan, np.nan], [-np.inf, -np.inf, -np.inf], [np.inf, 3, np.inf]], "float32")], {"axis": 1})
    ]
    CASES += [(n, [np.full(3, -(2**31), "int32")], {}), (n, [np.full(3, 2**31 - 1, "int32")], {}), (n, [b(4)], {})]

for p, q in [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (3, 4, 2)), ((0, 4), (4, 2)),
             ((3, 0), (0, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3))]:  # fmt: skip
    CASES.append(("matmul", [f(*p), f(*q)], {}))
CASES += [("matmul", [i(3, 4), i(4, 5)], {}), ("matmul", [f(3, 8, dtype="float16"), f(8, 5, dtype="float16")], {})]
CASES += [("matmul", [i(3, 4, dtype="int8"), i(4, 5, dtype="int8")], {"out_dtype": "int32"})]

CASES += [
    ("flatten", [f(2, 3, 4)], {}),
    ("flatten", [f()], {}),
    ("reshape", [f(2, 6), Shape((3, -1))], {}),
    ("reshape", [f(0, 3), Shape((3, 0))], {}),
]
CASES += [
    ("reshape", [f(2, 6), Shape((4, 3))], {}),
    ("expand_dims", [f(2, 3)], {"axis": [0, -1]}),
    ("expand_dims", [f(2)], {"axis": 1}),
]
CASES += [
    ("squeeze", [f(1, 3, 1)], {}),
    ("squeeze", [f(1, 3, 1)], {"axis": [-1]}),
    ("nn.batch_flatten", [f(2, 3, 4)], {}),
]
CASES += [("permute_dims", [f(2, 3, 4)], {}), ("permute_dims", [f(2, 3, 4)], {"axes": [1, -1, 0]})]
CASES += [
    ("broadcast_to", [f(3, 1), Shape((2, 3, 4))], {}),
    ("flip", [f(3, 4)], {"axis": -1}),
    ("repeat", [f(2, 3)], {"repeats": 2, "axis": 1}),
]
CASES += [
    ("repeat", [f(2, 3)], {"repeats": 3}),
    ("layout_transform", [f(2, 8, 3)], {"index_map": lambda n, c, w: (n, c // 4, w, c % 4)}),
    ("layout_transform", [i(5, 3)], {"index_map": lambda p, q: (q, p // 4, p % 4), "pad_value": 7}),
    ("layout_transform", [f(0, 3)], {"index_map": lambda p, q: (q, p)}),
    ("tile", [f(2, 3)], {"repeats": [2, 1, 2]}),
    ("tile", [f(2, 3)], {"repeats": [2]}),
]
CASES += [("tril", [f(3, 4)], {}), ("triu", [f(2, 3, 3)], {"k": 1})]
CASES += [
    ("concat", [(f(2, 3), f(1, 3), f(0, 3))], {"axis": 0}),
    ("concat", [(f(2, 3), f(2, 1))], {"axis": -1}),
    ("stack", [(f(2, 3), f(2, 3))], {"axis": 1}),
]
CASES += [
    ("split", [f(4, 6)], {"indices_or_sections": 3, "axis": 1}),
    ("split", [f(7)], {"indices_or_sections": [2, 5, 9]}),
    *[
        ("split", [f(2, size)], {"indices_or_sections": parts, "axis": -1})
        for size, parts in ((7, 3), (5, 4), (2, 3), (0, 2), (5, 1))
    ],
]
CASES += [("strided_slice", [f(5, 6)], {"axes": [0, 1], "begin": [1, -3], "end": [-1, 100]})]
CASES += [("strided_slice", [f(7)], {"axes": [0], "begin": [5], "end": [-100], "strides": [-2]})]
CASES += [("strided_slice", [f(7)], {"axes": [-1], "begin": [4], "end": [2]})]
CASES += [("strided_slice", [f(7)], {"axes": [0], "begin": [1], "end": [6], "strides": [2], "assume_inbound": True})]
CASES += [("nn.attention", [f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 5, 3)], {"layout": "BHSD"})]
CASES += [("nn.attention_bias", [f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 5, 3), f(1, 1, 3, 5)], {"layout": "BHSD"})]
CASES += [
    ("take", [f(5, 3), i(4, low=-7, high=8)], {"axis": 0}),
    ("take", [f(5, 3), i(2, 2, low=0, high=3)], {"axis": -1}),
    ("take", [f(5), i(3, low=0, high=5)], {}),
]
CASES += [
    ("take", [f(5, 3), i(4, low=-9, high=9)], {"axis": 0, "mode": "nan"}),
    ("take", [f(5), i(6, low=-9, high=9)], {"axis": 0, "mode": "wrap"}),
]
CASES += [
    ("gather_elements", [f(4, 3), i(2, 3, low=-4, high=4, dtype="int64")], {"axis": 0}),
    ("one_hot", [i(3, low=0, high=4), 1, 0], {"depth": 4}),
]
CASES += [("one_hot", [i(3, low=0, high=4), 1.5, -1.0], {"depth": 4, "axis": 0})]
CASES += [
    ("full", [Shape((2, 3)), 2.5], {"dtype": "float32"}),
    ("full_like", [f(2, 3), 1], {}),
    ("zeros", [Shape((2, 0))], {"dtype": "int32"}),
]
CASES += [
    ("ones", [Shape(())], {"dtype": "bool"}),
    ("zeros_like", [f(3)], {}),
    ("ones_like", [f(3)], {"dtype": "int8"}),
    ("eye", [], {"n": 3, "m": 4, "k": -1}),
]
CASES += [
    ("arange", [5], {}),
    ("arange", [2, 9, 3], {"dtype": "float32"}),
    ("arange", [5, -2, -2], {}),
    ("arange", [0.0, 1.0, 0.3], {}),
]
for dtype in ["float64", "float16", "bfloat16", "int32", "int8", "bool"]:
    CASES.append(("astype", [f(9, low=-100, high=100)], {"dtype": dtype}))
CASES += [
    ("astype", [i(5)], {"dtype": "float32"}),
    ("astype", [b(5)], {"dtype": "int64"}),
    ("astype", [f(3)], {"dtype": "float32"}),
    ("wrap_param", [f(3)], {"dtype": "float16"}),
]
CASES += [("nn.relu", [SPECIAL], {}), ("nn.relu", [i(5)], {}), ("nn.leakyrelu", [f(5)], {"alpha": 0.3})]
for n in ["softmax", "log_softmax"]:
    CASES += [
        (f"nn.{n}", [f(3, 4, 5) * 50], {}),
        (f"nn.{n}", [f(3, 4)], {"axis": 0}),
        (f"nn.{n}", [f(4, dtype="float16")], {}),
    ]
CASES += [
    ("nn.layer_norm", [f(2, 3, 4), f(4), f(4)], {"axes": [-1]}),
    ("nn.layer_norm", [f(2, 3, 4), f(3, 4), f(3, 4)], {"axes": [1, 2], "epsilon": 1e-3}),
]
CASES += [("nn.layer_norm", [f(2, 4), f(4), f(4)], {"axes": [-1], "center": False, "scale": False})]
CASES += [
    ("nn.rms_norm", [f(2, 8), f(8)], {"axes": [-1]}),
    ("nn.batch_norm", [f(2, 3, 4), f(3), f(3), f(3), f(3, low=0.1)], {"axis": 1}),
    ("nn.batch_norm", [f(2, 3, 4), *[f(4, low=0.1) for _ in range(4)]], {"axis": -1, "center": False, "scale": False}),
    ("nn.batch_norm", [f(2, 3, 4), *[f(3, low=0.1) for _ in range(4)]], {"training": True, "momentum": 0.3}),
    ("nn.batch_norm", [f(5, 2), *[f(5, low=0.1) for _ in range(4)]], {"training": True, "axis": 0, "center": False}),
    (
        "nn.batch_norm",
        [f(4, 3, 5, dtype="float16")] + [f(3, low=0.1, dtype="float16") for _ in range(4)],
        {"training": True},
    ),
]
CASES += [("nn.dropout", [f(3)], {})]

CASES += [
    ("nn.conv2d", [f(1, 3, 7, 6), f(4, 3, 3, 3)], {"padding": [1, 1]}),
    ("nn.conv2d", [f(1, 4, 6, 6), f(4, 2, 3, 2)], {"groups": 2, "strides": [2, 1]}),
]
CASES += [
    (
        "nn.conv2d",
        [f(1, 5, 6, 3), f(3, 3, 3, 2)],
        {"data_layout": "NHWC", "kernel_layout": "HWIO", "dilation": 2, "padding": [2, 1, 0, 1]},
    )
]
CASES += [("nn.conv2d", [f(1, 2, 4, 4, dtype="float16"), f(2, 2, 3, 3, dtype="float16")], {})]
CASES += [
    ("nn.conv1d", [f(2, 3, 8), f(4, 3, 3)], {"strides": 2, "padding": 1}),
    ("nn.conv3d", [f(1, 2, 3, 4, 3), f(2, 2, 2, 2, 2)], {}),
]
for n in ("max", "avg"):
    for a in (
        {"pool_size": 2},
        {"pool_size": [3, 3], "strides": [2, 2], "padding": [1, 1]},
        {"pool_size": 3, "strides": 2, "ceil_mode": True},
        {"pool_size": 3, "strides": 2, "padding": 1, "count_include_pad": True},
        {"pool_size": [2, 3], "layout": "NHWC", "strides": [1, 2]},
    ):
        CASES += [(f"nn.{n}_pool2d", [made(1, 2, 6, 7)], a) for made in (f, i)]
    CASES += [
        (f"nn.{n}_pool2d", [i(1, 1, 5, 4, dtype=d, low=0, high=255 if d == "uint8" else 127)], {"pool_size": 3})
        for d in ("int8", "uint8", "int64")
    ]
CASES += [("nn.adaptive_avg_pool2d", [g(1, 2, 6, 7)], {"output_size": [s, 3]}) for s in (1, 2, 4) for g in (f, i)]
CASES += [
    ("nn.adaptive_avg_pool2d", [f(1, 2, 6, 6)], {"output_size": 1}),
    ("nn.adaptive_avg_pool2d", [f(1, 2, 6, 6)], {"output_size": [2, 3], "layout": "NCHW"}),
]
CASES += [
    ("collapse_sum_to", [f(2, 3, 4), Shape((3, 1))], {}),
    ("collapse_sum_to", [f(2, 3), Shape((2, 3))], {}),
    ("collapse_sum_like", [f(2, 3, 4), f(1, 4)], {}),
]
for n in ("cumsum", "cumprod"):
    CASES += [
        (n, [f(3, 4)], {"axis": -1}),
        (n, [f(2, 3)], {}),
        (n, [i(3, 4)], {"axis": 0, "exclusive": True}),
        (n, [b(5)], {"axis": 0, "dtype": "int64"}),
        (n, [b(5)], {"axis": 0}),
    ]
    CASES += [(n, [f(6, dtype="float16")], {"axis": 0})]
CASES += [
    ("scatter_elements", [f(4, 3), i(2, 3, low=-4, high=4), f(2, 3)], {"axis": 0, "reduction": r})
    for r in ("update", "add", "mul", "min", "max")
]
CASES += [
    ("index_tensor", [f(4, 5, 2), (i(3, 1, low=-4, high=4), i(2, low=0, high=5))], {}),
    ("index_tensor", [f(4, 5), (i(3, low=-9, high=9),)], {}),
]
CASES += [
    ("index_put", [f(4, 5), (i(3, low=0, high=4), i(3, low=0, high=5)), f(3)], {}),
    ("index_put", [f(4, 5), (i(3, low=0, high=2),), f(3, 5)], {"accumulate": True}),
]
CASES += [
    ("nn.attention", [f(2, 3, 2, 4), f(2, 5, 2, 4), f(2, 5, 2, 3)], {}),
    ("nn.attention", [f(1, 4, 4, 2), f(1, 4, 2, 2), f(1, 4, 2, 2)], {"causal_mask": "TopLeft"}),
]
CASES += [
    (
        "nn.attention",
        [f(1, 3, 2, 4), f(1, 5, 2, 4), f(1, 5, 2, 4), f(1, 1, 3, 5)],
        {"scale": 0.5, "causal_mask": "BottomRight"},
    )
]
CASES += [
    *[("nn.gelu", [f(9, dtype=kind) * 4], {}) for kind in ("float32", "float64")],
    ("nn.group_norm", [f(2, 6, 3, 2), f(6), f(6)], {"num_groups": 3}),
    ("nn.group_norm", [f(2, 3, 2, 6), f(6), f(6)], {"num_groups": 3, "channel_axis": -1}),
    ("nn.group_norm", [f(2, 3, 4, 5), f(4), f(4)], {"num_groups": 2, "channel_axis": 2, "scale": False}),
    ("nn.pad", [f(3, 4)], {"pad_width": [1, 0, 2, 3], "pad_value": 1.5}),
]
CASES += [
    ("nn.pad", [f(3, 4)], {"pad_width": [1, 2, 2, 1], "pad_mode": m}) for m in ("reflect", "replicate", "circular")
]
TIES = np.array([[3, 1, 3, np.nan, 1], [np.nan, -np.inf, 0, np.inf, 0]], "float32")
for down in (False, True):
    CASES += [
        ("sort", [f(3, 4)], {"axis": 0, "descending": down}),
        ("argsort", [TIES], {"axis": -1, "descending": down}),
    ]
    CASES += [
        ("argsort", [i(2, 6, low=0, high=3)], {"descending": down, "dtype": "int64"}),
        ("sort", [TIES], {"descending": down}),
    ]
    CASES += [
        ("topk", [f(3, 5)], {"k": 2, "axis": 1, "largest": down}),
        ("topk", [f(4, 2)], {"k": 3, "axis": 0, "ret_type": "indices", "largest": down}),
    ]
CASES += [*nn_cases.CASES, *order_cases.CASES, *image_cases.CASES, *scatter_cases.CASES, *special_cases.CASES]
