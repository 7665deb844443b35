import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar, overload

from ..ir import PrimFunc

_F = TypeVar("_F", bound=Callable[..., Any])

class _Value:
    """A scalar or pointer value of a tensor program."""

    def __new__(cls, value: Any = ..., *, is_size_var: builtins.bool = ...) -> Any: ...
    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __floordiv__(self, other: Any) -> Any: ...
    def __rfloordiv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __rmod__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __rpow__(self, other: Any) -> Any: ...
    def __lshift__(self, other: Any) -> Any: ...
    def __rshift__(self, other: Any) -> Any: ...
    def __and__(self, other: Any) -> Any: ...
    def __or__(self, other: Any) -> Any: ...
    def __xor__(self, other: Any) -> Any: ...
    def __neg__(self) -> Any: ...
    def __invert__(self) -> Any: ...
    def __lt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...
    def __index__(self) -> builtins.int: ...
    def astype(self, dtype: builtins.str) -> Any:
        """The value in another data type."""

class Frame(AbstractContextManager[Any]):
    """What ``with`` takes; also a statement by itself, for the rest of its block."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> builtins.bool | None: ...

class Buffer:
    """A buffer: ``T.Buffer((n, 4), "float32")`` is also the type of a parameter."""

    def __new__(
        cls,
        shape: Any,
        dtype: Any = "float32",
        data: Any = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: builtins.str = "global",
        align: builtins.int = 64,
        offset_factor: builtins.int = 0,
    ) -> Any: ...
    data: Any
    shape: Any
    strides: Any
    elem_offset: Any
    dtype: Any
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def vload(self, begin: Any, dtype: Any = None, predicate: Any = None) -> Any:
        """A vector loaded from consecutive elements."""
    def vstore(self, begin: Any, value: Any, predicate: Any = None) -> None:
        """A vector stored to consecutive elements."""
    def access_ptr(
        self,
        access_mask: Any,
        ptr_type: Any = "handle",
        content_lanes: builtins.int = 1,
        offset: Any = 0,
        extent: Any = None,
    ) -> Any:
        """Pointer to the memory, with what is read ("r") and written ("w")."""
    def scope(self) -> builtins.str:
        """Memory the buffer lies in."""

@overload
def prim_func(fn: Callable[..., Any]) -> PrimFunc: ...
@overload
def prim_func(
    *, private: builtins.bool = False, check_well_formed: builtins.bool = True, s_tir: builtins.bool = True
) -> Callable[[Callable[..., Any]], PrimFunc]:
    """Read the function as a tensor program."""

def macro(fn: _F | None = None, *, hygienic: builtins.bool = True) -> Any:
    """A macro of tensor programs: its calls are replaced by its body."""

def inline(fn: _F) -> _F:
    """A macro whose free names are those of the place it is called from."""

# ---- blocks

class axis:
    """Axes of a block."""

    @staticmethod
    def spatial(dom: Any, binding: Any = None, dtype: Any = None) -> Any:
        """A spatial axis: ``vi = T.axis.spatial(n, i)``."""
    @staticmethod
    def reduce(dom: Any, binding: Any = None, dtype: Any = None) -> Any:
        """A reduction axis."""
    @staticmethod
    def scan(dom: Any, binding: Any = None, dtype: Any = None) -> Any:
        """A scan axis."""
    @staticmethod
    def opaque(dom: Any, binding: Any = None, dtype: Any = None) -> Any:
        """An opaque axis."""
    @staticmethod
    def remap(kinds: builtins.str, bindings: Sequence[Any], dtype: Any = None) -> Any:
        """``vi, vj, vk = T.axis.remap("SSR", [i, j, k])``: one axis per loop, with the loop's domain."""
    S = spatial
    R = reduce
    O = opaque

def block(name: builtins.str = "", no_realize: builtins.bool = False) -> Frame:
    """``with T.block("name"):`` a block of computation with its axes."""

