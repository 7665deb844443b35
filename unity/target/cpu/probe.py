"""Trials in a process of their own, for questions on which LLVM would end the process instead of answering."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

_PROGRAM = """
import json, sys
import llvmlite.binding as b
text, cpu, features = json.loads(sys.argv[1])
b.initialize_native_target(); b.initialize_native_asmprinter()
try:
    module = b.parse_assembly(text)
    module.verify()
except RuntimeError as error:
    sys.exit(str(error).strip())
if "; Unknown intrinsic" in str(module):
    sys.exit("LLVM has no such intrinsic")
target = b.Target.from_triple(b.get_process_triple())
if not cpu:
    cpu, features = b.get_host_cpu_name(), features or b.get_host_cpu_features().flatten()
target.create_target_machine(cpu=cpu, features=features).emit_object(module)
"""


@cache
def compile_problem(text: str, cpu: str = "", features: str = "") -> str:
    """Why LLVM cannot compile a small module for a processor ("" is this one), or "" when it can."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps([text, cpu, features])], capture_output=True, timeout=60
    )
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    if done.returncode == 0:
        doubts = [line for line in lines if "is not a recognized" in line]
        return doubts[0] if doubts else ""
    errors = [line for line in lines if "LLVM ERROR" in line or ": error:" in line] or (
        lines[-1:] if done.returncode > 0 else []
    )
    return errors[0] if errors else "LLVM cannot translate it for this processor"


def processor_problem(cpu: str, features: str) -> str:
    """Why LLVM cannot generate code for a named processor with features, or ""."""
    return compile_problem(
        "define double @probe(double %x) { %y = fadd double %x, %x\n ret double %y }\n", cpu, features
    )
