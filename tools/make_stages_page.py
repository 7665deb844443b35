"""The text of ``docs/stages.md``: the life of one small module.

It is made by running the real pipelines on the module of `examples/main_job.py`, with an instrument that keeps what each
pass changed. The target is pinned, so that the page is the same on every machine.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from unity.ffi.targets.target import Target
from unity.ir import IRModule
from unity.script import parse, script
from unity.target.cpu.codegen import write_module
from unity.transform import PASSES
from unity.transform.infra.passes import Instrument, Pass, PassContext, Pipeline
from unity.transform.relax.pipeline import GRAPH_PIPELINE, PLAN_PIPELINE, SCHEDULE_PIPELINE
from unity.transform.tir.pipeline import CPU_PIPELINE
from unity.vm.compiler.module import compile_module
from unity.vm.executable.bytecode import program_text

HEAD = """\
# The stages of one small module

Everything below is printed by running the pipelines on the module of `examples/main_job.py`; after every pass the module is still a
program that prints, parses back and runs. To watch your own: `UNITY_DUMP=folder python model.py` writes one file per pass that
changed something, `UNITY_PRINT=pass_name` prints before and after one pass, `UNITY_VERIFY=2` verifies after each. Where each
stage stands is drawn in [architecture](architecture.md).
"""
TARGET = "llvm -mcpu=x86-64-v3"
KERNEL = "tir_mm"
STAGES = (
    (
        "Graph passes",
        "`unity/transform/relax/pipeline.py`, in order. Functions that changed are shown.",
        GRAPH_PIPELINE,
        None,
    ),
    (
        "Scheduling",
        "`schedule_default` tries the rules of the target, `schedule_nests` runs passes on the nests that are left; they stand "
        f"before it here. `{KERNEL}` is shown.",
        SCHEDULE_PIPELINE,
        KERNEL,
    ),
    ("Planning of memory", "The end of `unity/transform/relax/pipeline.py`.", PLAN_PIPELINE, None),
)
"""Title, text, passes, and the only function that is shown."""
ATTRS = re.compile(r"^ *T\.func_attr\(.*\n", re.MULTILINE)
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "main_job.py"
SOURCE = re.search(r"^@I\.ir_module\n.*?return gv0\n", EXAMPLE.read_text(), re.MULTILINE | re.DOTALL).group()


@dataclass(slots=True)
class Watch(Instrument):
    """Keeps a section of the page for each pass that changed something."""

    heading: str
    only: str | None = None
    sections: list[str] = field(default_factory=list)
    quiet: list[str] = field(default_factory=list)
    body: str = ""

    def after(self, step: Pass, old: IRModule, new: IRModule, seconds: float) -> None:
        shown = changed(old, new, self.only)
        if shown:
            self.flush()
            body, attrs = ATTRS.sub("", shown), ATTRS.search(shown)
            if body == self.body and attrs is not None:  # the passes that it ran have shown the rest
                shown = textwrap.dedent(attrs.group())
            self.body = body
            self.sections += [f"{self.heading} {step}", "", summary(step), "", fence(shown), ""]
        else:
            self.quiet.append(f"`{step}`")

    def flush(self) -> None:
        """Name the passes that changed nothing since the last section."""
        if self.quiet:
            self.sections += [f"No change here: {', '.join(self.quiet)}.", ""]
            self.quiet = []


def functions(mod: IRModule) -> dict[str, str]:
    """Script of each function of a module, as it stands in the module."""
    header, *parts = re.split(r"\n(?=    @)", script(mod))
    found = {}
    for part in parts:
        name = re.search(r"^    def (\w+)", part, re.M)
        assert name is not None, header
        found[name.group(1)] = part.rstrip()
    return found


def changed(old: IRModule, new: IRModule, only: str | None) -> str:
    """Script of the functions that differ, the others named; empty when nothing differs."""
    before, after = functions(old), functions(new)
    if only is not None:
        return shortened(textwrap.dedent(after[only])) if before[only] != after[only] else ""
    if before == after:
        return ""
    parts = [text if text != before.get(name) else f"    # {name}: as before" for name, text in after.items()]
    parts += [f"    # {name}: gone" for name in before if name not in after]
    return "@I.ir_module\nclass MyIRModule:\n" + "\n\n".join(parts)


def shortened(text: str, limit: int = 60) -> str:
    """The text, its middle left out when it is long: register tiles repeat one statement dozens of times."""
    lines = text.rstrip().splitlines()
    left_out = len(lines) - limit
    return text if left_out <= 0 else "\n".join([*lines[: limit - 10], f"# ... {left_out} lines ...", *lines[-10:]])


def summary(step: Pass) -> str:
    """First paragraph of a pass's docstring."""
    paragraph = re.split(r"\n\s*\n", PASSES[step.name].doc.strip())[0]
    return " ".join(paragraph.split())


