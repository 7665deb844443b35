"""Default schedules assembled for real: no register goes to slow memory, and shared memory is what it was.

Registers differ from one assembler to the next and are bounded only.
"""

from __future__ import annotations

import pytest

import unity
from unity.ffi.cuda.image import CudaCode
from unity.ffi.machine_code.object_archive import split_objects
from unity.script import parse
from unity.target.cuda.assemble import assemble, find_assembler

pytestmark = pytest.mark.skipif(
    not find_assembler(), reason="there is no ptxas here: pip install nvidia-cuda-nvcc-cu12"
)
MATRIX, ROW = 'R.Tensor((512, 1024), "float32")', 'R.Tensor((1024,), "float32")'
PROGRAMS: dict[str, tuple[str, dict[str, str], int]] = {
    "elementwise": ("R.nn.gelu(R.add(a, b))", {"a": MATRIX, "b": ROW}, 0),
    "softmax": ("R.nn.softmax(a)", {"a": MATRIX}, 0),
    "layer_norm": ("R.nn.layer_norm(a, b, c, axes=[-1])", {"a": MATRIX, "b": ROW, "c": ROW}, 0),
    "rms_norm": ("R.nn.rms_norm(a, b, axes=[-1])", {"a": MATRIX, "b": ROW}, 0),
    "transpose": ("R.permute_dims(a, axes=[1, 0])", {"a": MATRIX}, 4224),
    "column_sum": ("R.sum(a, axis=[0])", {"a": MATRIX}, 1024),
    "product": ("R.nn.relu(R.matmul(a, b))", {"a": MATRIX, "b": 'R.Tensor((1024, 512), "float32")'}, 20480),
}
"""Graph expression, types of its parameters, bytes of shared memory of the kernels together."""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_spilled(name: str, arch: str) -> None:
    expression, params, shared = PROGRAMS[name]
    module = parse(f"""
@I.ir_module
class Module:
    @R.function
    def main({", ".join([f"{param}: {kind}" for param, kind in params.items()])}):
        with R.dataflow():
            y = {expression}
            R.output(y)
        return y
""")
    executable = unity.compile(module, target=f"cuda -arch={arch}")
    codes = [CudaCode.unpack(part) for part in split_objects(executable.objects["cuda"])]
    found = [
        resources
        for code in codes
        for image in code.images
        for resources in assemble(image.data.decode(), arch).kernels.values()
    ]
    assert found and all([r.spill_bytes == r.stack_bytes == 0 and r.registers <= 160 for r in found]), found
    assert sum([r.shared_bytes for r in found]) == shared
