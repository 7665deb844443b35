"""Random sequences of all passes over random modules: what is checked after every pass, and the sources of modules and passes.

After each pass: the module verifies, prints and parses back, gives the same results in the reference interpreter; equal means the
same object; a second run of a pass that settles changes nothing; functions keep their names, visibility and attributes.
``python tests/property/pass_fuzz.py SECONDS [FIRST_SEED]`` searches for long; ``test_pass_fuzz.py`` runs a few seeds.
"""

from __future__ import annotations

import copy
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from generate import random_module, random_prim_func, with_symbol
from graph_programs import graph_inputs, graph_program
from hostile_programs import hostile_inputs, hostile_program
from lowering import LOOPS

import unity
from unity.ir import Call, IRModule, Var, collect, replace
from unity.ir.function import Function
from unity.ir.interpret import run
from unity.ir.relation import dims
from unity.ir.structural import first_difference
from unity.ir.verifier.verifier import violations
from unity.script import parse
from unity.support.errors import InternalError, UnityError
from unity.transform import DEFAULT_PIPELINE, PASSES, FusionPattern, Pass, Pipeline, bind_params
from unity.transform.dpl import is_const, is_op, wildcard

Made = tuple[IRModule, list[list[Any]]]
NOTED: list[np.ndarray] = []

SETTLES = (
    "normalize", "canonicalize", "eliminate_common_subexpr", "dead_code", "dead_code{entry_functions=('main',)}", "fold_constant",
    "fold_constant{max_bytes=8}", "compute_prim_value", "convert_to_dataflow", "convert_to_dataflow{min_size=1}",
    "to_non_dataflow", "topological_sort", "topological_sort{order='breadth_first'}", "inline_private_functions", "lambda_lift",
    "topological_sort{direction='from_outputs',order='breadth_first'}", "topological_sort{direction='from_outputs'}",
    "expand_tuple_arguments", "remove_unused_parameters", "remove_unused_outputs", "legalize_ops", "annotate_tir_op_pattern",
    "legalize_ops{skip=('R.add','R.exp')}", "fuse_tir", "fuse_transpose_matmul", "combine_parallel_matmul{only_weights=False}",
    "decompose_ops_for_inference", "decompose_ops_for_training", "fold_batch_norm_to_conv2d{only_constants=False}",
    "remove_redundant_reshape", "rewrite_reshape", "dataflow_use_inplace_calls", "remove_purity_checking", "normalize_global_var",
    "keep_unit_axes", "fuse_attention", "check_shapes", "compact_constants", "merge_families", "share_blocks", "auto_inline",
    "simplify_blocks", "attach_global_symbol", "eliminate_common_subexpr{call_only=True}", "alter_op_impl", "update_param_type",
    "merge_composite_functions", "run_codegen", "optimize_layout_transform", "split_layout_rewrite_preproc", "shift_signed_data", "simplify", "remove_no_op", "rewrite_unsafe_select",
    "legalize_narrow_float", "canonicalize_loop", "schedule_default", "schedule_nests", "winograd", "lower_init_block", "chunk_parallel", "assert_last",
    "attend_in_place",
)  # fmt: skip
"""Passes whose second run finds nothing more to do."""
FUSION = "legalize_ops,canonicalize,dead_code,convert_to_dataflow{min_size=1},annotate_tir_op_pattern,fuse_ops,fuse_tir"
OTHERS = (
    "convert_to_dataflow,annotate_tir_op_pattern,fuse_ops", "fuse_ops{max_depth=2}", "fuse_ops{max_args=3}", "fuse_ops{fuse_opt_level=1}",
    "convert_layout{always=True,only_constants=False,lanes=1}", "adjust_matmul_order", "gradient", "to_mixed_precision",
    "to_mixed_precision{dtype='bfloat16',wide_results=True}", "lift_transform_params", "quantize_weights",
    "unroll_loop{max_copies=4}", "hoist_if_then_else", "loop_partition", "vectorize_loop", "storage_rewrite", "coalesce_loops",
    "order_loops", "tile_reductions", "vectorize_reductions", "share_loops", "split_periods", "plan_buffer_allocation",
    "instrument_bounds", "compact_thread_buffers", "lower_cross_thread_reduction", "thread_sync", FUSION, FUSION, FUSION,
    "mark_pipeline_stages", "inject_software_pipeline", "inject_ptx_async_copy", "inject_virtual_thread", "lower_thread_allreduce",
    "unify_thread_binding", "merge_shared_memory_allocations", "split_host_device", "read_vectors",
    "!bind_params", "!bind_symbolic_vars", "!bundle_model_params", "!fuse_ops_by_pattern", "!fuse_ops_by_pattern",
)  # fmt: skip
"""Passes that may go on changing, chains of passes, and passes whose options come from the module (``specific``)."""
TENSOR_PASSES = (
    "simplify", "unroll_loop{max_copies=4}", "vectorize_loop", "loop_partition", "storage_rewrite{least_bytes=0}", "remove_no_op",
    "instrument_bounds", "hoist_if_then_else", "compact_buffer_allocation", "plan_buffer_allocation", "schedule_default", "schedule_nests",
    "simplify_blocks", "split_periods", "coalesce_loops", "version_predicates", "inject_double_buffer", "legalize_narrow_float",
)  # fmt: skip
LAST = (
    "legalize_ops,lambda_lift,to_non_dataflow,lower_call_dps", "plan_memory", "kill_after_last_use",
    "legalize_ops,lambda_lift,to_non_dataflow,lower_call_dps,canonicalize,plan_memory,lower_alloc_tensor,kill_after_last_use",
    "legalize_ops,lambda_lift,to_non_dataflow,lower_call_dps,lower_alloc_tensor", "lower_call_dps", "lower_alloc_tensor",
)  # fmt: skip
CHAINS = (str(DEFAULT_PIPELINE), str(LOOPS))
"""Of which a sequence may hold a beginning."""
ROUNDS = {"to_mixed_precision": 0.1, "quantize_weights": 1e9, "winograd": 1e-3, "gradient": 1e-4}
"""How far results may be off, of the largest magnitude."""


