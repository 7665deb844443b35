"""Unity beside torch eager, torch.compile, ONNX Runtime, OpenVINO and TVM, in one run. Needs the extra ``peers``; all optional.

    python -m benchmarks.bench_peers [--work TEXT ...] [--runtimes NAME ...] [--threads 1 2] [--write docs/performance.md]

Each workload runs in a process of its own, so that a runtime that fails takes nothing with it. The runtime ``unity tuned`` is what
a search of 300 trials finds, beside ``unity``, its default; give it ``--limit``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _child(index: int, options: argparse.Namespace, threads: int) -> None:
    from benchmarks.peers.measure import measure  # noqa: PLC0415 - torch is imported in the child alone
    from benchmarks.peers.workloads import WORKLOADS  # noqa: PLC0415

    result = measure(WORKLOADS[index], options.runtimes, threads, options.rounds, options.budget)
    print("RESULT " + json.dumps(result.json()))


def main() -> None:
    """Measure what was asked for, print the table, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", nargs="*", default=[], help="parts of workload names; all by default")
    parser.add_argument(
        "--runtimes", nargs="*", default=["unity", "torch", "torch.compile", "ONNX Runtime", "OpenVINO"]
    )
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds of calls for each runtime and workload")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a workload may take")
    parser.add_argument("--write", type=Path, default=None)
    parser.add_argument("--child", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        _child(options.child, options, options.threads[0])
        return
    sys.path.insert(0, str(ROOT))
    from benchmarks.peers.measure import Result  # noqa: PLC0415
    from benchmarks.peers.report import page, table  # noqa: PLC0415
    from benchmarks.peers.workloads import WORKLOADS  # noqa: PLC0415

    results = []
    for threads in options.threads:
        for index, workload in enumerate(WORKLOADS):
            if options.work and not any([part.lower() in workload.name.lower() for part in options.work]):
                continue
            command = [sys.executable, "-m", "benchmarks.bench_peers", "--child", str(index), "--threads", str(threads)]
            command += [
                "--rounds",
                str(options.rounds),
                "--budget",
                str(options.budget),
                "--runtimes",
                *options.runtimes,
            ]
            env = {
                **os.environ,
                "OMP_NUM_THREADS": str(threads),
                "TVM_NUM_THREADS": str(threads),
                "UNITY_NUM_THREADS": str(threads),
            }
            try:
                done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=options.limit)
                line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
                problem = done.stderr.strip().splitlines()[-1:] if line is None else []
            except subprocess.TimeoutExpired:
                line, problem = None, [f"took longer than {options.limit:.0f} s"]
            if line is None:
                result = Result(
                    workload.name, workload.group, workload.flops, threads, {}, {}, {"all": " ".join(problem)}
                )
            else:
                result = Result(**json.loads(line[7:]))
            results.append(result)
            print(table([result]).splitlines()[-1], *[f"\n  {n}: {w}" for n, w in result.failed.items()], flush=True)
    print(table(results))
    if options.write is not None:
        options.write.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
