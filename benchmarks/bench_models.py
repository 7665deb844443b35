"""Models from torch: seconds from the model to its first result, against a cold and a warm object cache; run time against torch.

Run: python -m benchmarks.bench_models [resnet18 bert gpt2 ...] [--layers] [--memory] [--whole] [--threads N]. Importing packages
(what torch imports for its first export among them) and making the model are not counted; next to the seconds stand those of the
processor, which a busy machine changes less. ``cold`` and ``warm`` are two processes that share one fresh cache. ``export`` is
torch's own time and part of the seconds. ``--layers`` adds models of twice the layers and of one layer. Peak memory is that of
the whole process, next to the weights.

``--whole`` prints the seconds of ``unity.compile`` to the first result instead, each in a fresh process: cold, warm, and of
``unity.load_model`` on a saved file.

``--memory`` prints another table: the peak of building and of one call in a fresh process, over what it held before, which is the
model and the code of torch and of the compiler (a small convolution was built before). ``share`` is the weights and what was added
but for the activations planned, over the weights.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = ("resnet18", "bert", "gpt2")
SCALED = {"bert": ("bert-1", "bert", "bert-24"), "gpt2": ("gpt2-1", "gpt2", "gpt2-24")}


def make(name: str) -> tuple[Any, dict[str, Any]]:
    """A model of default size with random weights, in evaluation mode, and its inputs."""
    import torch  # noqa: PLC0415

    sys.path.append(str(ROOT / "examples"))
    from models import sequence, vision  # noqa: PLC0415

    image, kind, layers = {"x": torch.randn(1, 3, 224, 224)}, *[*name.split("-"), ""][:2]
    if kind in ("resnet18", "resnet50", "mobilenet_v2", "unet"):
        return getattr(vision, kind)(), image
    if kind == "mlp":
        return sequence.MLP().eval(), {"x": torch.randn(32, 28, 28)}
    import transformers as t  # noqa: PLC0415

    tokens = {"input_ids": torch.randint(1, 1000, (1, 128))}
    count = {"num_hidden_layers": int(layers)} if layers else {}
    if kind == "bert":
        return t.BertModel(t.BertConfig(**count)).eval(), tokens
    if kind == "gpt2":
        return t.GPT2LMHeadModel(
            t.GPT2Config(use_cache=False, **({"n_layer": int(layers)} if layers else {}))
        ).eval(), tokens
    if kind == "vit":
        return t.ViTForImageClassification(t.ViTConfig(**count)).eval(), {"pixel_values": image["x"]}
    if kind == "llama":
        config = t.LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=int(layers or 4),
                               num_attention_heads=16, num_key_value_heads=4, vocab_size=32000, use_cache=False)  # fmt: skip
        return t.LlamaForCausalLM(config).eval(), tokens
    if kind == "t5":
        return t.T5ForConditionalGeneration(t.T5Config(use_cache=False)).eval(), {
            **tokens,
            "decoder_input_ids": tokens["input_ids"][:, :32],
        }
    if kind == "whisper":
        encoder = t.models.whisper.modeling_whisper.WhisperEncoder(t.WhisperConfig())
        return encoder.eval(), {"input_features": torch.randn(1, 80, 3000)}
    raise SystemExit(f"unknown model {name}")


def peak() -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu() -> float:
    """Processor seconds of this process and those it started."""
    return sum(
        [u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))]
    )


def seconds(run: Callable[[], Any], repeats: int = 7) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


def measure(name: str, threads: int) -> dict[str, float]:
    """One model in this process."""
    warnings.simplefilter("ignore")
    import torch  # noqa: PLC0415

    import unity  # noqa: PLC0415
    from unity.frontend.torch import exported_program as exported  # noqa: PLC0415
    from unity.frontend.torch.capture import trace  # noqa: PLC0415
    from unity.frontend.torch.context import report  # noqa: PLC0415
    from unity.vm.build import build  # noqa: PLC0415

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model, inputs = make(name)
    tensors = [unity.Tensor.from_torch(v) for v in inputs.values()]
    with torch.no_grad():
        expected = model(**inputs)
    trace.export(
        torch.nn.Identity(), (torch.ones(2),), None, {}
    )  # torch loads 1,200 modules of its own for its first export
    weights = sum([p.numel() * p.element_size() for p in model.parameters()]) / 2**20
    before, found = peak(), {"weights_mb": weights}
    start, used = time.perf_counter(), cpu()
    program = trace.functional(trace.export(model, (), None, inputs))
    found["export"] = time.perf_counter() - start
    mod = exported.import_program(program, exported.Options(), report.ImportReport())
    found["import"] = time.perf_counter() - start - found["export"]
    executable = build(mod)
    main = unity.VirtualMachine(executable)["main"]
    result = main(*tensors)
    found["total"] = time.perf_counter() - start
    found["cpu"] = cpu() - used
    found["compile"] = found["total"] - found["export"] - found["import"]
    found["growth_mb"] = peak() - before
    torch.testing.assert_close(result[0].torch(), leaf(expected), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        found["torch_ms"] = seconds(lambda: model(**inputs)) * 1e3
    found["unity_ms"] = seconds(lambda: main(*tensors)) * 1e3
    return found


def memory(name: str, discard: bool) -> dict[str, float]:
    """Peak memory of building and calling one model in this process, in MB over what it held before."""
    warnings.simplefilter("ignore")
    import torch  # noqa: PLC0415

    import unity  # noqa: PLC0415

    torch.set_num_threads(1)
    small = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU()).eval()
    unity.compile(small, example_inputs=(torch.ones(1, 3, 8, 8),))(torch.ones(1, 3, 8, 8))
    model, inputs = make(name)
    with torch.no_grad():
        expected = leaf(model(**inputs)).clone()
    weights = sum([p.numel() * p.element_size() for p in model.parameters()]) / 2**20
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins here
    before = resident()
    compiled = unity.compile(model, example_kwargs=inputs, discard_parameters=discard)
    built = resident("VmHWM") - before
    found = leaf(compiled(**inputs))
    added, formula = resident("VmHWM") - before, compiled.executable.memory()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    planned = (formula.temporaries() + formula.results()) / 2**20
    held = sum({c.data_ptr: c.numpy().nbytes for c in compiled.executable.program.constants}.values()) / 2**20
    return {"weights": weights, "constants": held, "planned": planned, "build": built, "peak": added,
"share": (weights + added - planned) / weights}  # fmt: skip


WAYS = ("cold", "warm", "load")


def whole(name: str, way: str, threads: int) -> dict[str, float]:
    """Seconds from a model to its first result in this process, in one of ``WAYS``; a file is left for the last."""
    warnings.simplefilter("ignore")
    import torch  # noqa: PLC0415

    import unity  # noqa: PLC0415
    from unity.frontend.torch.capture import trace  # noqa: PLC0415

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model, inputs = make(name)
    with torch.no_grad():
        expected = leaf(model(**inputs))
    trace.export(torch.nn.Identity(), (torch.ones(2),), None, {})
    path = Path(os.environ["UNITY_CACHE"]) / f"{name}.unity"
    start, used = time.perf_counter(), cpu()
    if way == "load":
        compiled = unity.load_model(path)
    else:
        compiled = unity.compile(model, example_kwargs=inputs)
    found = leaf(compiled(**inputs))
    seconds_taken, cpu_taken = time.perf_counter() - start, cpu() - used
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    if way == "warm":
        compiled.save(path)
    return {"seconds": seconds_taken, "cpu": cpu_taken}


def whole_table(names: list[str], threads: int) -> None:
    """Print the table of ``--whole``."""
    print(f"{'model (s, cpu s)':<17}{''.join([f'{way:>10}    cpu' for way in WAYS])}")
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            found = [in_process(f"{name} {way}", cache, threads, "--whole") for way in WAYS]
        row = "".join([f"{one['seconds']:>10.2f}{one['cpu']:>7.2f}" for one in found])
        print(f"{name:<17}{row}", flush=True)


def leaf(results: Any) -> Any:
    """The first tensor of a model's results."""
    return results[0] if not hasattr(results, "shape") else results


