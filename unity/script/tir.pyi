# Made by tools/make_stubs.py from tools/stub_parts and the tables; do not edit.
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

def Add(a: Any, b: Any) -> Any:
    """The node ``Add``, kept as written."""

def Sub(a: Any, b: Any) -> Any:
    """The node ``Sub``, kept as written."""

def Mul(a: Any, b: Any) -> Any:
    """The node ``Mul``, kept as written."""

def Div(a: Any, b: Any) -> Any:
    """The node ``Div``, kept as written."""

def Mod(a: Any, b: Any) -> Any:
    """The node ``Mod``, kept as written."""

def FloorDiv(a: Any, b: Any) -> Any:
    """The node ``FloorDiv``, kept as written."""

def FloorMod(a: Any, b: Any) -> Any:
    """The node ``FloorMod``, kept as written."""

def Min(a: Any, b: Any) -> Any:
    """The node ``Min``, kept as written."""

def Max(a: Any, b: Any) -> Any:
    """The node ``Max``, kept as written."""

def EQ(a: Any, b: Any) -> Any:
    """The node ``EQ``, kept as written."""

def NE(a: Any, b: Any) -> Any:
    """The node ``NE``, kept as written."""

def LT(a: Any, b: Any) -> Any:
    """The node ``LT``, kept as written."""

def LE(a: Any, b: Any) -> Any:
    """The node ``LE``, kept as written."""

def GT(a: Any, b: Any) -> Any:
    """The node ``GT``, kept as written."""

def GE(a: Any, b: Any) -> Any:
    """The node ``GE``, kept as written."""

def And(a: Any, b: Any) -> Any:
    """The node ``And``, kept as written."""

def Or(a: Any, b: Any) -> Any:
    """The node ``Or``, kept as written."""

def Not(a: Any) -> Any:
    """The node ``Not``, kept as written."""

def Select(condition: Any, true_value: Any, false_value: Any) -> Any:
    """The node ``Select``, kept as written."""

def Ramp(base: Any, stride: Any, lanes: Any) -> Any:
    """The node ``Ramp``, kept as written."""

def Broadcast(value: Any, lanes: Any) -> Any:
    """The node ``Broadcast``, kept as written."""

def Shuffle(vectors: Any, indices: Any) -> Any:
    """The node ``Shuffle``, kept as written."""

def max(a: Any, b: Any) -> Any:
    """``maximum`` of its arguments."""

def min(a: Any, b: Any) -> Any:
    """``minimum`` of its arguments."""

def truncdiv(a: Any, b: Any) -> Any:
    """``truncdiv`` of its arguments."""

def truncmod(a: Any, b: Any) -> Any:
    """``truncmod`` of its arguments."""

def floordiv(a: Any, b: Any) -> Any:
    """``floordiv`` of its arguments."""

def floormod(a: Any, b: Any) -> Any:
    """``floormod`` of its arguments."""

def div(a: Any, b: Any) -> Any:
    """``div`` of its arguments."""

def exp(x: Any, /) -> Any:
    """e to the power x."""

def exp2(x: Any, /) -> Any:
    """2 to the power x."""

def exp10(x: Any, /) -> Any:
    """10 to the power x."""

def log(x: Any, /) -> Any:
    """Natural logarithm."""

def log2(x: Any, /) -> Any:
    """Logarithm to base 2."""

def log10(x: Any, /) -> Any:
    """Logarithm to base 10."""

def log1p(x: Any, /) -> Any:
    """log(1 + x) without loss of digits near 0."""

def sqrt(x: Any, /) -> Any:
    """Square root."""

def rsqrt(x: Any, /) -> Any:
    """1 / sqrt(x)."""

def sin(x: Any, /) -> Any:
    """Sine of radians."""

def cos(x: Any, /) -> Any:
    """Cosine of radians."""

def tan(x: Any, /) -> Any:
    """Tangent of radians."""

def asin(x: Any, /) -> Any:
    """Inverse sine, in radians."""

def acos(x: Any, /) -> Any:
    """Inverse cosine, in radians."""

