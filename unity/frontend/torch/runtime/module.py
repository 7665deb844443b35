"""The compiled code of a torch model as a module: the parameters, buffers and submodules are those of the model it was made of;
changes to them or to the program (another dtype or device, training, pickling) are refused in words.

Not here: calls (``model.py``). Invariant: the model is not kept alive here; once it is gone, as for a loaded file, there are no
parameters, and the buffers are the tensors the program writes to.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

from ....support.errors import ArtifactError, FrontendError
from ....support.optional import require

torch: Any = require("torch")
_TRAINS = 'train the torch model itself, or torch.compile(model, backend="unity"), which has gradients; to compute no gradients: '


class _OfModel:
    """A table of a module (``_parameters``, ...): the one of the model it was made of, or what stands in for it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            return self
        model = module.original()
        if model is not None:
            return getattr(model, self.name)
        own = module.__dict__.get("state", {})  # not there yet while the module is made
        return own if self.name == "_buffers" else set() if self.name.endswith("_set") else {}


class CompiledModule(torch.nn.Module):  # type: ignore[misc]
    """A module without code of its own: ``state`` holds the tensors its program writes to, ``forward`` is the subclass's."""

    state: dict[str, Any]
    _sealed = False
    """True when all attributes of its own are there, whose names parts of the model may have as well."""
    _parameters = _OfModel()
    _buffers = _OfModel()
    _modules = _OfModel()
    _non_persistent_buffers_set = _OfModel()

    def __init__(self) -> None:
        super().__init__()
        for name, value in vars(CompiledModule).items():
            if isinstance(value, _OfModel):
                del self.__dict__[name]
        self.training = False
        self.origin: Callable[[], Any] = _nothing

    def made_of(self, model: Any) -> None:
        """Say which torch module or ``ExportedProgram`` this one was compiled from."""
        self.origin = ref(model)
        if isinstance(model, torch.nn.Module):
            self.training = model.training and any([p.requires_grad for p in model.parameters()])

    def seal(self) -> None:
        """Say that all attributes are there: from now on a new one must not have the name of a part."""
        self._sealed = True

    def original(self) -> Any:
        """The torch module this one was compiled from; None where it is gone, or was none."""
        found = self.__dict__.get("origin", _nothing)()
        return found if isinstance(found, torch.nn.Module) else None

    def _required(self) -> Any:
        model = self.original()
        if model is None:
            raise FrontendError("E664", "the torch model behind this compiled one is not here: it has the parameters",
                                help="keep the model you compiled; a loaded file has none")  # fmt: skip
        return model

    def __getattr__(self, name: str) -> Any:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                return table[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (torch.nn.Parameter, torch.nn.Module)):
            self._refuse_parts(name)
        self._keep_part(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._keep_part(name)
        object.__delattr__(self, name)

    def _keep_part(self, name: str) -> None:
        """Refuse to change what belongs to the torch model."""
        if not self._sealed or name in self.__dict__:
            return
        if any([name in table for table in (self._parameters, self._buffers, self._modules)]):
            self._refuse_parts(name)

    def _refuse_parts(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Raises FrontendError E664: they are those of the torch model."""
        raise FrontendError("E664", f"the parts of a compiled model are those of its torch model: {name} is not changed here",
                            help="change the torch model; then f.refresh(), or compile it again")  # fmt: skip

    register_parameter = register_buffer = register_module = add_module = _refuse_parts

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Those of the torch model, the very tensors. Raises FrontendError E664 where it is gone."""
        return self._required().named_parameters(*args, **kwargs)  # type: ignore[no-any-return]

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the torch model. Raises FrontendError E664 where it is gone."""
        return self._required().state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Into the torch model; ``refresh`` then takes the weights. Raises FrontendError E664 where it is gone."""
        return self._required().load_state_dict(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        """``train(False)`` is ``eval``: gradients are not asked for. Raises FrontendError E663 for ``train()``."""
        if mode:
            raise FrontendError(
                "E663", "a compiled model has no gradients and is not trained", help=f"{_TRAINS}f.eval()"
            )
        self.training = False
        return self

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        """Behind ``to``, ``float``, ``half``, ``cpu``, ``cuda``, ``type``: nothing where all is so. Raises FrontendError E664."""
        for name in self._kinds():
            kind = getattr(torch, name, None)
            try:
                moved = None if kind is None else fn(torch.empty(0, dtype=kind))
            except (RuntimeError, AssertionError) as error:  # no such device
                raise _fixed(str(error)) from error
            if moved is not None and (moved.dtype is not kind or moved.device.type != "cpu"):
                raise _fixed(
                    f"{name} on cpu cannot become {str(moved.dtype).removeprefix('torch.')} on {moved.device.type}"
                )
        return self

    def _kinds(self) -> set[str]:
        raise NotImplementedError

    def register_full_backward_hook(self, *args: Any, **kwargs: Any) -> Any:
        """Raises FrontendError E663: there are no gradients."""
        return self.train()

    register_full_backward_pre_hook = register_backward_hook = register_full_backward_hook

    def __prepare_scriptable__(self) -> Any:
        """Called by ``torch.jit.script``. Raises ArtifactError E661."""
        raise ArtifactError("E661", "a compiled model is machine code, which torch.jit.script cannot read",
                            help="torch.jit.script the torch model; f.save(path) keeps the compiled one")  # fmt: skip

    def __copy__(self) -> Any:
        copied = type(self).__new__(type(self))
        copied.__dict__.update({k: v.copy() if type(v) is OrderedDict else v for k, v in self.__dict__.items()})
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ArtifactError(
            "E661", "a compiled model is machine code and cannot be pickled",
            help="f.save(path) and unity.load_model(path); the weights: torch.save(f.state_dict(), path)",
        )  # fmt: skip


def _nothing() -> None:
    return None


def _fixed(what: str) -> FrontendError:
    return FrontendError("E664", f"a compiled model keeps its dtype and device: {what}",
                         help="change the torch model and compile it again")  # fmt: skip


class _NoGradient(torch.autograd.Function):  # type: ignore[misc]
    """Gives results an origin in torch's graph that says what to do when gradients are asked for."""

    @staticmethod
    def forward(ctx: Any, source: Any, results: tuple[Any, ...]) -> Any:
        """``source``: a tensor that requires a gradient; the results, which do then."""
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise FrontendError("E663", "backward() reached the result of a compiled model, which has no gradients",
                            help=f"{_TRAINS}f.eval(), detach() its inputs, or call it under torch.no_grad()")  # fmt: skip


def without_gradients(source: Any, results: list[Any]) -> list[Any]:
    """Results whose ``backward`` raises FrontendError E663; ``source`` requires a gradient. What is not a tensor stays."""
    indices = [k for k, value in enumerate(results) if isinstance(value, torch.Tensor) and not value.requires_grad]
    if indices:
        for index, value in zip(indices, _NoGradient.apply(source, tuple([results[k] for k in indices]))):
            results[index] = value
    return results
