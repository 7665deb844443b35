"""ResNet-18 from torch: one line to compile, the module it became, the same top-1 class, and both times.

The weights are random: nothing is downloaded. Needs the torch extra.
"""

import time
import warnings

import torch
from models.vision import resnet18

import unity

torch.manual_seed(0)
torch.set_num_threads(1)
warnings.simplefilter("ignore", FutureWarning)

model = resnet18()
image = torch.randn(1, 3, 224, 224)

start = time.perf_counter()
compiled = unity.compile(model, example_inputs=(image,))
print(f"exported, imported and compiled in {time.perf_counter() - start:.1f} s: {compiled.report}")

# The imported module is a program that can be read and changed: ``compiled.module``. Comments say where a line came from.
print("\n".join(compiled.script(places=True).splitlines()[:14]))

with torch.no_grad():
    expected = model(image)
found = compiled(image)
torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
print(f"top-1 class: torch {expected.argmax().item()}, unity {found.argmax().item()}")
assert found.argmax() == expected.argmax()


def milliseconds(run, repeats=5):
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2] * 1e3


with torch.no_grad():
    print(
        f"one image: torch eager {milliseconds(lambda: model(image)):.1f} ms, unity {milliseconds(lambda: compiled(image)):.1f} ms"
    )
