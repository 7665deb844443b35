"""``TorchModel``: a compiled torch model that runs: a callable that takes and returns torch tensors, nested as the model's own.

Execution side: needs no compiler. Not here: how a model is compiled (`frontend/torch/compiled_model.py`), the data a file holds of
it (``interface.py``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ....ffi.calls.check import Refused
from ....ffi.device import CPU
from ....ffi.tensor import Tensor
from ....support.errors import ArtifactError, FrontendError, UnityError, VMError
from ....support.schema import Misfit
from ....vm.executable.executable import Executable
from ....vm.load import load
from ....vm.out_calls import allocates_results, results_of
from ....vm.virtual_machine import VirtualMachine
from .arguments import arguments_text, overlap, rearranged, refuse_tensor, span
from .classes import AllowedClasses
from .interface import Interface, check_program, read_interface, write_interface
from .memory import CopiedWeight, addresses, as_pairs, copy_if_aliased, is_on_device, on_host
from .module import CompiledModule, torch, without_gradients
from .operators import PREFIX, register_torch_operator
from .structures import constant_difference, register_classes


class TorchModel(CompiledModule):
    """A compiled torch model: call it as the model. ``state``: the tensors it writes to, by their names in the model.

    Forward hooks are called, but for those that torch calls for every module of the process.
    """

    def __init__(
        self, executable: Executable, interface: Interface, state: dict[str, Any], exec_mode: str = "native"
    ) -> None:
        super().__init__()
        self.executable = executable
        self.interface = interface
        self.state = state
        self._exec_mode = exec_mode
        self._place = str(executable.options.get("device", CPU.kind))
        """The kind of devices that the program's tensors lie on."""
        self._torch = torch
        self._tree = torch.utils._pytree
        self._in_spec, self._out_spec = interface.in_spec, interface.out_spec
        self._fixed, self._outputs, self._floats = interface.fixed, interface.outputs, interface.floats
        self._twice = [first for computed, first in interface.outputs if computed]
        self._bind_state()
        self._single = bool(self._out_spec.is_leaf())
        self._link()
        self.copied: Sequence[CopiedWeight] = ()
        self.file = ""
        """The file it was loaded from."""

    def _link(self) -> None:
        """A virtual machine for the constants as they are now; that of a device is made for the first call, for there may be none
        where a model is compiled and saved."""
        self._vm: VirtualMachine | None = None
        self._silent: Callable[..., Any] | None = None
        self._apart = False
        """True if every result is memory of its own."""
        self._weights = {c.data_ptr for c in self.executable.program.constants}
        if self._place == CPU.kind:
            self._linked()
        else:
            self._plain = -1
            self._direct_calls(-1)

    def _linked(self) -> VirtualMachine:
        if self._vm is None:
            self._vm = VirtualMachine(self.executable, exec_mode=self._exec_mode)
            self._silent = self._vm.silent("main")
            self._apart = allocates_results(self.executable.program, "main")
            self._plain = self._plain_count()
            self._direct_calls(-1 if self._forward_hooks or self._forward_pre_hooks else self._plain)
        return self._vm

    @property
    def vm(self) -> VirtualMachine:
        """The virtual machine of the program. Raises DeviceError E734 where its device is not here."""
        return self._linked()

    @property
    def _main(self) -> Callable[..., Any]:
        return self._linked()["main"]

    def _plain_count(self) -> int:
        """Number of positional tensors when the model takes nothing else, changes nothing, and gives new tensors flat;
        else -1."""
        arguments, *named = self._in_spec.children()
        simple = all([child.is_leaf() for child in arguments.children()]) and not any([n.children() for n in named])
        outputs = self._out_spec.is_leaf() or (
            (self._out_spec.type is tuple or self._out_spec.type.__module__ == "torch.return_types")
            and all([child.is_leaf() for child in self._out_spec.children()])
        )
        computed = all([computed for computed, _ in self._outputs])
        paired = self.interface.complex_inputs or self.interface.complex_outputs
        changed = self._updates or any(self._floats) or any([fixed for fixed, _ in self._fixed]) or paired
        own = self._silent is not None and self._apart
        return len(arguments.children()) if simple and outputs and computed and not changed and own else -1

    def _direct_calls(self, count: int) -> None:
        """Let calls with ``count`` tensors go straight to the program; -1: none do, for there may be hooks."""
        share = self._torch.from_numpy if self.interface.shared and self._place == CPU.kind else None
        self._direct = (count, self._silent, self._single, share)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A model with a state of its own; the program, which calls do not change, is shared."""
        result: Any = copy.copy(self)
        memo[id(self)] = result
        result.state = copy.deepcopy(self.state, memo)
        result._bind_state()
        return result

    def _bind_state(self) -> None:
        self._updates = [t if isinstance(t, int) else self.state[t] for t in self.interface.updates]
        self._state = [t for t in self._updates if not isinstance(t, int)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on torch tensors; ``out=`` (unless the model has an argument of that name) is what the results are written into.

        ``backward`` of results is an error (E663) in place of gradients, where an input requires them or ``training`` is set.
        Raises FrontendError E017 for another structure, E660 where a weight was changed after the model was compiled, VMError for
        tensors that do not fit.
        """
        own = self.__dict__  # what torch looks for in a module's tables takes longer
        count, main, single, share = own["_direct"]
        for weight in own["copied"]:
            if weight.counter._version != weight.version:
                raise weight.changed()
        if len(args) == count and not kwargs:
            wanted = own["training"]
            try:
                for value in args:
                    if value.requires_grad:
                        wanted = True
            except AttributeError:
                return self.forward(*args)  # numpy arrays
            try:
                results = main(*args)
            except Refused:
                pass  # strides, or a mistake: the general way makes compact tensors and explains
            else:
                if wanted and torch.is_grad_enabled():
                    result = self._traced(args, [value.torch() for value in results])
                    return result[0] if single else self._out_spec.type(result)
                if single:
                    return share(results[0].numpy()) if share else results[0].torch()
                return self._out_spec.type([value.torch() for value in results])
        if self._forward_hooks or self._forward_pre_hooks:
            return super().__call__(*args, **kwargs)
        if count != self._plain:  # hooks were removed
            self._direct_calls(self._plain)
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """A call without hooks."""
        own = self.interface.names, self._in_spec.child(1).context
        out = None if any(["out" in names for names in own]) else kwargs.pop("out", None)
        return self._general(args, kwargs, out)

    def register_forward_hook(self, *args: Any, **kwargs: Any) -> Any:
        """As of any module."""
        self._direct_calls(-1)
        return super().register_forward_hook(*args, **kwargs)

    def register_forward_pre_hook(self, *args: Any, **kwargs: Any) -> Any:
        """As of any module."""
        self._direct_calls(-1)
        return super().register_forward_pre_hook(*args, **kwargs)

    def refresh(self) -> TorchModel:
        """Take changed weights; of a loaded model that cannot be. Raises FrontendError E662."""
        raise FrontendError("E662", "a loaded model cannot take other weights than those in its file",
                            help="compile the torch model again")  # fmt: skip

    def _traced(self, leaves: Sequence[Any], results: list[Any]) -> list[Any]:
        """Results whose ``backward`` says what to do where torch would have gradients of them."""
        sources = [leaf for leaf in leaves if isinstance(leaf, self._torch.Tensor) and leaf.requires_grad]
        if not sources and self.training:
            sources = [torch.empty(0, requires_grad=True)]
        return without_gradients(sources[0], results) if sources else results

    def _kinds(self) -> set[str]:
        """Names of the floats the program computes with, as far as its constants say."""
        found = {c.dtype for c in self.executable.program.constants}
        return {name for name in found if "float" in name} or {"float32"}

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None) -> Any:
        leaves, inputs = self._leaves(args, kwargs)
        self._refuse_shared(leaves)
        wanted = () if out is None else self._given(out)
        found = self._as_they_lie([leaf for _, leaf in inputs]) if out is None else None
        if found is None:
            given = {} if out is None else {"out": tuple([self._written(w) for w in wanted])}
            found = self._main(*self._converted(inputs), **given)
        taken = None if self._apart else self._weights | addresses([*leaves, *self._state])
        if self._place != CPU.kind and not any([is_on_device(self._place, leaf) for leaf in leaves]):
            found = on_host(found)
        found = tuple([f if w is None else w for f, w in zip_longest(found, wanted)])
        try:
            return self._result(found, leaves, taken, out is None)
        except UnityError:
            raise
        except Exception as error:
            if not self.file:
                raise
            raise ArtifactError(
                "E805", f"{self.file}: the results do not fit the description of the model: {error}"
            ) from error

    def _as_they_lie(self, inputs: list[Any]) -> Any:
        """The results for inputs that kernels read where they are; None where they need more care, or an explanation."""
        if self._silent is None or self.interface.complex_inputs or self.interface.complex_state:
            return None
        try:
            return self._silent(*inputs, *self._state)
        except Refused:
            return None

    def _result(self, found: Any, leaves: list[Any], taken: set[int] | None, traced: bool) -> Any:
        """The results of the program, nested as the model's result, with the tensors that the model writes to written."""
        results = self._copy_aliased(found[len(self._updates) :], taken)
        with self._torch.no_grad():
            for target, value in zip(self._updates, found):
                written = leaves[target] if isinstance(target, int) else target
                written.copy_(self._torch.view_as_complex(value.torch()) if written.is_complex() else value.torch())
        for position in self.interface.complex_outputs:
            results[position] = self._torch.view_as_complex(results[position])
        rest = iter([v.item() if number else v for v, number in zip(results, self._floats)])
        result = [next(rest) if computed else value for computed, value in self._outputs]
        if traced and torch.is_grad_enabled():
            result = self._traced(leaves, result)
        return self._tree.tree_unflatten(result, self._out_spec)

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[tuple[int, Any]]]:
        """The leaves of a call's arguments, and those that ``main`` takes with their positions. Raises FrontendError E017."""
        leaves, spec = self._tree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            leaves = self._rearranged(args, kwargs, spec)
        inputs = []
        for position, (leaf, (fixed, value)) in enumerate(zip(leaves, self._fixed)):
            if not fixed:
                inputs.append((position, leaf))
            elif leaf is not value and (isinstance(leaf, self._torch.Tensor) or leaf != value):
                raise FrontendError("E017", f"an input was exported as the constant {value!r}, got {leaf!r}",
                                    help="compile again for this value")  # fmt: skip
        return leaves, inputs

    def _converted(self, inputs: list[tuple[int, Any]]) -> list[Any]:
        """The arguments of ``main`` for inputs with their positions, and the state."""
        return [*[self._input(leaf, position) for position, leaf in inputs], *[self._compact(t) for t in self._state]]

    def _given(self, out: Any) -> tuple[Any, ...]:
        """The ``out=`` of each result of ``main``. Raises VMError E982 where it has another structure than the results."""
        leaves, spec = self._tree.tree_flatten(out)
        if spec != self._out_spec:
            raise VMError(
                "E982", f"out= is {spec}, the results are {self._out_spec}", help="give it as the model returns it"
            )
        wanted = [leaf for leaf, (computed, _) in zip(leaves, self._outputs) if computed]
        for position in self.interface.complex_outputs:
            wanted[position] = self._torch.view_as_real(wanted[position])
        return (*[None] * len(self._updates), *wanted)

    def _written(self, value: Any) -> Any:
        """A tensor of ``out=`` as the program writes to it: one of the host as an array, which is copied back from a device."""
        here = self._place == CPU.kind or value is None or is_on_device(self._place, value)
        return value if here or not isinstance(value, self._torch.Tensor) else Tensor.from_torch(value).numpy()

    def _rearranged(self, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any) -> list[Any]:
        """Leaves of a call that gives by name what was traced by place, or the other way round. Raises FrontendError E017."""
        register_classes((args, kwargs))
        moved = rearranged(self.interface.names, self._in_spec, args, kwargs)
        leaves, found = self._tree.tree_flatten(moved if moved is not None else (args, kwargs))
        if found != self._in_spec:
            constant = constant_difference(found, self._in_spec)
            if constant is not None:
                raise FrontendError("E017", f"the inputs hold another constant than those the model was exported for: {constant}",
                                    help="compile again for this value, or keep it in a tensor")  # fmt: skip
            raise FrontendError("E017", f"the inputs are {arguments_text(spec)}, the model was exported for "
                                f"{arguments_text(self._in_spec)}", help="pass the inputs as in example_inputs")  # fmt: skip
        return list(leaves)

    def present(self) -> list[tuple[str, Any]]:
        """The weights as a torch model has them now, by name; none of a loaded model, whose weights are its own."""
        return []

    def _refuse_shared(self, leaves: list[Any]) -> None:
        """Raise FrontendError E970 where an input or a buffer the model writes to shares memory with another input, or an input
        with a weight."""
        if not self._updates:
            return
        inputs = [(span(leaf), n) for n, leaf in enumerate(leaves) if isinstance(leaf, self._torch.Tensor)]
        writes_inputs = any([isinstance(name, int) for name in self.interface.updates])
        weights = [(span(weight), name) for name, weight in self.present()] if writes_inputs else []
        for name, target in zip(self.interface.updates, self._updates):
            mine = span(leaves[target] if isinstance(target, int) else target)
            for theirs, position in inputs:
                if position != name and overlap(mine, theirs):
                    written = name if isinstance(name, str) else f"input {self._path(name)}"
                    raise FrontendError(
                        "E970", f"the model writes to {written}, which shares memory with input {self._path(position)}",
                        help="pass a copy: .clone()",
                    )  # fmt: skip
            for theirs, weight in weights:
                if isinstance(name, int) and overlap(mine, theirs):
                    raise FrontendError(
                        "E970", f"the model writes to input {self._path(name)}, which shares memory with its weight {weight}",
                        help="pass a copy: .clone()",
                    )  # fmt: skip

    def _input(self, leaf: Any, position: int) -> Any:
        if isinstance(leaf, self._torch.Tensor):
            devices = ("cpu",) if self._place == CPU.kind else ("cpu", self._place)
            if (
                leaf.layout is not self._torch.strided or leaf.device.type not in devices or leaf.is_quantized or leaf.is_nested
            ):  # fmt: skip
                refuse_tensor(self._torch, f"the input {self._path(position)}", leaf, devices)
            wanted = position in self.interface.complex_inputs
            if leaf.is_complex() != wanted:
                kind, other = ("real", "complex") if wanted else ("complex", "real")
                name = self._path(position)
                raise FrontendError("E015", f"the input {name} is {kind}, the model was compiled for {other} numbers",
                                    help="compile it for an example of this kind")  # fmt: skip
            return self._compact(leaf)
        return leaf

    def _compact(self, value: Any) -> Tensor:
        """A torch tensor as kernels read it, where they do."""
        result = self._plain_tensor(value)
        return result if self._place == CPU.kind else self._linked().placement.value(result)

    def _plain_tensor(self, value: Any) -> Tensor:
        """A torch tensor as kernels read it, at no address between those of elements (on a device: of vectors)."""
        plain = as_pairs(value)
        result = Tensor.from_torch(plain)
        step = plain.element_size() if result.device.host_memory else result.device.memory.alignment
        return Tensor.from_torch(plain.clone()) if result.data_ptr % step else result

    def _path(self, position: int) -> str:
        """Name of an input by the place of its leaf: ``batch['mask'][0]``."""
        count = self._in_spec.num_leaves
        args, kwargs = self._tree.tree_unflatten(list(range(count)), self._in_spec)
        found = {}
        names = self.interface.names
        for name, value in [*zip([*names, *range(len(names), len(args))], args), *kwargs.items()]:
            for path, leaf in self._tree.tree_flatten_with_path(value)[0]:
                found[leaf] = f"{name}{self._tree.keystr(path)}"
        return found.get(position, str(position))

    def _copy_aliased(self, values: Any, taken: set[int] | None) -> list[Any]:
        """Results as torch has them: a copy where one would be an input, a weight or a result that torch does not give twice."""
        result: list[Any] = []
        for value, first in zip(values, self._twice):
            result.append(copy_if_aliased(value, taken) if first is None else result[first])
        return result

    def save(self, path: str | Path, source: bool = True) -> None:
        """Write the model to one file for ``unity.load_model``: weights as the program reads them, and the state as it is now.

        ``source`` as in ``Executable.save``. Raises ArtifactError E801, FrontendError E019 for classes among the inputs or results
        that cannot be written down, ArtifactError E809 for a name such as ``m.so``.
        """
        self.executable.model = write_interface(self.interface)
        self.executable.state = [self._plain_tensor(t.cpu()) for t in self._state]
        self.executable.save(path, source)

    def __repr__(self) -> str:
        main = self.executable.program.functions["main"]
        return f"{type(self).__name__}({', '.join([f'{name}: {kind}' for name, kind in main.params])}) -> {main.ret}"


