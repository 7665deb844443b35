import builtins
from collections.abc import Callable as _Function, Sequence
from contextlib import AbstractContextManager
from typing import Any as Any, TypeVar, overload

from ..ir import Function

_F = TypeVar("_F", bound=_Function[..., Any])

class _Value:
    """A value of a graph function."""

    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __neg__(self) -> Any: ...
    def __lt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __call__(self, *args: Any) -> Any: ...

class Tensor(_Value):
    """The type of tensors: ``R.Tensor((n, 4), "float32")``."""

    def __new__(cls, shape: Any = None, dtype: Any = None, vdevice: Any = None, ndim: builtins.int = -1) -> Any: ...

class Shape(_Value):
    """The type of shape values: ``R.Shape([n, 4])``."""

    def __new__(cls, values: Any = None, ndim: builtins.int = -1) -> Any: ...

class Prim(_Value):
    """The type of scalars: ``R.Prim("int64")``."""

    def __new__(cls, dtype: Any = None, value: Any = None) -> Any: ...

class Object(_Value):
    """Any value."""

    def __new__(cls) -> Any: ...

class Tuple(_Value):
    """The type of tuples: ``R.Tuple(a, b)``."""

    def __new__(cls, *fields: Any) -> Any: ...

class Callable(_Value):
    """The type of functions: ``R.Callable((a, b), result)``."""

    def __new__(
        cls, params: Any = None, ret: Any = None, purity: builtins.bool = ..., derive_func: Any = None
    ) -> Any: ...

@overload
def function(fn: _Function[..., Any]) -> Function: ...
@overload
def function(
    *, pure: builtins.bool | None = None, private: builtins.bool = False, check_well_formed: builtins.bool = True
) -> _Function[[_Function[..., Any]], Function]:
    """Read the function as a graph function."""

def macro(fn: _F | None = None, *, hygienic: builtins.bool = True) -> Any:
    """A macro of graph functions: its calls are replaced by its body."""

def dataflow() -> AbstractContextManager[Any]:
    """``with R.dataflow():`` bindings without effects."""

def output(*values: Any) -> None:
    """Names of a dataflow block visible after it."""

def func_attr(attrs: dict[builtins.str, Any]) -> None:
    """Attributes of the function."""

def match_cast(value: Any, ty: Any, /) -> Any:
    """Check the value against a type at run time; symbols of the type are defined by it."""

def const(value: Any, dtype: Any = None) -> Any:
    """A constant tensor."""

def const_bytes(data: builtins.str, shape: Any, dtype: Any) -> Any:
    """A constant tensor from base64 text."""

def shape(values: Sequence[Any]) -> Any:
    """A shape value: ``R.shape([n, 4])``."""

def tuple(*fields: Any) -> Any:
    """A tuple."""

def prim_value(value: Any) -> Any:
    """A scalar value: ``R.prim_value(n + 1)``."""

def str(value: builtins.str) -> Any:
    """A text value."""

def dtype(value: builtins.str) -> Any:
    """A data type value."""

def ExternFunc(name: builtins.str, ty: Any = None) -> Any:
    """A registered function by name."""

def cpu(index: builtins.int = 0) -> Any:
    """A device."""

def cuda(index: builtins.int = 0) -> Any:
    """A device."""

def gpu(index: builtins.int = 0) -> Any:
    """A device."""

def device(dev_type: builtins.str | builtins.int, dev_id: builtins.int = 0) -> Any:
    """A device by the name or the DLPack number of its kind, and an index."""

def call_dps(func: Any, args: Any, out_ty: Any, tir_vars: Any = None) -> Any:
    """Call of a tensor program of the module or of a registered function that writes into outputs of type ``out_ty``:
    ``R.call_dps(f, (x, w), R.Tensor((n, m), "float32"))``."""

def call_inplace(func: Any, args: Any, out_ty: Any, inplace_indices: Any, tir_vars: Any = None) -> Any:
    """As call_dps, but output i takes the memory of argument ``inplace_indices[i]`` (-1: new memory)."""

def call_dps_with_grad(
    func: Any, args: Any, out_ty: Any, tir_vars: Any = None, *, te_grad_name: builtins.str, te_grad_kwargs: Any = None
) -> Any:
    """As call_dps, naming the registered gradient of the program."""

def call_packed(func: Any, *args: Any, ty_args: Any = (), **attrs: Any) -> Any:
    """Call of a registered function; it may have effects."""

def call_pure_packed(func: Any, *args: Any, ty_args: Any = (), **attrs: Any) -> Any:
    """Call of a registered function without effects."""

def call_inplace_packed(func: Any, *args: Any, inplace_indices: Any, ty_args: Any = (), **attrs: Any) -> Any:
    """Call of a registered function that changes only the arguments named."""

def call_py_func(func: Any, *args: Any, ty_args: Any = ()) -> Any:
    """Call of a Python function of the module by name."""

def call_builtin_with_ctx(func: Any, args: Any, *, ty_args: Any = ()) -> Any:
    """Call of a registered function that receives a handle of the VM as first argument."""

def invoke_closure(closure: Any, args: Any, ty_args: Any = ()) -> Any:
    """Call of a closure; it may have effects."""

def invoke_pure_closure(closure: Any, args: Any, ty_args: Any = ()) -> Any:
    """Call of a closure without effects."""

def vdevice(target: Any = "llvm", id: builtins.int = 0, scope: builtins.str = "global") -> Any:
    """``I.vdevice``: a virtual device."""

def dummy_global_info() -> Any:
    """``I.dummy_global_info``: an entry without meaning."""