@dataclass(slots=True)
class Fault:
    """What went wrong where."""

    kind: str
    step: str
    text: str


def note(value: Any) -> None:
    """The effect that programs have."""
    NOTED.append(np.array(np.asarray(value)))


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in flat(part)]
    return [np.asarray(value)]


def results(run_it: Callable[[], Any]) -> list[np.ndarray]:
    """What a call returns, and what it noted on the way."""
    NOTED.clear()
    with np.errstate(all="ignore"):
        return [*flat(run_it()), *NOTED]


def differ(found: list[np.ndarray], wanted: list[np.ndarray], loose: float) -> str:
    """Why results are not the same, else ""."""
    if len(found) != len(wanted):
        return f"{len(found)} results, expected {len(wanted)}"
    for index, (x, y) in enumerate(zip(found, wanted)):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"result {index} is {x.dtype} {x.shape}, expected {y.dtype} {y.shape}"
        if x.dtype.kind in "biu":
            if not np.array_equal(x, y):
                return f"result {index} is {x}, expected {y}"
            continue
        near = max(loose, 2e-2 if x.dtype.itemsize < 4 else 0.0)
        left, right = x.astype("float64"), y.astype("float64")
        wide = float(np.max(np.abs(right[np.isfinite(right)]), initial=1.0))
        if not np.allclose(left, right, rtol=near, atol=near * min(wide, 1e6), equal_nan=True):
            return f"result {index} is {x}, expected {y}"
    return ""


# ---- modules


def _hostile(rng: random.Random) -> Made:
    mod = parse(hostile_program(rng))
    return mod, [hostile_inputs(rng, rng.random() < 0.4) for _ in range(2)]


def _graph(rng: random.Random) -> Made:
    mod = parse(graph_program(rng))
    return mod, [graph_inputs(rng)]


def _builder(rng: random.Random) -> Made:
    while True:
        program = random_module(rng)
        if not program.outputs:
            return program.mod, [program.args]


def _lowered(rng: random.Random) -> Made:
    """Tensor programs of a graph in the middle of their lowering."""
    mod, inputs = _hostile(rng)
    steps = LOOPS.passes[: rng.randint(1, len(LOOPS.passes))]
    return Pipeline((*Pipeline.parse("legalize_ops"), *steps))(mod), inputs


def _program(rng: random.Random) -> Made:
    """A tensor program alone; its results are its arguments."""
    made = random_prim_func(rng, native=True)
    return made.mod, [made.args]


def symbolic(rng: random.Random) -> Made:
    """A tensor program that allocates as much as a symbol says."""
    made = with_symbol(random_prim_func(rng, native=True), rng)
    return made.mod, [made.args]


SOURCES: tuple[Callable[[random.Random], Made], ...] = (
    _hostile,
    _hostile,
    _hostile,
    _graph,
    _builder,
    _lowered,
    _program,
    symbolic,
)