def fence(text: str, kind: str = "") -> str:
    """A block of text."""
    return f"```{kind}\n{text.rstrip()}\n```"


def run(pipeline: Pipeline, mod: IRModule, watch: Watch) -> IRModule:
    """Run a pipeline under the instrument."""
    with PassContext(watch):
        result = pipeline(mod)
    watch.flush()
    return result


def excerpt(text: str) -> str:
    """Of the LLVM IR of all kernels: the head of the example's matrix product and its shortest loop that multiplies, shortened."""
    found = re.search(rf"^define [^\n]*{KERNEL}.*?^}}", text, re.M | re.S)
    assert found is not None, "the kernel stands in the LLVM IR"
    loops = re.findall(
        r"^(for\.(\d+):\n(?:(?!^for\.).)*?fmul.*?br label %for\.\2\b[^\n]*\n)", found.group(0), re.M | re.S
    )
    assert loops, "a loop multiplies"
    lines = min([loop for loop, _ in loops], key=len).rstrip().splitlines()
    if len(lines) > 40:
        lines = [*lines[:32], "  ; ...", *lines[-6:]]
    return "\n".join([found.group(0).splitlines()[0], "  ; ...", *lines, "  ; ...", "}"])


def build() -> str:
    """The page."""
    mod = parse(SOURCE, name="model.py")
    assert isinstance(mod, IRModule)
    lines = [HEAD, "## Source", "", fence(SOURCE), ""]
    lines += [
        "## Parsed", "",
        "`unity.script.parse` gives an `IRModule`. Printed, it shows what was deduced: the type of every binding.", "",
        fence(script(mod)), "",
    ]  # fmt: skip
    with Target(TARGET) as target:
        for title, text, pipeline, only in STAGES:
            lines += [f"## {title}", "", text, ""]
            watch = Watch("###", only)
            mod = run(pipeline, mod, watch)
            lines += watch.sections
        watch = Watch("###", KERNEL)
        lines += [
            "## Lowering", "",
            f"`unity/transform/tir/pipeline.py` lowers every tensor program of the module; `{KERNEL}` is shown.", "",
        ]  # fmt: skip
        lowered = run(CPU_PIPELINE, IRModule(dict(mod.prim_funcs()), {}, {}), watch).prim_funcs()
        lines += watch.sections
        text, signatures, symbols, _ = write_module(lowered, target)
    program = compile_module(mod, signatures, symbols)
    lines += [
        "## LLVM IR", "",
        f"`unity/target/cpu/` writes LLVM IR as text, for all kernels at once; this is a loop of `{KERNEL}` for "
        f"`{TARGET}`, before LLVM's own passes.", "", fence(excerpt(text), "llvm"), "",
        "## Bytecode", "",
        "`unity/vm/compiler` turns the graph functions into bytecode, the format that is saved, interpreted, and translated to "
        "a native driver.", "", fence(program_text(program)), "",
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"