def resident(key: str = "VmRSS") -> float:
    """Memory of this process in MB: now, or its high-water mark (``VmHWM``)."""
    return next(float(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(key)) / 1024


def memory_table(names: list[str], threads: int) -> None:
    """Print the table of ``--memory``."""
    titles = ("weights", "constants", "planned", "build", "peak", "share")
    print(f"{'model (MB)':<28}{''.join([f'{t:>11}' for t in titles])}")
    for name in names:
        for option in ("", " discard"):
            with tempfile.TemporaryDirectory() as cache:
                found = in_process(name + option, cache, threads, "--memory")
            print(f"{name + option:<28}{''.join([f'{found[t]:>11.2f}' for t in titles])}", flush=True)


def in_process(name: str, cache: str, threads: int, *flags: str) -> dict[str, float]:
    """As ``measure`` in a fresh process with its own cache folder."""
    env = {**os.environ, "UNITY_CACHE": cache, "UNITY_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.bench_models", "--one", name, "--threads", str(threads), *flags]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-3000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: list[str]) -> None:
    """Print the table."""
    threads = int(arguments[arguments.index("--threads") + 1]) if "--threads" in arguments else 1
    if "--one" in arguments:
        name, option = [*arguments[arguments.index("--one") + 1].split(), ""][:2]
        if "--whole" in arguments:
            print(json.dumps(whole(name, option, threads)))
        else:
            print(json.dumps(memory(name, option == "discard") if "--memory" in arguments else measure(name, threads)))
        return
    names = [a for a in arguments if not a.startswith("--") and not a.isdigit()] or list(DEFAULT)
    if "--layers" in arguments:
        names = [n for name in names for n in SCALED.get(name, (name,))]
    for flag, table in (("--memory", memory_table), ("--whole", whole_table)):
        if flag in arguments:
            table(names, threads)
            return
    titles = (
        "cold s",
        "cpu s",
        "warm s",
        "cpu s",
        "export",
        "import",
        "compile",
        "warm",
        "torch ms",
        "unity ms",
        "weights",
        "growth MB",
    )
    print(f"{'model':<14}{''.join([f'{t:>10}' for t in titles])}")
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = in_process(name, cache, threads), in_process(name, cache, threads)
        row = [
            cold["total"],
            cold["cpu"],
            warm["total"],
            warm["cpu"],
            cold["export"],
            cold["import"],
            cold["compile"],
            warm["compile"],
        ]
        rest = [warm["torch_ms"], warm["unity_ms"], warm["weights_mb"], warm["growth_mb"]]
        print(f"{name:<14}{''.join([f'{v:>10.2f}' for v in row])}{''.join([f'{v:>10.1f}' for v in rest])}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
