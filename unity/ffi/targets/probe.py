"""Trials in a process of their own, for questions on which LLVM would end the process instead of answering."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

_START = """
import json, sys
import llvmlite.binding as b
given, cpu, features = json.load(sys.stdin)
b.initialize_native_target(); b.initialize_native_asmprinter()
def machine(cpu, features):
    return b.Target.from_triple(b.get_process_triple()).create_target_machine(cpu=cpu, features=features)
def read(text):
    try:
        module = b.parse_assembly(text)
        module.verify()
        return module
    except RuntimeError as error:
        sys.exit(str(error).strip())
"""
_COMPILE = """
for text in given:
    module = read(text)
    if "; Unknown intrinsic" in str(module):
        sys.exit("LLVM has no such intrinsic")
    machine(cpu, features).emit_object(module)
    print(flush=True)
"""
_FEATURES = """
machine(cpu, features).emit_object(read(given))
names = [item[1:] for item in b.get_host_cpu_features().flatten().split(",")]
plain = "x86-64" if b.get_process_triple().startswith("x86_64") else "generic"
parts, whole = [], " %x0 = add i32 %x, 0\\n"
for k, name in enumerate(names):
    attributes = f'"target-cpu"="{plain}" "target-features"="+{name}"'
    parts.append(f"define internal i32 @has{k}(i32 %x) {attributes} {{ %y = mul i32 %x, 3\\n ret i32 %y }}\\n")
    whole += f" %v{k} = call i32 @has{k}(i32 %x)\\n %x{k + 1} = add i32 %x{k}, %v{k}\\n"
attributes = f'"target-cpu"="{cpu}" "target-features"="{features}"'
module = read("".join(parts) + f"define i32 @caller(i32 %x) {attributes} {{\\n{whole} ret i32 %x{len(names)} }}\\n")
builder = b.create_pass_builder(machine(cpu, features), b.create_pipeline_tuning_options(speed_level=2))
builder.getModulePassManager().run(module, builder)
left = str(module.get_function("caller"))
print(json.dumps([name for k, name in enumerate(names) if f"@has{k}(" not in left]))
"""


LIMIT = 60
"""Seconds in which LLVM has to answer one question."""


def _run_probe(program: str, questions: int, *given: object) -> tuple[str, str]:
    """The output of a program that asks so many questions, and why LLVM stopped or doubts ("" where it does not)."""
    command, limit = [sys.executable, "-c", _START + program], LIMIT * questions
    try:
        done = subprocess.run(command, input=json.dumps(given).encode(), capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace"), f"LLVM took longer than {limit} seconds"
    said = done.stdout.decode(errors="replace")
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    doubts = [line for line in lines if "is not a recognized" in line]
    if doubts or done.returncode == 0:
        return said, doubts[0] if doubts else ""
    errors = [line for line in lines if "LLVM ERROR" in line or ": error:" in line] or (
        lines[-1:] if done.returncode > 0 else []
    )
    return said, errors[0] if errors else "LLVM cannot translate it for this processor"


def probe_compilation(texts: Sequence[str], cpu: str, changes: str) -> tuple[int, str]:
    """The number of small modules that one process compiled for a processor with features added or taken away, and the reason
    why it did not compile the next, or "". Where LLVM only doubts, it compiled none."""
    said, problem = _run_probe(_COMPILE, len(texts), texts, cpu, changes)
    done = said.count("\n")
    return 0 if problem and done == len(texts) else done, problem


def probe_features(cpu: str, changes: str) -> tuple[list[str], str]:
    """Features of a processor by LLVM's names, or why LLVM cannot generate code for it.

    LLVM tells by inlining: a function that needs a feature goes into callers that have it, and into no others.
    """
    said, problem = _run_probe(
        _FEATURES, 1, "define double @f(double %x) { %y = fadd double %x, %x\n ret double %y }\n", cpu, changes
    )
    return ([], problem) if problem else ([str(name) for name in json.loads(said)], "")