def atan(x: Any, /) -> Any:
    """Inverse tangent, in radians."""

def sinh(x: Any, /) -> Any:
    """Hyperbolic sine."""

def cosh(x: Any, /) -> Any:
    """Hyperbolic cosine."""

def tanh(x: Any, /) -> Any:
    """Hyperbolic tangent."""

def asinh(x: Any, /) -> Any:
    """Inverse hyperbolic sine."""

def acosh(x: Any, /) -> Any:
    """Inverse hyperbolic cosine."""

def atanh(x: Any, /) -> Any:
    """Inverse hyperbolic tangent."""

def erf(x: Any, /) -> Any:
    """Error function."""

def sigmoid(x: Any, /) -> Any:
    """1 / (1 + exp(-x))."""

def floor(x: Any, /) -> Any:
    """Largest integer not above x."""

def ceil(x: Any, /) -> Any:
    """Smallest integer not below x."""

def trunc(x: Any, /) -> Any:
    """Integer part."""

def round(x: Any, /) -> Any:
    """Nearest integer, halves to even."""

def nearbyint(x: Any, /) -> Any:
    """Nearest integer, halves to even."""

def abs(x: Any, /) -> Any:
    """Absolute value."""

def pow(a: Any, b: Any, /) -> Any:
    """x to the power y."""

def atan2(a: Any, b: Any, /) -> Any:
    """Angle of the point (second, first argument), in radians."""

def fmod(a: Any, b: Any, /) -> Any:
    """Remainder of division towards 0."""

def hypot(a: Any, b: Any, /) -> Any:
    """sqrt(x * x + y * y) without overflow."""

def ldexp(a: Any, b: Any, /) -> Any:
    """x times 2 to the power of the second argument."""

def copysign(a: Any, b: Any, /) -> Any:
    """The first argument with the sign of the second."""

def nextafter(a: Any, b: Any, /) -> Any:
    """The float next to x in the direction of y."""

def fma(a: Any, b: Any, c: Any, /) -> Any:
    """x * y + z, rounded once."""

def popcount(x: Any, /) -> Any:
    """Number of bits that are set."""

def clz(x: Any, /) -> Any:
    """Number of leading zero bits."""

def bitwise_not(x: Any, /) -> Any:
    """Inverted bits."""

def bitwise_and(a: Any, b: Any, /) -> Any:
    """Bits set in both."""

def bitwise_or(a: Any, b: Any, /) -> Any:
    """Bits set in either."""

def bitwise_xor(a: Any, b: Any, /) -> Any:
    """Bits set in exactly one."""

def shift_left(a: Any, b: Any, /) -> Any:
    """Bits shifted left."""

def shift_right(a: Any, b: Any, /) -> Any:
    """Bits shifted right, keeping the sign."""

def dp4a(a: Any, b: Any, c: Any, /, *, dtype: Any = "int32") -> Any:
    """Dot product of four bytes, added to the third argument."""

def q_multiply_shift(arg0: Any, arg1: Any, arg2: Any, arg3: Any, /) -> Any:
    """Fixed-point product of x and y with q fractional bits, shifted left by s and rounded."""

def q_multiply_shift_per_axis(
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any = ...,
    /,
) -> Any:
    """Fixed-point product with a shift before and after it, rounded."""

def reinterpret(dtype: Any, x: Any, /) -> Any:
    """The bits of a value as another type of the same width."""

def isnan(x: Any, /) -> Any:
    """True if x is NaN."""

def isinf(x: Any, /) -> Any:
    """True if x is infinite."""

def isfinite(x: Any, /) -> Any:
    """True if x is neither infinite nor NaN."""

def isnullptr(x: Any, /) -> Any:
    """True for a null pointer."""

def likely(x: Any, /) -> Any:
    """A condition that is expected to hold."""

def tvm_thread_invariant(x: Any, /) -> Any:
    """A value that is the same in all threads."""

def if_then_else(condition: Any, then_value: Any, else_value: Any, /) -> Any:
    """The second argument if the first holds, else the third; only that one is evaluated."""