def init() -> Frame:
    """``with T.init():`` what a reduction block does at the first step."""

def where(predicate: Any) -> None:
    """The block runs only where this holds."""

def reads(*regions: Any) -> None:
    """Regions the block reads: ``T.reads(A[vi, 0:n])``."""

def writes(*regions: Any) -> None:
    """Regions the block writes."""

def block_attr(attrs: dict[builtins.str, Any]) -> None:
    """Annotations of the block."""

# ---- loops

def grid(*extents: Any, dtype: Any = None) -> Iterator[Any]:
    """``for i, j in T.grid(n, m):`` a nest of serial loops."""

def serial(
    start: Any, stop: Any = None, *, annotations: dict[builtins.str, Any] | None = None, step: Any = None
) -> Iterator[Any]:
    """A serial loop."""

def parallel(
    start: Any, stop: Any = None, *, annotations: dict[builtins.str, Any] | None = None, step: Any = None
) -> Iterator[Any]:
    """A loop whose steps run on several cores."""

def vectorized(
    start: Any, stop: Any = None, *, annotations: dict[builtins.str, Any] | None = None, step: Any = None
) -> Iterator[Any]:
    """A loop that becomes vector instructions."""

def unroll(
    start: Any, stop: Any = None, *, annotations: dict[builtins.str, Any] | None = None, step: Any = None
) -> Iterator[Any]:
    """A loop whose steps are written out."""

unrolled = unroll

def thread_binding(
    start: Any, stop: Any = None, thread: builtins.str = ..., *, annotations: dict[builtins.str, Any] | None = None
) -> Iterator[Any]:
    """A loop bound to a thread axis such as ``"threadIdx.x"``."""

# ---- buffers and memory

def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: builtins.str = "global",
    align: builtins.int = 64,
    offset_factor: builtins.int = 0,
) -> Any:
    """The buffer of a parameter, or a view of a region in a block; symbols in its shape are defined by it."""

def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: builtins.str = "global",
    align: builtins.int = 64,
    offset_factor: builtins.int = 0,
    annotations: dict[builtins.str, Any] | None = None,
) -> Any:
    """New memory: of the block where it stands directly in one, of the statements after it elsewhere."""

def allocate_buffer(shape: Any, dtype: Any = "float32", scope: builtins.str = "global", **options: Any) -> Any:
    """New memory for the statements after it, also directly in a block."""

def alloc_local(shape: Any, dtype: Any = "float32", **options: Any) -> Any:
    """Memory of one thread."""

def alloc_shared(shape: Any, dtype: Any = "float32", **options: Any) -> Any:
    """Memory shared by the threads of a block."""

def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: builtins.str = "global",
    align: builtins.int = 64,
    offset_factor: builtins.int = 0,
) -> Any:
    """A buffer over memory that exists: ``T.decl_buffer((4,), "float32", data=A.data)``."""

def alloc_const(data: Any, dtype: Any = None, shape: Any = None) -> Any:
    """A constant buffer from numbers."""

def alloc_const_bytes(data: builtins.str, shape: Any, dtype: Any) -> Any:
    """A constant buffer from base64 text."""

def allocate(
    extents: Any, dtype: Any, scope: builtins.str = "global", condition: Any = True, annotations: Any = None
) -> Any:
    """Earlier form of ``T.alloc_buffer``."""

