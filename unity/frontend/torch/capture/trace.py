"""From a torch model to an ``ExportedProgram``: ``torch.export`` with its conditions checked first and its failures explained."""

from __future__ import annotations

import contextlib
import itertools
import linecache
import re
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from ....support.errors import FrontendError, Note
from ....support.forking import fork_lock
from ....support.gc_pause import young_collection
from ....support.optional import require
from ....support.source import Source, Span
from ..context.report import module_path, traced_line
from ..operators.table import enter_rows
from ..runtime.arguments import overlap, span
from ..runtime.structures import known_results, register_classes
from ..translate.in_place import is_mutable, other_kind, refuse_other_kinds, refuse_uncovered
from .discard_parameters import memory_key
from .dynamic import expand_dynamic_shapes, without_dim_names
from .grad_modes import copied, with_graph, without_grad_modes
from .guards import fixes_a_size, holds_in_range, layout_guards, source_name
from .inputs import check_examples, forward_signature, refuse_foreign
from .known_numbers import known_numbers, whole_numbers
from .lost_effects import lost_effects
from .quiet import quiet
from .traceable import inferable, traceable
from .written_views import functionalize_writes

_TRACING = fork_lock()
"""torch traces one model at a time: its modes, and the tables changed for it, are those of the process."""


def export(model: Any, args: tuple[Any, ...], dynamic_shapes: Any = None, kwargs: dict[str, Any] | None = None) -> Any:
    """``torch.export.export`` without gradients; its failure as FrontendError E016 with torch's words."""
    torch = require("torch")
    require("torch._dynamo")  # which torch.export imports when it is called
    if isinstance(dynamic_shapes, list):
        names = [n.target for n in model.graph.nodes if n.op == "placeholder"] if hasattr(model, "graph") else None
        dynamic_shapes = dict(zip(names, dynamic_shapes)) if names else tuple(dynamic_shapes)
    refuse_foreign(model)
    register_classes((args, kwargs or {}))
    check_examples(model, args, kwargs or {})
    args, kwargs = _copy_aliased(torch, model, (args, kwargs or {}))
    signature = forward_signature(model)
    dynamic_shapes = expand_dynamic_shapes(signature, dynamic_shapes, args, kwargs)

    def exported(grad: bool, shapes: Any = dynamic_shapes, strict: bool = False) -> Any:
        try:
            with quiet(), torch.set_grad_enabled(grad), contextlib.nullcontext() if grad else inferable(torch):
                return torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=strict)
        except FrontendError:
            raise
        except Exception as error:  # torch.export raises errors of many unrelated classes
            raise _export_error(error, model) from error

    numbers = whole_numbers(model)
    with _TRACING, known_results(model), lost_effects(model), traceable(torch), young_collection():
        try:
            return exported(False)
        except FrontendError as error:
            words = str(error.__cause__)
            if "does not require grad" in words:  # the model itself computes gradients
                return exported(True)
            program = _with_known_numbers(torch, model, exported) if numbers and "data-dependent" in words else None
            if _NARROWED.search(words):
                program = _of_whole_range(exported, without_dim_names(dynamic_shapes), words)
            if program is None and _NUMBER_WANTED.search(words):
                with warnings.catch_warnings():  # of our hooks
                    warnings.filterwarnings("ignore", "While compiling, we found certain side effects")
                    program = _of_bytecode(exported, without_dim_names(dynamic_shapes))
            if program is None:
                raise
            return program


def _with_known_numbers(torch: Any, model: Any, exported: Callable[[bool], Any]) -> Any:
    """The program of a model whose buffers hold the sizes that torch took for data; None where it needs other data."""
    try:
        with known_numbers(torch, model) as mode:
            program = exported(False)
    except FrontendError:  # the first failure is the one to tell
        return None
    numbers = whole_numbers(model)
    own = {place for place, name in program.graph_signature.inputs_to_buffers.items() if name in numbers}
    written = [node for node in program.graph.nodes if is_mutable(node.target) and node.all_input_nodes]
    return program if mode.sound and own.isdisjoint([node.all_input_nodes[0].name for node in written]) else None


_NARROWED = re.compile(
    r"Not all values of .* in the specified range(?: (?:(\d+) <= )?\w+(?: <= (\d+))?)? satisfy the generated guard "
    r"(.*?)\.?(?:Specializations .*)?$",
    re.MULTILINE,
)
"""The ends of the range, where it has them, and the guard."""