def address_of(x: Any, /) -> Any:
    """The address of an element."""

def tvm_access_ptr(arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, /) -> Any:
    """Pointer to part of a buffer: type, data, offset, extent, 1 read | 2 write."""

def handle_add_byte_offset(a: Any, b: Any, arg2: Any = ..., /) -> Any:
    """A pointer moved by bytes."""

def ptr_byte_offset(a: Any, b: Any, arg2: Any = ..., /) -> Any:
    """A pointer moved by bytes."""

def atomic_add(a: Any, b: Any, /, *, dtype: Any = ...) -> Any:
    """Adds to an element atomically and returns its old value. It has an effect."""

def prefetch(x: Any, arg1: Any = ..., arg2: Any = ..., arg3: Any = ..., /) -> None:
    """Fetches the cache line of an address: address, 1 for write, locality from 0 to 3, 1 for data. It has an effect."""

def assume(x: Any, /) -> Any:
    """Promises that a condition holds. It has an effect."""

def undef(dtype: Any, /) -> Any:
    """A value that is not defined."""

def vectorlow(x: Any, /, *, dtype: Any = ...) -> Any:
    """The first half of a vector."""

def vectorhigh(x: Any, /, *, dtype: Any = ...) -> Any:
    """The second half of a vector."""

def vectorcombine(a: Any, b: Any, /, *, dtype: Any = ...) -> Any:
    """A vector made of two halves."""

def vscale() -> Any:
    """Number of 128-bit pieces in a scalable vector."""

def get_active_lane_mask(a: Any, b: Any, /, *, dtype: Any = "bool") -> Any:
    """Lanes i with base + i below a limit, as a mask."""

def call_extern(dtype: Any, x: Any, *args: Any) -> Any:
    """Calls a C function by name. It has an effect."""

def call_pure_extern(dtype: Any, x: Any, *args: Any) -> Any:
    """Calls a C function without effects by name."""

def call_packed(x: Any, *args: Any, dtype: Any = "int32") -> Any:
    """Calls a registered function by name. It has an effect."""

def call_cpacked(x: Any, *args: Any, dtype: Any = "int32") -> Any:
    """Calls a registered function by name. It has an effect."""

def call_llvm_intrin(dtype: Any, x: Any, *args: Any) -> Any:
    """Calls an intrinsic of LLVM by name. It has an effect."""

def call_llvm_pure_intrin(dtype: Any, x: Any, *args: Any) -> Any:
    """Calls an intrinsic of LLVM without effects by name."""

def lookup_param(x: Any, /, *, dtype: Any = "handle") -> Any:
    """A parameter of the module by name. It reads memory."""

def thread_return() -> None:
    """Ends the thread. It has an effect."""

def break_loop() -> None:
    """Leaves the loop. It has an effect."""

def continue_loop() -> None:
    """Begins the next iteration of the loop. It has an effect."""

def tvm_tuple(*args: Any) -> Any:
    """Arguments as a tuple."""

def tvm_stack_alloca(a: Any, b: Any, /) -> Any:
    """Allocates a number of values of a kind on the stack. It has an effect."""

def tvm_storage_sync(x: Any, *args: Any) -> None:
    """Waits for all threads of a scope. It has an effect."""

def tvm_thread_allreduce(
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    *args: Any,
    dtype: Any = "handle",
) -> Any:
    """Combines a value of each thread and gives all the result. It has an effect."""

def tvm_warp_shuffle(arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, /) -> Any:
    """The value of another lane of the warp. It has an effect."""

def tvm_warp_shuffle_up(arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, /) -> Any:
    """The value of a lower lane of the warp. It has an effect."""

def tvm_warp_shuffle_down(arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, /) -> Any:
    """The value of a higher lane of the warp. It has an effect."""

def tvm_warp_shuffle_xor(arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, /) -> Any:
    """The value of the lane whose number differs in some bits. It has an effect."""

def tvm_warp_activemask(*, dtype: Any = "uint32") -> Any:
    """Mask of the active lanes. It has an effect."""