def allocate_const(data: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Earlier name of ``T.alloc_const``."""

def buffer_store(buffer: Any, value: Any, indices: Any, predicate: Any = None) -> None:
    """A store written as a call; ``buffer[indices] = value`` is the usual form."""

# ---- attributes and threads

def func_attr(attrs: dict[builtins.str, Any]) -> None:
    """Attributes of the function."""

def attr(node: Any, attr_key: builtins.str = ..., value: Any = ...) -> Frame:
    """An attribute of the statements below."""

def hint(name: builtins.str, **values: Any) -> Frame:
    """A hint about the statements below."""

def env_thread(thread_tag: builtins.str, dtype: Any = "int64") -> Any:
    """A thread axis."""

def launch_thread(thread: Any, extent: Any) -> Frame:
    """``with T.launch_thread("threadIdx.x", 32) as tx:``."""

def target(config: Any, host: Any = None) -> Any:
    """A target description."""

# ---- statements and values

def evaluate(value: Any) -> None:
    """An expression for its effect."""

def ret(value: Any) -> None:
    """Earlier form of ``return``."""

def bind(value: Any, dtype: Any = None, var: Any = None) -> Any:
    """``x = T.bind(value)``: a name for a value, never assigned again."""

class Let:
    """``T.Let(body, where={x: value})`` is an expression; ``x: T.let = value`` names a value."""

    def __new__(cls, *args: Any, where: Any = None) -> Any: ...

let = Let

def LetStmt(value: Any) -> Frame:
    """Earlier form of ``x: T.let = value``."""

def Assert(condition: Any, message: builtins.str) -> Frame:
    """Earlier form of ``assert``."""

def While(condition: Any) -> Frame:
    """Earlier form of ``while``."""

def If(condition: Any) -> Frame:
    """Earlier form of ``if``, with ``T.Then()`` and ``T.Else()`` inside."""

def Then() -> Frame:
    """Inside ``with T.If(...)``."""

def Else() -> Frame:
    """Inside ``with T.If(...)``."""

def Cast(dtype: builtins.str, value: Any) -> Any:
    """A conversion that is kept as written."""

def cast(value: Any, dtype: builtins.str) -> Any:
    """The value in another data type."""

def ceildiv(a: Any, b: Any) -> Any:
    """Quotient rounded up."""

def min_value(dtype: builtins.str) -> Any:
    """Smallest finite value of a data type."""

def max_value(dtype: builtins.str) -> Any:
    """Largest finite value of a data type."""

def infinity(dtype: builtins.str) -> Any:
    """Infinity of a floating-point data type."""

def var(dtype: builtins.str = "int64", name: builtins.str = ...) -> Any:
    """Earlier form of ``T.int64()``."""

def dynamic(name: builtins.str, dtype: builtins.str = "int64") -> Any:
    """``I.dynamic``: a symbol."""

def Range(begin: Any, end: Any = None) -> Any:
    """A half-open interval."""

def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any], /) -> Any:
    """A commutative reducer: ``T.comm_reducer(lambda x, y: x + y, [T.float32(0)])``."""

def index_map(mapping: Callable[..., Any], *, index_dtype: builtins.str = "int64") -> Any:
    """A map of indices as attribute or argument: ``T.index_map(lambda i, j: (i // 4, j, i % 4))``."""

def iter_var(var: Any, dom: Any, iter_type: builtins.str, thread_tag: builtins.str) -> Any:
    """An iterator of ``T.reduce``."""

def reduce(
    combiner: Any, *, source: Any, axis: Any, where: Any = None, init: Any = (), value_index: builtins.int = 0
) -> Any:
    """A reduction written as an expression."""

def meta_var(value: Any) -> Any:
    """The value while reading, not a variable of the program."""

def call_intrin(dtype: builtins.str, name: builtins.str, *args: Any) -> Any:
    """Call of any intrinsic by name, kept as written."""

def type_annotation(dtype: builtins.str) -> Any:
    """A data type as an argument of an intrinsic."""

class handle(_Value):
    """A pointer: ``T.handle`` is the type of a parameter given to ``T.match_buffer``."""

    def __new__(cls, dtype: Any = None, scope: builtins.str = "global") -> Any: ...

class void(_Value):
    """No value."""

def FloatImm(dtype: builtins.str, value: builtins.float) -> Any:
    """A number of a floating-point type."""

def IntImm(dtype: builtins.str, value: builtins.int) -> Any:
    """A number of an integer type."""

def all(*conditions: Any) -> Any:
    """True where every condition is."""

def any(*conditions: Any) -> Any:
    """True where one condition is."""
