"""Parts of ``benchmarks/bench_gpu.py``. ``programs.py`` and ``clock.py`` need numpy and `unity/ffi/cuda`: packed runs have them."""