def tvm_fill_fragment(arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, arg5: Any, /) -> None:
    """Fills a fragment of a matrix unit. It has an effect."""

def tvm_load_matrix_sync(
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any,
    arg7: Any,
    /,
) -> None:
    """Loads a fragment of a matrix unit. It has an effect."""

def tvm_store_matrix_sync(
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any,
    arg7: Any,
    /,
) -> None:
    """Stores a fragment of a matrix unit. It has an effect."""

def tvm_mma_sync(arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, arg5: Any, arg6: Any, arg7: Any, /) -> None:
    """Multiplies fragments and adds to a third. It has an effect."""

def tvm_bmma_sync(arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, arg5: Any, arg6: Any, arg7: Any, /) -> None:
    """Multiplies fragments of bits and adds to a third. It has an effect."""

def ptx_ex2(x: Any, /) -> Any:
    """PTX ex2.approx: 2 to the power of a float32, up to two units in the last place."""

def ptx_mma(
    dtype: Any,
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any,
    arg7: Any,
    arg8: Any,
    arg9: Any,
    arg10: Any,
    arg11: Any,
    arg12: Any = ...,
    arg13: Any = ...,
    arg14: Any = ...,
    arg15: Any = ...,
    /,
) -> Any:
    """PTX mma.sync on registers of a warp. It has an effect."""

def ptx_ldmatrix(
    dtype: Any,
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any = ...,
    arg7: Any = ...,
    /,
) -> Any:
    """PTX ldmatrix: loads matrices from shared memory. It has an effect."""

def ptx_cp_async(dtype: Any, arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, arg5: Any = ..., /) -> Any:
    """PTX cp.async: copies to shared memory asynchronously. It has an effect."""

def ptx_commit_group() -> None:
    """Closes a group of asynchronous copies. It has an effect."""

def ptx_wait_group(x: Any, /) -> None:
    """Waits until at most so many groups of copies are open. It has an effect."""

def create_barriers(x: Any, /) -> None:
    """Gives the block so many barriers (mbarrier), which the others name by their numbers. It has an effect."""

def ptx_arrive_barrier(x: Any, /) -> None:
    """Arrives at a barrier without waiting. It has an effect."""

def ptx_cp_async_barrier(x: Any, /) -> None:
    """Arrives at a barrier when the cp.async copies of the thread have come. It has an effect."""

def ptx_init_barrier_thread_count(a: Any, b: Any, /) -> None:
    """Begins a barrier whose phases end after so many arrivals: barrier, arrivals. It has an effect."""

def ptx_arrive_barrier_expect_tx(a: Any, b: Any, /) -> None:
    """Arrives at a barrier whose phase waits for so many bytes more: barrier, bytes. It has an effect."""

def ptx_wait_barrier(x: Any, arg1: Any = ..., /) -> None:
    """Waits until the phase of a barrier with a parity (0) has ended: barrier, parity. It has an effect."""

def ptx_cp_async_bulk(dtype: Any, arg0: Any, arg1: Any, arg2: Any, arg3: Any, arg4: Any, arg5: Any, /) -> Any:
    """PTX cp.async.bulk: shared pointer and offset, global pointer and offset, bytes, barrier. It has an effect."""

def ptx_cp_async_bulk_tensor(
    dtype: Any,
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any,
    arg7: Any,
    arg8: Any = ...,
    arg9: Any = ...,
    arg10: Any = ...,
    arg11: Any = ...,
    arg12: Any = ...,
    arg13: Any = ...,
    arg14: Any = ...,
    arg15: Any = ...,
    arg16: Any = ...,
    arg17: Any = ...,
    arg18: Any = ...,
    arg19: Any = ...,
    /,
) -> Any:
    """PTX cp.async.bulk.tensor: a box of a tensor to shared memory, with a tensor map made by the host. It has an effect."""