def sequence(rng: random.Random, alone: bool = False) -> list[str]:
    """Names of passes with options, in a random order; ``alone``: for a tensor program."""
    if alone:
        steps = [str(step) for step in LOOPS if rng.random() < rng.choice((0.5, 0.95))]
        for _ in range(rng.randint(0, 4)):
            steps.insert(rng.randrange(len(steps) + 1), rng.choice(TENSOR_PASSES))
        return steps[: rng.randint(1, len(steps))]
    steps = [rng.choice(SETTLES if rng.random() < 0.75 else OTHERS) for _ in range(rng.randint(2, 8))]
    if rng.random() < 0.15:
        steps = [str(step) for step in DEFAULT_PIPELINE.passes[: rng.randint(3, len(DEFAULT_PIPELINE.passes))]] + steps[
            :3
        ]
    if rng.random() < 0.3:
        steps.append(rng.choice(LAST))
    if rng.random() < 0.15:
        lowering = LOOPS.passes[: rng.randint(1, len(LOOPS.passes))]
        steps += [str(step) for step in lowering if rng.random() < 0.95]
    return steps


PATTERNS = (
    FusionPattern("one.product", is_op("R.matmul")(wildcard(), wildcard())),
    FusionPattern("one.chain", is_op("R.exp")(wildcard()) | is_op("R.negative")(wildcard())),
    FusionPattern("two.sum", is_op("R.add")(is_op("R.multiply")(wildcard(), wildcard()), wildcard())),
    FusionPattern("two.turn", is_op("R.permute_dims")(is_op("R.permute_dims")(wildcard()))),
    FusionPattern("two.constant", is_op("R.add")(wildcard(), is_const())),
)


def specific(
    name: str, mod: IRModule, inputs: list[list[Any]], rng: random.Random
) -> tuple[Pass, list[list[Any]], IRModule]:
    """A pass with options for this module, the inputs that fit behind it, and the module it starts from."""
    main = mod["main"]
    assert isinstance(main, Function)
    first = inputs[0]
    at = rng.randrange(len(first))
    if name == "bind_params":
        found = bind_params.with_options(params={main.params[at].name: unity.tensor(first[at])})
        return found, [[*first[:at], *first[at + 1 :]]], mod
    if name == "bundle_model_params":
        attrs = {**main.attrs, "num_input": at}
        given = [[*args[:at], tuple(args[at:])] for args in inputs]
        return PASSES[name], given, mod.with_functions({"main": replace(main, attrs=attrs)})
    if name == "fuse_ops_by_pattern":
        patterns = tuple(rng.sample(PATTERNS, rng.randint(1, 4)))
        options = {"bind_constants": rng.random() < 0.5, "annotate_codegen": rng.random() < 0.3}
        return PASSES[name].with_options(patterns=patterns, **options), inputs, mod
    tensors = [(p, a) for p, a in zip(main.params, first) if not isinstance(a, tuple)]
    sizes = {d.name: n for p, a in tensors for d, n in zip(dims(p.ty) or (), a.shape) if type(d) is Var}
    return PASSES[name].with_options(symbols=sizes), inputs[:1], mod


# ---- one step


def interface(mod: IRModule) -> dict[str, tuple[Any, ...]]:
    """Public functions: their parameters and attributes."""
    return {
        str(fn.attrs["global_symbol"]): (len(fn.params), fn.attrs)
        for fn in mod.functions.values() if isinstance(fn, Function) and "global_symbol" in fn.attrs
    }  # fmt: skip


def hidden(fn: Any) -> bool:
    """Is a function private."""
    return "global_symbol" not in (getattr(fn, "attrs", None) or {})


def spans(mod: IRModule) -> int:
    """Operator calls of graph functions that know their place."""
    return len([c for fn in mod.graph_functions().values() for c in collect(fn, Call) if c.span is not None])


def shape_faults(before: IRModule, after: IRModule, step: str) -> Fault | None:
    """What is wrong with a module that a pass made, without running it."""
    errors = violations(after, 2)
    if errors and not violations(before, 2):
        return Fault("verify", step, str(errors[0]))
    if after is not before and first_difference(after, before) is None and not step.startswith("attach"):
        return Fault("same", step, "an equal module is another object")
    text = after.script()
    try:
        difference = first_difference(after, parse(text))
    except UnityError as error:
        return Fault("parse", step, str(error))
    if difference is not None:
        return Fault("print", step, str(difference))
    old, new = interface(before), interface(after)
    for name, (count, attrs) in old.items():
        if name not in new:
            if "dead_code" in step:
                continue
            return Fault("interface", step, f"the public function {name} is gone")
        if new[name][0] != count and not step.startswith(("bind_params", "bundle")):
            return Fault("interface", step, f"{name} has {new[name][0]} parameters, it had {count}")
        lost = [key for key in attrs if key not in new[name][1] and key not in ("force_pure",)]
        if lost:
            return Fault("attributes", step, f"{name} lost {lost}")
    for name, fn in before.functions.items():
        if name in after.functions and not step.startswith("attach") and hidden(fn) != hidden(after.functions[name]):
            return Fault("interface", step, f"{name} is private on one side")
    if extra := [
        n for n in new if n not in old and not step.startswith(("gradient", "lift_transform", "attach", "normalize"))
    ]:
        return Fault("interface", step, f"new public functions {extra}")
    if spans(before) and not spans(after) and any([collect(f, Call) for f in after.graph_functions().values()]):
        return Fault("spans", step, "every call lost its place")
    return None


