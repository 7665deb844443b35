"""Unity beside other runtimes: workloads, runtimes, report. Run with ``python -m benchmarks.bench_peers``."""