def ptx_cp_async_bulk_tensor_store(
    dtype: Any,
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any,
    arg7: Any = ...,
    arg8: Any = ...,
    arg9: Any = ...,
    arg10: Any = ...,
    arg11: Any = ...,
    arg12: Any = ...,
    arg13: Any = ...,
    arg14: Any = ...,
    arg15: Any = ...,
    arg16: Any = ...,
    arg17: Any = ...,
    arg18: Any = ...,
    /,
) -> Any:
    """PTX cp.async.bulk.tensor: a box of a tensor from shared memory, without a barrier. It has an effect."""

def ptx_cp_async_bulk_tensor_im2col(
    dtype: Any,
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any,
    arg7: Any,
    arg8: Any,
    arg9: Any,
    arg10: Any,
    arg11: Any,
    arg12: Any,
    arg13: Any,
    arg14: Any,
    arg15: Any,
    arg16: Any,
    arg17: Any = ...,
    arg18: Any = ...,
    arg19: Any = ...,
    arg20: Any = ...,
    arg21: Any = ...,
    arg22: Any = ...,
    arg23: Any = ...,
    arg24: Any = ...,
    arg25: Any = ...,
    arg26: Any = ...,
    arg27: Any = ...,
    arg28: Any = ...,
    /,
) -> Any:
    """PTX cp.async.bulk.tensor.im2col: pixels under a convolution's window to shared memory. It has an effect."""

def ptx_cp_async_bulk_commit_group() -> None:
    """Closes a group of bulk copies to global memory. It has an effect."""

def ptx_cp_async_bulk_wait_group(x: Any, /) -> None:
    """Waits until at most so many groups of bulk copies to global memory are open. It has an effect."""

def ptx_wgmma(
    dtype: Any,
    arg0: Any,
    arg1: Any,
    arg2: Any,
    arg3: Any,
    arg4: Any,
    arg5: Any,
    arg6: Any,
    arg7: Any,
    arg8: Any,
    arg9: Any,
    arg10: Any,
    arg11: Any,
    arg12: Any,
    arg13: Any,
    arg14: Any = ...,
    /,
) -> Any:
    """PTX wgmma.mma_async: a product of a warpgroup whose factors lie in shared memory. It has an effect."""

def ptx_wgmma_fence() -> None:
    """Orders registers and shared memory before products of the warpgroup. It has an effect."""

def ptx_wgmma_commit_group() -> None:
    """Closes a group of products of the warpgroup. It has an effect."""

def ptx_fence_proxy_async() -> None:
    """Orders stores of the thread to shared memory before bulk copies and products read it. It has an effect."""

def ptx_wgmma_wait_group(x: Any, /) -> None:
    """Waits until at most so many groups of products are open. It has an effect."""

def ptx_setmaxnreg(a: Any, b: Any, /) -> None:
    """Gives the threads of a warpgroup more registers (True) or fewer (False), up to a number. It has an effect."""

def ptx_elect_sync(*, dtype: Any = "bool") -> Any:
    """True in one lane of the warp. It has an effect."""

def start_profile_intrinsic(x: Any, /) -> None:
    """Begins a profiled region. It has an effect."""

def end_profile_intrinsic(x: Any, /) -> None:
    """Ends a profiled region. It has an effect."""

class bool(_Value):
    """``T.bool(value)``: a bool scalar; ``T.bool`` its type."""

class int8(_Value):
    """``T.int8(value)``: a int8 scalar; ``T.int8`` its type."""

class int16(_Value):
    """``T.int16(value)``: a int16 scalar; ``T.int16`` its type."""

class int32(_Value):
    """``T.int32(value)``: a int32 scalar; ``T.int32`` its type."""

class int64(_Value):
    """``T.int64(value)``: a int64 scalar; ``T.int64`` its type."""

class uint8(_Value):
    """``T.uint8(value)``: a uint8 scalar; ``T.uint8`` its type."""

class uint16(_Value):
    """``T.uint16(value)``: a uint16 scalar; ``T.uint16`` its type."""

class uint32(_Value):
    """``T.uint32(value)``: a uint32 scalar; ``T.uint32`` its type."""

class uint64(_Value):
    """``T.uint64(value)``: a uint64 scalar; ``T.uint64`` its type."""

