"""Single operators beside torch eager, one thread. Needs the extra ``torch``.

python -m benchmarks.bench_operators [--only REGEX] [--sizes large small] [--budget S] [--write docs/operator_speed.md]
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from pathlib import Path


def main() -> None:
    """Measure what was asked for, print the rows, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression that a case's name has; all by default")
    parser.add_argument("--sizes", nargs="*", default=["large", "small"])
    parser.add_argument(
        "--budget", type=float, default=0.05, help="seconds of calls for each row, at least five rounds"
    )
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", UNITY_NUM_THREADS="1")  # before torch and unity are loaded
    warnings.simplefilter("ignore")
    import torch  # noqa: PLC0415

    from benchmarks.operators import elementwise, images, manipulate, reduction  # noqa: PLC0415
    from benchmarks.operators.measure import measure  # noqa: PLC0415
    from benchmarks.operators.report import page, table  # noqa: PLC0415

    torch.set_num_threads(1)
    timings = []
    for case in [*elementwise.CASES, *reduction.CASES, *manipulate.CASES, *images.CASES]:
        if re.search(options.only, case.name):
            for size in options.sizes:
                timings.append(measure(case, size, options.budget))
                print(table(timings[-1:])[-1], timings[-1].failed, flush=True)
    if options.write is not None:
        options.write.write_text(page(timings), encoding="utf-8")


if __name__ == "__main__":
    main()
