"""Default schedules assembled for real: no register goes to slow memory; registers, shared memory and the instructions of main loops
are what ``kernel_resources.txt`` says.

``pytest tests/gpu/test_kernel_resources.py --update-golden`` writes the lines of the assembler that is here. One that the file does
not know is held to no spills and to the shared memory alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from device_programs import graph_module
from disassembly import PRODUCTS, disassembled, find_disassembler, main_loop
from test_hopper import PRODUCT

import unity
from unity.ffi.cuda.image import CudaCode
from unity.ffi.machine_code.objects import split_objects
from unity.script import parse
from unity.target.cuda.assemble import Assembled, assemble, assembler_version, find_assembler

pytestmark = pytest.mark.skipif(
    not find_assembler(), reason="there is no ptxas here: pip install nvidia-cuda-nvcc-cu12"
)
MATRIX, ROW = '(512, 1024), "float32"', '(1024,), "float32"'
LINE = '(1, 4096), "float16"'
ANY, ANY_ROW = '("n", "m"), "float16"', '("m",), "float16"'
IMAGES, WINDOWS = '("n", 64, "h", "w"), "float32"', '(128, 64, 3, 3), "{}"'
ANY_HEADS = '(1, "{}", "{}", {}), "float16"'
PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    "elementwise": ("R.nn.gelu(R.add(a, b))", {"a": MATRIX, "b": ROW}),
    "softmax": ("R.nn.softmax(a)", {"a": MATRIX}),
    "softmax_long": ("R.nn.softmax(a)", {"a": '(8, 65536), "float32"'}),
    "softmax_any": ("R.nn.softmax(a)", {"a": ANY}),
    "layer_norm_any": ("R.nn.layer_norm(a, b, c, axes=[-1])", {"a": ANY, "b": ANY_ROW, "c": ANY_ROW}),
    "layer_norm": ("R.nn.layer_norm(a, b, c, axes=[-1])", {"a": MATRIX, "b": ROW, "c": ROW}),
    "rms_norm": ("R.nn.rms_norm(a, b, axes=[-1])", {"a": MATRIX, "b": ROW}),
    "transpose": ("R.permute_dims(a, axes=[1, 0])", {"a": MATRIX}),
    "column_sum": ("R.sum(a, axis=[0])", {"a": MATRIX}),
    "max_pool": ("R.nn.max_pool2d(a, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))", {"a": IMAGES}),
    "depthwise": (
        "R.nn.relu(R.nn.conv2d(a, b, padding=(1, 1), groups=64))",
        {"a": IMAGES, "b": '(64, 1, 3, 3), "float32"'},
    ),
    "convolution": ("R.nn.relu(R.nn.conv2d(a, b, padding=(1, 1)))", {"a": IMAGES, "b": WINDOWS.format("float32")}),
    "convolution_of_any_size": (
        "R.nn.relu(R.nn.conv2d(a, b, padding=(1, 1)))",
        {"a": '("n", "c", "h", "w"), "float32"', "b": '("o", "c", "r", "s"), "float32"'},
    ),
    "images_float16": (
        "R.nn.relu(R.nn.conv2d(a, b, padding=(1, 1)))",
        {"a": IMAGES.replace("float32", "float16"), "b": WINDOWS.format("float16")},
    ),
    "attention": (
        'R.nn.attention(a, b, c, causal_mask="BottomRight")',
        dict.fromkeys("abc", '(1, "n", 8, 128), "float16"'),
    ),
    "attention_of_any_heads": (
        'R.nn.attention(a, b, c, causal_mask="BottomRight")',
        {"a": ANY_HEADS.format("n", "h", 64), **dict.fromkeys("bc", ANY_HEADS.format("m", "g", 64))},
    ),
    "attention_of_any_wide_heads": (
        'R.nn.attention(a, b, c, d, causal_mask="BottomRight")',
        {
            "a": ANY_HEADS.format("n", "h", 256),
            **dict.fromkeys("bc", ANY_HEADS.format("m", "g", 256)),
            "d": '(1, 1, "n", "m"), "float32"',
        },
    ),
    "attention_float32": ("R.nn.attention(a, b, c)", dict.fromkeys("abc", '(1, "n", 8, 64), "float32"')),
    "product_float16": (
        "R.nn.relu(R.matmul(a, b))",
        {"a": '("n", 1024), "float16"', "b": '(1024, 4096), "float16"'},
    ),
    "one_row": ("R.matmul(a, R.permute_dims(b))", {"a": LINE, "b": '(4096, 4096), "float16"'}),
    "one_row_by_columns": ("R.matmul(a, b)", {"a": LINE, "b": '(4096, 4096), "float16"'}),
    "few_rows": (
        "R.matmul(a, R.permute_dims(b))",
        {"a": LINE.replace("(1,", "(8,"), "b": '(4096, 4096), "float16"'},
    ),
    "few_rows_by_columns": (
        "R.matmul(a, b)",
        {"a": LINE.replace("(1,", "(8,"), "b": '(4096, 4096), "float16"'},
    ),
    "product": ("R.nn.relu(R.matmul(a, b))", {"a": MATRIX, "b": '(1024, 512), "float32"'}),
}
"""Graph expression, types of its parameters."""
GOLDEN = Path(__file__).with_name("kernel_resources.txt")
ON_HOPPER = {
    "convolution_float16": (
        'R.nn.conv2d(a, b, padding=1, data_layout="NHWC", kernel_layout="OHWI", out_dtype="float16")',
        {"a": '(16, 56, 56, 256), "float16"', "b": '(256, 3, 3, 256), "float16"'},
    ),
    "attention_bfloat16": (
        'R.nn.attention(a, b, c, causal_mask="BottomRight")',
        dict.fromkeys("abc", '(1, "n", 8, 64), "bfloat16"'),
    ),
    "attention_long": (
        'R.nn.attention(a, b, c, causal_mask="BottomRight")',
        dict.fromkeys("abc", '(1, 4096, 32, 64), "bfloat16"'),
    ),
}
"""Programs whose kernels are of another kind there: operands that threads copy for warpgroups."""
ALIKE = [
    "elementwise", "softmax", "softmax_long", "softmax_any", "layer_norm_any", "layer_norm", "rms_norm", "transpose", "column_sum",
    "max_pool", "depthwise", "convolution_of_any_size",
]  # fmt: skip
"""Programs that have the same kernels on every architecture: assembled for one of them, in turn."""
ARCHS = ("sm_80", "sm_90a")
CASES = [(name, ARCHS[place % 2]) for place, name in enumerate(ALIKE)]
PACKED = {"attention_of_any_heads": ("sm_80", "sm_120")}
"""Programs that are also assembled for a device which packs vectors of float32 in pairs of registers."""
CASES += [(name, arch) for name in PROGRAMS if name not in ALIKE for arch in PACKED.get(name, ARCHS)]
CASES += [(name, "sm_90a") for name in (*ON_HOPPER, "warpgroups")]


def module_of(name: str) -> unity.IRModule:
    if name == "warpgroups":
        return parse(PRODUCT.replace("160", "4096").replace("range(3)", "range(64)"))  # too deep to be unrolled
    expression, params = {**PROGRAMS, **ON_HOPPER}[name]
    return graph_module(expression, **params)


def assembled(name: str, arch: str) -> list[Assembled]:
    """The machine code of a program."""
    executable = unity.compile(module_of(name), target=f"cuda -arch={arch}")
    codes = [CudaCode.unpack(part) for part in split_objects(executable.objects["cuda"])]
    return [assemble(image.data.decode(), arch) for code in codes for image in code.images]


def measured(name: str, arch: str) -> str:
    """Registers of the hungriest kernel and shared memory of all, and the main loop of a product. Raises where registers spill."""
    made = assembled(name, arch)
    found = [resources for one in made for resources in one.kernels.values()]
    assert found and all([r.spill_bytes == r.stack_bytes == 0 for r in found]), found
    assert not [remark for one in made for remark in one.remarks]
    text = f"{max([r.registers for r in found])} registers, {sum([r.shared_bytes for r in found])} bytes shared"
    if name in ("product", "product_float16", "convolution_float16", "warpgroups") and find_disassembler():
        loop = main_loop(made[0].cubin)
        shown = [f"{loop[one]} {one}" for one in (*PRODUCTS, "LDS", "LDG", "STS") if loop[one]]
        text += f", loop of {loop.total()}: {', '.join(shown)}"
    return text


@pytest.mark.parametrize("name, arch", CASES)
def test_resources(name: str, arch: str, request: pytest.FixtureRequest) -> None:
    lines = dict([line.split(": ", 1) for line in GOLDEN.read_text().splitlines()])
    release = assembler_version()
    key, found = f"{name} {arch} {release}", measured(name, arch)
    if request.config.getoption("--update-golden"):
        if lines.get(key, found) != found:  # the program has changed: what other assemblers made of it says nothing now
            lines = {k: v for k, v in lines.items() if not k.startswith(f"{name} {arch} ")}
        text = "\n".join([f"{k}: {v}" for k, v in sorted({**lines, key: found}.items())])
        GOLDEN.write_text(text + "\n")
    elif key in lines:
        wanted = lines[key] if find_disassembler() else lines[key].partition(", loop")[0]
        assert found == wanted, f"{key}; --update-golden where it is as it should be"
    else:
        known = [line for other, line in lines.items() if other.startswith(f"{name} {arch} ")]
        shared = re.search(r"\d+ bytes shared", found)
        assert shared is not None and known and all([shared[0] in line for line in known])


def test_main_loops_are_products() -> None:
    """By the table: so much of a main loop's instructions are products; one of a warp or a warpgroup does the work of many."""
    least = {"FFMA": 0.6, "HMMA": 0.5, "HGMMA": 0.08}
    loops = [re.search(r"loop of (\d+): (\d+) (\w+)", line) for line in GOLDEN.read_text().splitlines()]
    shares = {loop[0]: (loop[3], int(loop[2]) / int(loop[1])) for loop in loops if loop is not None}
    assert {kind for kind, _ in shares.values()} == set(least)
    assert not {text for text, (kind, share) in shares.items() if share < least[kind]}


@pytest.mark.skipif(not find_disassembler(), reason="there is no nvdisasm here")
def test_softmax_beside_products() -> None:
    """Attention on Hopper: the assembler leaves the exponentials of a turn between the waits for its scores and for the values."""
    text = disassembled(assembled("attention", "sm_90a")[0].cubin)
    events = re.findall(r"MUFU\.EX2|WARPGROUP\.DEPBAR\.LE gsb0, 0x[01]", text)
    scores = [place for place, event in enumerate(events) if event.endswith("0x1")]
    assert len(scores) == 1
    assert all([events[place + 1 : place + 65] == ["MUFU.EX2"] * 64 for place in scores])