class float16(_Value):
    """``T.float16(value)``: a float16 scalar; ``T.float16`` its type."""

class bfloat16(_Value):
    """``T.bfloat16(value)``: a bfloat16 scalar; ``T.bfloat16`` its type."""

class float32(_Value):
    """``T.float32(value)``: a float32 scalar; ``T.float32`` its type."""

class float64(_Value):
    """``T.float64(value)``: a float64 scalar; ``T.float64`` its type."""

class float8_e3m4(_Value):
    """``T.float8_e3m4(value)``: a float8_e3m4 scalar; ``T.float8_e3m4`` its type."""

class float8_e4m3(_Value):
    """``T.float8_e4m3(value)``: a float8_e4m3 scalar; ``T.float8_e4m3`` its type."""

class float8_e4m3b11fnuz(_Value):
    """``T.float8_e4m3b11fnuz(value)``: a float8_e4m3b11fnuz scalar; ``T.float8_e4m3b11fnuz`` its type."""

class float8_e4m3fn(_Value):
    """``T.float8_e4m3fn(value)``: a float8_e4m3fn scalar; ``T.float8_e4m3fn`` its type."""

class float8_e4m3fnuz(_Value):
    """``T.float8_e4m3fnuz(value)``: a float8_e4m3fnuz scalar; ``T.float8_e4m3fnuz`` its type."""

class float8_e5m2(_Value):
    """``T.float8_e5m2(value)``: a float8_e5m2 scalar; ``T.float8_e5m2`` its type."""

class float8_e5m2fnuz(_Value):
    """``T.float8_e5m2fnuz(value)``: a float8_e5m2fnuz scalar; ``T.float8_e5m2fnuz`` its type."""

class float8_e8m0fnu(_Value):
    """``T.float8_e8m0fnu(value)``: a float8_e8m0fnu scalar; ``T.float8_e8m0fnu`` its type."""

class int1(_Value):
    """``T.int1(value)``: a int1 scalar; ``T.int1`` its type."""

class int2(_Value):
    """``T.int2(value)``: a int2 scalar; ``T.int2`` its type."""

class int4(_Value):
    """``T.int4(value)``: a int4 scalar; ``T.int4`` its type."""

class uint1(_Value):
    """``T.uint1(value)``: a uint1 scalar; ``T.uint1`` its type."""

class uint2(_Value):
    """``T.uint2(value)``: a uint2 scalar; ``T.uint2`` its type."""

class uint4(_Value):
    """``T.uint4(value)``: a uint4 scalar; ``T.uint4`` its type."""

class boolx2(_Value):
    """2 lanes of bool."""

class boolx4(_Value):
    """4 lanes of bool."""

class boolx8(_Value):
    """8 lanes of bool."""

class boolx16(_Value):
    """16 lanes of bool."""

class boolx32(_Value):
    """32 lanes of bool."""

class boolx64(_Value):
    """64 lanes of bool."""

class int8x2(_Value):
    """2 lanes of int8."""

class int8x4(_Value):
    """4 lanes of int8."""

class int8x8(_Value):
    """8 lanes of int8."""

class int8x16(_Value):
    """16 lanes of int8."""

class int8x32(_Value):
    """32 lanes of int8."""

class int8x64(_Value):
    """64 lanes of int8."""

class int16x2(_Value):
    """2 lanes of int16."""

class int16x4(_Value):
    """4 lanes of int16."""

class int16x8(_Value):
    """8 lanes of int16."""

class int16x16(_Value):
    """16 lanes of int16."""

class int16x32(_Value):
    """32 lanes of int16."""

class int16x64(_Value):
    """64 lanes of int16."""

class int32x2(_Value):
    """2 lanes of int32."""

class int32x4(_Value):
    """4 lanes of int32."""

class int32x8(_Value):
    """8 lanes of int32."""

class int32x16(_Value):
    """16 lanes of int32."""

class int32x32(_Value):
    """32 lanes of int32."""

class int32x64(_Value):
    """64 lanes of int32."""