def outcomes(mod: IRModule, inputs: list[list[Any]]) -> list[list[np.ndarray] | UnityError]:
    """What ``main`` gives in the reference interpreter, or how it refuses."""
    found: list[list[np.ndarray] | UnityError] = []
    for args in inputs:
        try:
            given = copy.deepcopy(args)
            alone = not isinstance(mod["main"], Function)
            found.append(results(lambda: (run(mod, "main", *given), given)[alone]))
        except UnityError as error:
            found.append(error)
    return found


def walk(made: Made, steps: list[str], counts: Counter[str], rng: random.Random) -> Fault | None:
    """Run passes one by one and check each."""
    mod, inputs = made
    wanted = outcomes(mod, inputs)
    if all([isinstance(w, UnityError) for w in wanted]):
        counts["programs that refuse their inputs"] += 1
        return None
    loose = 1e-5
    for item in steps:
        for step in Pipeline.parse(item) if item[0] != "!" else (item[1:],):
            name, given, before = str(step), inputs, mod
            counts["passes"] += 1
            try:
                if isinstance(step, str):
                    step, given, before = specific(step, mod, inputs, rng)
                after = step(before)
            except UnityError as error:
                if isinstance(error, InternalError) or error.code.startswith("E90"):
                    return Fault("internal", name, str(error))
                counts[f"refused: {name} {error.code}"] += 1
                continue
            if after is before:
                counts["unchanged"] += 1
                continue
            counts["changes"] += 1
            counts[f"changed: {step.name}"] += 1
            fault = shape_faults(before, after, name) or settled(step, name, after)
            if fault:
                return fault
            loose = max(loose, ROUNDS.get(step.name, 0.0))
            found = outcomes(after, given)
            for result, expected in zip(found, wanted):
                if isinstance(expected, UnityError):
                    continue
                why = f"refused: {result}" if isinstance(result, UnityError) else differ(result, expected, loose)
                if why:
                    return Fault("meaning", name, f"{why}\n{after.script()}")
            mod, inputs = after, given
    machine = unity.VirtualMachine(unity.compile(mod))
    for args, expected in zip(inputs, wanted):
        if not isinstance(expected, UnityError):
            given = copy.deepcopy(args)
            alone = not isinstance(mod["main"], Function)
            found = results(lambda: (machine["main"](*given), given)[alone])
            if why := differ(found, expected, max(loose, 1e-4)):
                return Fault("compiled", "compile", f"{why}\n{mod.script()}")
    counts["compiled"] += 1
    return None


def settled(step: Pass, name: str, after: IRModule) -> Fault | None:
    """Does a second run of a pass that settles change anything?"""
    if name not in SETTLES or (again := step(after)) is after:
        return None
    if first_difference(again, after) is None:
        return Fault("same", name, "an equal module is another object")
    return Fault("idempotence", name, f"a second run goes on changing\n{after.script()}\n---- again\n{again.script()}")


def trial(seed: int, counts: Counter[str]) -> Fault | None:
    """One module under one sequence."""
    unity.register_func("pass_fuzz.note", note, override=True)
    rng = random.Random(seed)
    made = rng.choice(SOURCES)(rng)
    steps = sequence(rng, not isinstance(made[0]["main"], Function))
    counts["pairs"] += 1
    fault = None
    try:
        fault = walk(made, steps, counts, rng)
    except Exception:  # what a search finds may be anything
        fault = Fault("crash", "?", traceback.format_exc(limit=-14))
    if fault:
        fault.text = f"seed {seed}: {','.join(steps)}\n{fault.text}\n---- module\n{made[0].script()}"
    return fault


def main(seconds: float, seed: int) -> None:
    """Search until the time is over; print each new kind of fault once."""
    counts: Counter[str] = Counter()
    seen: Counter[tuple[str, str]] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        fault = trial(seed, counts)
        if fault:
            last = fault.text.partition("---- module")[0].strip().splitlines()[-1] if fault.kind == "crash" else ""
            key = (fault.kind, fault.step, last[:60])
            seen[key] += 1
            if seen[key] <= 2:
                print(f"==== {fault.kind} {fault.step}\n{fault.text}\n", flush=True)
        seed += 1
    print(f"next seed {seed}", dict(counts), {f"{k}": n for k, n in seen.items()}, flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
