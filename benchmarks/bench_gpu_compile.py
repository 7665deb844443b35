"""Processor time of compiling kernels for CUDA devices, besides ``ptxas``: ``python -m benchmarks.bench_gpu_compile [names]``.

Each row is the median of three builds of new sizes in a warm process, with the caches off, divided by the kernels of the program.
"""

from __future__ import annotations

import os
import sys
import time
from statistics import median

import unity
from unity.ffi.cuda.image import CudaCode
from unity.ffi.machine_code.objects import split_objects
from unity.script import parse

os.environ["UNITY_CACHE"] = "off"
HALF, IMAGES = '"float16"', '"n", 64, "h", "w"'
PROGRAMS: dict[str, tuple[str, str, dict[str, str]]] = {
    "elementwise": ("sm_80", "R.nn.gelu(R.add(a, b))", {"a": "{m}, 1024", "b": "1024,"}),
    "transpose": ("sm_80", "R.permute_dims(a, axes=[1, 0])", {"a": "{m}, 1024"}),
    "column sum": ("sm_80", "R.sum(a, axis=[0])", {"a": "{m}, 1024"}),
    "matrix by vector": ("sm_80", "R.matmul(a, b)", {"a": "1, {m}", "b": "{m}, 2048"}),
    "sort": ("sm_80", "R.sort(a)", {"a": "{m}, 1024"}),
    "softmax": ("sm_80", "R.nn.softmax(a)", {"a": "{m}, 1024"}),
    "layer norm": ("sm_80", "R.nn.layer_norm(a, b, c, axes=[-1])", {"a": "{m}, 1024", "b": "1024,", "c": "1024,"}),
    "product": ("sm_80", "R.nn.relu(R.matmul(a, b))", {"a": "{m}, 1024", "b": "1024, 512"}),
    "product, any rows": ("sm_80", "R.nn.relu(R.matmul(a, b))", {"a": '"n", {m}', "b": "{m}, 512"}),
    "product, float16": ("sm_80", "R.nn.relu(R.matmul(a, b))", {"a": "{m}, 1024", "b": "1024, 4096"}),
    "product, float16, wgmma": ("sm_90a", "R.nn.relu(R.matmul(a, b))", {"a": "{m}, 4096", "b": "4096, 4096"}),
    "convolution": ("sm_80", "R.nn.relu(R.nn.conv2d(a, b, padding=1))", {"a": "8, 64, 56, {m}", "b": "128, 64, 3, 3"}),
    "convolution, any size": ("sm_80", "R.nn.relu(R.nn.conv2d(a, b, padding=1))", {"a": IMAGES, "b": "{m}, 64, 3, 3"}),
    "attention, float16": ("sm_80", "R.nn.attention(a, b, c)", dict.fromkeys("abc", '1, "n", {m}, 128')),
}
"""Architecture, expression, shapes by parameter; ``{m}`` is the size that changes."""


def seconds(name: str, size: int) -> float:
    """Processor time of a build, by kernels."""
    arch, expression, shapes = PROGRAMS[name]
    dtype = HALF if "float16" in name else '"float32"'
    params = ", ".join([f"{p}: R.Tensor(({shape.format(m=size)}), {dtype})" for p, shape in shapes.items()])
    head = f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n        with R.dataflow():\n"
    module = parse(f"{head}            y = {expression}\n            R.output(y)\n        return y\n")
    start = time.process_time()
    executable = unity.compile(module, target=f"cuda -arch={arch}")
    spent = time.process_time() - start
    codes = [CudaCode.unpack(part) for part in split_objects(executable.objects["cuda"])]
    return spent / sum([image.data.count(b".entry") for code in codes for image in code.images])


def main() -> None:
    """Print a row for each program."""
    for name in sys.argv[1:] or PROGRAMS:
        seconds(name, 512)
        print(f"{name:24} {1000 * median([seconds(name, 512 + 128 * turn) for turn in (1, 2, 3)]):6.0f} ms", flush=True)


if __name__ == "__main__":
    main()