def load_model(
    path: str | Path, trust: bool = True, exec_mode: str = "native", allow: Iterable[type] = ()
) -> TorchModel:
    """Load the model that ``TorchModel.save`` wrote to ``path``; it runs without the model's own code and without ``torch.export``.

    Needs torch (MissingExtraError E002), since the model takes and returns torch tensors; ``unity.load`` reads the same file
    without torch, as a program with flat arguments and results. Weights are mapped from the file; the state belongs to the model.
    Operators that run in torch are registered. ``trust``: as in ``unity.load``. ``exec_mode``: as in ``unity.compile``. ``allow``:
    classes of inputs and results that this process does not know yet. Raises ArtifactError E801 to E807.
    """
    executable = load(path, trust)
    if not executable.model:
        raise ArtifactError("E806", f"{path} holds a program, no torch model", help="load it with unity.load")
    main = executable.program.functions.get("main")
    if main is None:
        raise ArtifactError("E805", f"{path}: the program has no function main")
    gives = results_of(main, executable.program)
    interface = read_interface(executable.model, AllowedClasses(allow, str(path)))
    try:
        count = None if gives is None else 0 if gives[0] else len(gives[1])
        check_program(interface, len(main.params), count, len(executable.state))
    except Misfit as error:
        raise ArtifactError(
            "E805", f"{path}: the description of the model does not fit the program: {error}"
        ) from error
    names = [target for target in interface.updates if isinstance(target, str)]
    try:
        state = {name: Tensor(t.numpy().copy()).torch() for name, t in zip(names, executable.state)}
        state |= {name: torch.view_as_complex(state[name]) for name in interface.complex_state}
    except (RuntimeError, TypeError) as error:
        raise ArtifactError("E805", f"{path}: the state of the model is not valid: {error}") from error
    for entry in executable.program.table:
        if entry.kind == "packed" and entry.name.startswith(PREFIX):
            register_torch_operator(entry.name)
    result = TorchModel(executable, interface, state, exec_mode)
    result.file = str(path)
    result.seal()
    return result