def _of_whole_range(exported: Callable[..., Any], shapes: Any, words: str) -> Any:
    """The program where torch refused ranges of named dimensions for guards that hold in all of the range, or that are about how
    tensors lie in its memory alone; else None."""
    open_guards = {guard for low, high, guard in _NARROWED.findall(words) if not holds_in_range(guard, low, high)}
    program = exported(False, shapes)
    return program if layout_guards(program).issuperset(open_guards) and not fixes_a_size(program) else None


_NUMBER_WANTED = re.compile(
    r"Could not extract specialized|specialized it to be a constant \((?![01]\))|satisfy the generated guard .* == -?\d+\.?$",
    re.MULTILINE,
)
"""``int(n)``, ``float(n)``, ``math.sqrt(n)`` of a tensor or a size: Python's own functions, which give torch nothing to trace."""


def _of_bytecode(exported: Callable[..., Any], shapes: Any) -> Any:
    """The program as bytecode shows it, with its calls of Python's functions on numbers; None where torch refuses that too."""
    try:
        return exported(False, strict=True)
    except FrontendError as error:
        words = str(error.__cause__)
    return _of_whole_range(partial(exported, strict=True), shapes, words) if _NARROWED.search(words) else None


def _copy_aliased(torch: Any, model: Any, inputs: Any) -> Any:
    """The example inputs with copies where a tensor stands twice or is the model's own: torch.export would take both for one."""
    seen = {id(t) for t in [*model.parameters(), *model.buffers()]}

    def once(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in seen:
            return leaf.detach().clone()
        seen.add(id(leaf))
        return leaf

    return torch.utils._pytree.tree_map(once, inputs)


def _export_error(error: Exception, model: Any) -> FrontendError:
    """torch's failure with the model's own line and the path of the module that ran it."""
    folders = tuple([str(Path(str(require(m).__file__)).parent) for m in ("torch", __package__)])
    paths = {id(m): path or "the model" for path, m in model.named_modules()}
    kinds = {path or "the model": type(m).__name__ for path, m in model.named_modules()}
    owner, inner, owner_of_line, frame_place = "", "", "", None
    for frame, line in traceback.walk_tb(error.__traceback__):
        owner = paths.get(id(frame.f_locals.get("self")), owner)
        name = frame.f_code.co_filename
        text = linecache.getline(name, line).strip()
        if owner and text and not name.startswith(folders):
            frame_place, owner_of_line = (name, text, line), owner
        elif isinstance(error, IndexError) and frame.f_code.co_name == "produce_guards_verbose":
            _, *names = re.findall(r"\w+", source_name(frame.f_locals["source"]))
            return other_kind(f"the number of axes of {'_'.join(names)}")
        elif id(frame.f_locals.get("self")) in paths:
            inner = owner
    span = Span(Source(*frame_place, owner=owner_of_line), 0, len(frame_place[1])) if frame_place is not None else None
    first, *rest = str(error).strip().splitlines() or [""]
    shown = frame_place[1] if frame_place is not None else None
    spoken = [line for line in rest if line.strip() not in ("", shown)]
    cause = [line for line in spoken if not line.strip().startswith(_ABOUT_TORCH)][:8]
    notes = [Note("\n".join(cause))] if cause else []
    if inner not in ("", owner_of_line):
        notes.append(Note(f"it fails in {inner} ({kinds[inner]})"))
    if shown is not None and shown.startswith("assert ") and "data-dependent" in first:
        hint = "torch._assert_async(condition, message) checks a tensor when the model runs"
    else:
        hint = next((hint for words, hint in _HINTS if re.search(words, str(error), re.MULTILINE)), _HINTS[-1][1])
    return FrontendError(
        "E016", f"torch.export does not take this model: {type(error).__name__}: {first}", span, notes, hint
    )


_HINTS = (
    ("packed sequence", "compile the layer for padded sequences, and mask what lies beyond their ends; "
     'torch.compile(model, backend="unity") leaves packing to torch'),
    ("Could not extract specialized integer",
     "Python needs the number itself here: pass it as an int; torch.while_loop repeats for a number only the data knows; "
     'torch.compile(model, backend="unity") leaves it to Python'),
    ("data-dependent", 'torch.cond expresses a branch on data; torch.compile(model, backend="unity") leaves it to Python'),
    ("must always be equal", "give both dimensions the same torch.export.Dim, or torch.export.Dim.AUTO"),
    (r"specialized it to be a constant \([01]\)",
     "torch takes a size of 0 or 1 in the example for a constant: give an example with a larger one"),
    (r"specialized it to be a constant|math\.\w+\(.* == -?\d+\.?$",
     "the model fixes the size: where Python's own functions read it, compute with integers (n * 7 // 10 for int(n * 0.7)) or "
     "tensors (torch.log(torch.tensor(n)) for math.log(n))"),
    ("inconsistent min", "torch fails over the range it would suggest for a named dimension: use torch.export.Dim.AUTO"),
    ("onstraints violated", "give the dimension the range torch suggests, or torch.export.Dim.AUTO to let torch choose"),
    ("inference tensor", "make the model and its inputs outside of torch.inference_mode()"),
    ("Found <class '.*'> in output", "return tensors, numbers, strings and None, in lists, tuples, dicts and dataclasses"),
    ("recursion depth", "tracing needs more levels than the model alone: sys.setrecursionlimit(10_000)"),
    ("on the same device", "a compiled model runs on one device: make tensors in forward with device=x.device"),
    (r"\.numpy\(\) is not supported", "numpy cannot be traced: write it with functions of torch"),
    ("", "call the model itself with these inputs; if it runs, only torch.export refuses it, and "
     'torch.compile(model, backend="unity") leaves such lines to Python'),
)  # fmt: skip
"""Advice for a failure, by words of torch's message; the first that fits."""

_ABOUT_TORCH = ("For ", "If you suspect", "Caused by", "consider using", "The following call", "The error above", "File ",
                "While executing", "Original traceback:", "None", "Use tlparse")  # fmt: skip
"""Beginnings of lines with which torch's messages speak to its own developers."""


def sample_inputs(torch: Any, input_info: Sequence[tuple[Sequence[Any], str]]) -> tuple[tuple[Any, ...], Any]:
    """(inputs of zeros, dynamic shapes or None) of given shapes and dtypes."""
    symbols: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    samples, shapes = [], []
    for entry in _entries(input_info):
        shape, dtype = entry
        kind = getattr(torch, str(dtype).removeprefix("torch."), None)
        if not isinstance(kind, torch.dtype):
            raise FrontendError("E015", f"torch has no data type {dtype}")
        dynamic = {}
        for axis, dim in enumerate(shape):
            if isinstance(dim, str) and dim.isidentifier():
                sizes.setdefault(dim, 4 + len(sizes))
                dynamic[axis] = symbols.setdefault(dim, torch.export.Dim(dim))
            elif not isinstance(dim, int) or dim < 0:
                raise FrontendError("E013", f"a size is a number from 0, or a name where it varies, got {dim!r}",
                                    help='for example [(("n", 3, 224, 224), "float32")]')  # fmt: skip
        extents = [sizes[d] if isinstance(d, str) else int(d) for d in shape]
        try:
            samples.append(torch.zeros(extents, dtype=kind))
        except (NotImplementedError, RuntimeError) as error:
            raise FrontendError(
                "E015", f"torch makes no example of shape {tuple(shape)} and {kind}: {error}"
            ) from error
        shapes.append(dynamic)
    return tuple(samples), shapes if symbols else None


def _entries(input_info: Any) -> list[Any]:
    """The (shape, dtype) pairs. Raises FrontendError E013."""
    entries = list(input_info) if isinstance(input_info, (list, tuple)) else [None]
    for entry in entries:
        if not (isinstance(entry, (list, tuple)) and len(entry) == 2 and isinstance(entry[0], (list, tuple))):
            raise FrontendError("E013", f"expected a list of (shape, dtype), got {input_info!r}",
                                help='for example [((1, 3, 224, 224), "float32")]')  # fmt: skip
    return entries


def functional(exported_program: Any) -> Any:
    """The program without functions of functions and in-place operators.

    Raises FrontendError E012 and E013.
    """
    torch = require("torch")
    if not isinstance(exported_program, torch.export.ExportedProgram):
        raise FrontendError("E013", f"expected a torch.export.ExportedProgram, got {type(exported_program).__name__}",
                            help="export the model first: torch.export.export(model, args)")  # fmt: skip
    enter_rows()
    refuse_other_kinds(exported_program)
    exported_program = without_grad_modes(exported_program)
    exported_program = _merge_aliased_inputs(exported_program)
    parts = [m for m in exported_program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    targets = {n.target for part in parts for n in part.graph.nodes if n.op == "call_function"}
    in_parts = torch.utils._python_dispatch.is_traceable_wrapper_subclass  # as weights of torchao in few bits
    whole = not any(
        [in_parts(v) for v in (*exported_program.state_dict.values(), *exported_program.constants.values())]
    )
    unknown = (torch._ops.HigherOrderOperator, FunctionType)
    if not whole or any([isinstance(t, unknown) for t in targets if not _on_sizes(t)]):
        exported_program = _decomposed(exported_program)
    if not any([is_mutable(n.target) for n in exported_program.graph.nodes]):
        return exported_program
    return functionalize_writes(exported_program) or _decomposed(exported_program)


def _on_sizes(target: Any) -> bool:
    """True for a torch function of sizes, as ``torch.sym_max``, which the importer reads from what torch inferred."""
    name = str(getattr(target, "__name__", ""))
    return name.startswith("sym_") and getattr(require("torch"), name, None) is target


def _merge_aliased_inputs(exported_program: Any) -> Any:
    """A tensor that the model holds as a buffer and as an attribute, as static caches do, becomes one input of the program.

    torch takes the attribute for a constant, and decomposes no program in which one that is written to shares memory with a buffer.
    """
    torch = require("torch")
    inputs = [n.name for n in exported_program.graph.nodes if n.op == "placeholder"]
    tensors = {**exported_program.constants, **exported_program.state_dict}
    strided = {k: v for k, v in tensors.items() if isinstance(v, torch.Tensor) and v.layout is torch.strided}
    dense = {k: v for k, v in strided.items() if torch._C._has_storage(v) and v.numel()}
    buffers: dict[Any, str] = {}
    doubles: dict[str, tuple[str, str]] = {}
    for name, spec in zip(inputs, exported_program.graph_signature.input_specs):
        key = memory_key(dense[spec.target]) if spec.target in dense else None
        if key is not None and spec.kind.name == "BUFFER":
            buffers[key] = name
        elif key in buffers and spec.kind.name == "CONSTANT_TENSOR":
            doubles[name] = (buffers[key], spec.target)
    if not doubles:
        return exported_program
    graph, signature = copied(exported_program)
    nodes = {node.name: node for node in graph.nodes}
    for name, (buffer, _) in doubles.items():
        nodes[name].replace_all_uses_with(nodes[buffer])
        graph.erase_node(nodes[name])
    signature.input_specs = [s for s in signature.input_specs if getattr(s.arg, "name", "") not in doubles]
    removed = {target for _, target in doubles.values()}
    constants = {k: v for k, v in exported_program.constants.items() if k not in removed}
    return with_graph(exported_program, graph, signature, constants)


def _refuse_views(exported_program: Any) -> None:
    """Raise FrontendError E970 for tensors of a model that share memory in part: torch decomposes no program that writes to one."""
    torch = require("torch")
    tensors = [(k, v) for k, v in exported_program.state_dict.items() if isinstance(v, torch.Tensor)]
    dense = [(k, v) for k, v in tensors if v.layout is torch.strided and v.numel()]
    for (name, value), (other, second) in itertools.combinations(dense, 2):
        if memory_key(value) != memory_key(second) and overlap(span(value), span(second)):
            raise FrontendError("E970", f"{name} and {other} share memory, and the model writes to its tensors",
                                help="keep one of them, and make the other in forward as a view of it")  # fmt: skip


def _decomposed(exported_program: Any) -> Any:
    """The program traced again: without functions of functions (as of ``vmap``) and writes. Raises FrontendError E012, E016."""
    refuse_uncovered(exported_program)
    try:
        with _TRACING, quiet(), inferable(require("torch")):
            return exported_program.run_decompositions({})
    except Exception as error:  # torch raises errors of many unrelated classes
        _refuse_views(exported_program)
        words = str(error).strip()
        first = (words.splitlines() or [""])[0]
        named = re.search(r"While executing %(\w+)", words)
        parts = [m for m in exported_program.graph_module.modules() if hasattr(m, "graph")]
        node = next((n for m in parts for n in m.graph.nodes if named and n.name == named[1]), None)
        span = traced_line(words, module_path(node)) if node is not None else None
        hint = next(hint for words, hint in _HINTS_OF_WRITES if words in first)
        raise FrontendError(
            "E016", f"torch cannot decompose the exported program: {type(error).__name__}: {first}", span, help=hint
        ) from error


_HINTS_OF_WRITES = (
    ("internal overlap", "several elements of this view are one number in memory: write to a clone of it"),
    ("Cannot view a tensor", "torch changes the order in memory with a write: write through slices in place of split parts, or use "
     "reshape after it"),
    ("as_strided() is non-compositional", "write through slices, or to the tensor itself: torch follows no views of as_strided()"),
    ("", "torch.func.grad and its kin do not survive torch.export; torch.autograd.grad in forward does"),
)  # fmt: skip
"""Advice where a program cannot be traced again, by words of torch's message."""