class int64x2(_Value):
    """2 lanes of int64."""

class int64x4(_Value):
    """4 lanes of int64."""

class int64x8(_Value):
    """8 lanes of int64."""

class int64x16(_Value):
    """16 lanes of int64."""

class int64x32(_Value):
    """32 lanes of int64."""

class int64x64(_Value):
    """64 lanes of int64."""

class uint8x2(_Value):
    """2 lanes of uint8."""

class uint8x4(_Value):
    """4 lanes of uint8."""

class uint8x8(_Value):
    """8 lanes of uint8."""

class uint8x16(_Value):
    """16 lanes of uint8."""

class uint8x32(_Value):
    """32 lanes of uint8."""

class uint8x64(_Value):
    """64 lanes of uint8."""

class uint16x2(_Value):
    """2 lanes of uint16."""

class uint16x4(_Value):
    """4 lanes of uint16."""

class uint16x8(_Value):
    """8 lanes of uint16."""

class uint16x16(_Value):
    """16 lanes of uint16."""

class uint16x32(_Value):
    """32 lanes of uint16."""

class uint16x64(_Value):
    """64 lanes of uint16."""

class uint32x2(_Value):
    """2 lanes of uint32."""

class uint32x4(_Value):
    """4 lanes of uint32."""

class uint32x8(_Value):
    """8 lanes of uint32."""

class uint32x16(_Value):
    """16 lanes of uint32."""

class uint32x32(_Value):
    """32 lanes of uint32."""

class uint32x64(_Value):
    """64 lanes of uint32."""

class uint64x2(_Value):
    """2 lanes of uint64."""

class uint64x4(_Value):
    """4 lanes of uint64."""

class uint64x8(_Value):
    """8 lanes of uint64."""

class uint64x16(_Value):
    """16 lanes of uint64."""

class uint64x32(_Value):
    """32 lanes of uint64."""

class uint64x64(_Value):
    """64 lanes of uint64."""

class float16x2(_Value):
    """2 lanes of float16."""

class float16x4(_Value):
    """4 lanes of float16."""

class float16x8(_Value):
    """8 lanes of float16."""

class float16x16(_Value):
    """16 lanes of float16."""

class float16x32(_Value):
    """32 lanes of float16."""

class float16x64(_Value):
    """64 lanes of float16."""

class bfloat16x2(_Value):
    """2 lanes of bfloat16."""

class bfloat16x4(_Value):
    """4 lanes of bfloat16."""

class bfloat16x8(_Value):
    """8 lanes of bfloat16."""

class bfloat16x16(_Value):
    """16 lanes of bfloat16."""

class bfloat16x32(_Value):
    """32 lanes of bfloat16."""

class bfloat16x64(_Value):
    """64 lanes of bfloat16."""

class float32x2(_Value):
    """2 lanes of float32."""

class float32x4(_Value):
    """4 lanes of float32."""

class float32x8(_Value):
    """8 lanes of float32."""

class float32x16(_Value):
    """16 lanes of float32."""

class float32x32(_Value):
    """32 lanes of float32."""

class float32x64(_Value):
    """64 lanes of float32."""

class float64x2(_Value):
    """2 lanes of float64."""

class float64x4(_Value):
    """4 lanes of float64."""

class float64x8(_Value):
    """8 lanes of float64."""

class float64x16(_Value):
    """16 lanes of float64."""

class float64x32(_Value):
    """32 lanes of float64."""

class float64x64(_Value):
    """64 lanes of float64."""

tvm_call_packed = call_packed

sblock = block

sblock_attr = block_attr

sblock_alloc_buffer = alloc_buffer

buffer_decl = decl_buffer

boolean = bool

ramp = Ramp

broadcast = Broadcast

shuffle = Shuffle

select = Select

fabs = abs

power = pow

left_shift = shift_left

right_shift = shift_right

indexdiv = floordiv

indexmod = floormod

tvm_call_cpacked = call_cpacked

Var = var

function = prim_func

Tensor = Buffer

decl_tensor = decl_buffer

alloc_tensor = alloc_buffer
