# Made by tools/make_stubs.py from tools/stub_parts and the tables; do not edit.
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

def abs(x: Any) -> Any:
    """Returns the absolute value of each element."""

def acos(x: Any) -> Any:
    """Returns the inverse cosine in radians, from 0 to pi; NaN outside [-1, 1]."""

def acosh(x: Any) -> Any:
    """Returns the inverse hyperbolic cosine; NaN below 1."""

def add(x1: Any, x2: Any) -> Any:
    """Returns x1 + x2."""

def all(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Tests whether all elements over the axes are nonzero."""

def any(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Tests whether any element over the axes is nonzero."""

def arange(start: Any, end: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """Returns start, start + step, ... up to but not including end."""

def argmax(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the int64 index of the largest element, the first of equal ones; NaN counts as largest."""

def argmin(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the int64 index of the smallest element, the first of equal ones; NaN counts as smallest."""

def argsort(data: Any, axis: Any = -1, descending: builtins.bool = False, dtype: builtins.str = "int32") -> Any:
    """Returns the indices that sort along an axis; equal elements keep their order, and NaN counts as largest."""

def asin(x: Any) -> Any:
    """Returns the inverse sine in radians, from -pi/2 to pi/2; NaN outside [-1, 1]."""

def asinh(x: Any) -> Any:
    """Returns the inverse hyperbolic sine."""

def assert_op(condition: Any, *values: Any, format: builtins.str = "") -> Any:
    """Stops with an error unless the condition is true."""

def astype(x: Any, dtype: Any) -> Any:
    """Converts the elements to another data type; floats to integers truncate."""

def atan(x: Any) -> Any:
    """Returns the inverse tangent in radians, from -pi/2 to pi/2."""

def atan2(x1: Any, x2: Any) -> Any:
    """Returns the angle of the point (x2, x1) in radians, from -pi to pi."""

def atanh(x: Any) -> Any:
    """Returns the inverse hyperbolic tangent; NaN outside [-1, 1]."""

def bitwise_and(x1: Any, x2: Any) -> Any:
    """Returns the bits that are set in both operands."""

def bitwise_not(x: Any) -> Any:
    """Inverts every bit of an integer; negates bool."""

def bitwise_or(x1: Any, x2: Any) -> Any:
    """Returns the bits that are set in either operand."""

def bitwise_xor(x1: Any, x2: Any) -> Any:
    """Returns the bits that are set in exactly one operand."""

def broadcast_to(x: Any, shape: Any) -> Any:
    """Repeats x along axes of size 1, and along new leading axes, up to a shape."""

def bucketize(
    input_tensor: Any,
    boundaries: Any,
    out_int32: builtins.bool = False,
    right: builtins.bool = False,
) -> Any:
    """For each value the number of boundaries below it. Shapes: boundaries is a vector in rising order."""

def ceil(x: Any) -> Any:
    """Rounds up to the nearest integer."""

def clip(x: Any, min: Any, max: Any) -> Any:
    """Limits x to [min, max]; NaN stays NaN."""

def collapse_sum_like(data: Any, collapse_target: Any) -> Any:
    """``data`` summed to the shape of another tensor, as collapse_sum_to does."""

def collapse_sum_to(data: Any, shape: Any) -> Any:
    """Sums over the axes along which a tensor of the given shape was broadcast to data."""

def concat(tensors: Any, axis: Any = 0) -> Any:
    """Joins tensors along an existing axis."""

def cos(x: Any) -> Any:
    """Returns the cosine of x in radians."""

def cosh(x: Any) -> Any:
    """Returns the hyperbolic cosine."""

def cumprod(data: Any, axis: Any = None, dtype: Any = None, exclusive: builtins.bool = False) -> Any:
    """Returns the cumulative product along an axis."""

def cumsum(data: Any, axis: Any = None, dtype: Any = None, exclusive: builtins.bool = False) -> Any:
    """Returns the cumulative sum along an axis."""

def dequantize(data: Any, scale: Any, zero_point: Any, axis: Any = -1, out_dtype: builtins.str = "float32") -> Any:
    """``(data - zero_point) * scale``. Shapes: scale and zero_point are scalars or vectors along ``axis``."""

def divide(x1: Any, x2: Any) -> Any:
    """Returns x1 / x2 of floats."""

def dynamic_strided_slice(x: Any, begin: Any, end: Any, strides: Any) -> Any:
    """Slices every axis by begin, end and stride given as tensors, as strided_slice does."""

def einsum(operands: Any, subscripts: Any, out_dtype: Any = None) -> Any:
    """Sums products of the operands over the axes that the subscripts name."""

def equal(x1: Any, x2: Any) -> Any:
    """Tests x1 == x2."""

def erf(x: Any) -> Any:
    """Returns the error function."""

def ewise_fma(x1: Any, x2: Any, x3: Any) -> Any:
    """Returns x1 * x2 + x3."""

def exp(x: Any) -> Any:
    """Returns e to the power x."""

def exp2(x: Any) -> Any:
    """Returns 2 to the power x."""

def expand_dims(x: Any, axis: Any) -> Any:
    """Inserts axes of size 1."""

def expm1(x: Any) -> Any:
    """Returns exp(x) - 1 without loss of digits near 0."""

def eye(n: Any, m: Any = None, k: Any = 0, dtype: builtins.str = "float32") -> Any:
    """Returns a matrix with ones on diagonal k and zeros elsewhere."""

def eye_like(x: Any, k: Any = 0, dtype: Any = None) -> Any:
    """A matrix in the shape of ``x`` with ones on diagonal k and zeros elsewhere, in the data type of ``x`` unless one is
    given.
    """

def flatten(x: Any) -> Any:
    """Reshapes to one axis, in row-major order."""

def flip(data: Any, axis: Any) -> Any:
    """Reverses the elements along an axis."""

def floor(x: Any) -> Any:
    """Rounds down to the nearest integer."""

def floor_divide(x1: Any, x2: Any) -> Any:
    """Returns floor(x1 / x2); integers divided by 0 give 0."""

def floor_mod(x1: Any, x2: Any) -> Any:
    """Returns the remainder of floor division, with the sign of x2; integers divided by 0 give 0."""

def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Returns a tensor filled with one value."""

def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    """Returns a tensor in the shape of x filled with one value."""

def gather_elements(data: Any, indices: Any, axis: Any = 0) -> Any:
    """Picks elements along an axis: out[i, j] = data[indices[i, j], j] for axis 0."""

def gather_nd(data: Any, indices: Any, batch_dims: Any = 0) -> Any:
    """Picks the slices of data at the index tuples in the last axis of indices."""

def greater(x1: Any, x2: Any) -> Any:
    """Tests x1 > x2."""

def greater_equal(x1: Any, x2: Any) -> Any:
    """Tests x1 >= x2."""

def hamming_window(
    window_size: Any,
    periodic: builtins.bool = True,
    alpha: Any = 0.54,
    beta: Any = 0.46,
    dtype: builtins.str = "float32",
) -> Any:
    """``alpha - beta * cos(2 pi i / n)`` for i < window_size; n is window_size if periodic, else window_size - 1."""

def hint_on_device(data: Any, device: Any, memory_scope: builtins.str = "global") -> Any:
    """Places a tensor on a device, with a copy if it is elsewhere."""

def index_put(data: Any, indices: Any, values: Any, accumulate: builtins.bool = False) -> Any:
    """Returns data with the elements at the index tensors replaced by values; of several writes to one place the last wins."""

def index_tensor(data: Any, indices: Any) -> Any:
    """Picks elements at index tensors, one for each leading axis, as numpy's data[i, j] does."""

def isfinite(x: Any) -> Any:
    """Tests whether each element is finite."""

def isinf(x: Any) -> Any:
    """Tests whether each element is infinite."""

def isnan(x: Any) -> Any:
    """Tests whether each element is NaN."""

def layout_transform(
    x: Any,
    index_map: Any,
    pad_value: Any = None,
    axis_separators: Any = None,
    input_axis_separators: Any = None,
) -> Any:
    """Moves the element at index i to index_map(i); dimensions that the map divides are rounded up."""

def left_shift(x1: Any, x2: Any) -> Any:
    """Shifts x1 left by x2 bits; 0 where x2 is negative or at least the width."""

def less(x1: Any, x2: Any) -> Any:
    """Tests x1 < x2."""

def less_equal(x1: Any, x2: Any) -> Any:
    """Tests x1 <= x2."""

def linear(data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Any:
    """``data @ weight.T + bias``: what torch calls linear. Shapes: (..., k), (n, k), (n,) -> (..., n)."""

def log(x: Any) -> Any:
    """Returns the natural logarithm; -infinity at 0, NaN below."""

def log10(x: Any) -> Any:
    """Returns the logarithm to base 10; -infinity at 0, NaN below."""

def log1p(x: Any) -> Any:
    """Returns log(1 + x) without loss of digits near 0; -infinity at -1, NaN below."""

def log2(x: Any) -> Any:
    """Returns the logarithm to base 2; -infinity at 0, NaN below."""

def log_add_exp(x1: Any, x2: Any) -> Any:
    """Returns log(exp(x1) + exp(x2)) without overflow."""

def logical_and(x1: Any, x2: Any) -> Any:
    """Tests whether both operands are true."""

def logical_not(x: Any) -> Any:
    """Negates bool."""

def logical_or(x1: Any, x2: Any) -> Any:
    """Tests whether either operand is true."""

def logical_xor(x1: Any, x2: Any) -> Any:
    """Tests whether exactly one operand is true."""

def logsumexp(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the logarithm of the sum of exp(x) over the axes, without overflow."""

def make_closure(func: Any, args: Any) -> Any:
    """Returns a function with the values it captures."""

def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """``value`` where the mask is true, else ``x``. Shapes: those of ``x`` and the mask broadcast together."""

def matmul(x1: Any, x2: Any, out_dtype: Any = None) -> Any:
    """Multiplies matrices; leading axes are broadcast, and a vector counts as a row on the left and as a column on the right."""

def max(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the largest element over the axes; NaN if any is NaN."""

def maximum(x1: Any, x2: Any) -> Any:
    """Returns the larger operand; NaN if either is NaN."""

def mean(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the mean over the axes."""

def median(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the median over the axes, the lower of two middle values or the first NaN, and with one axis its int64 index."""

def meshgrid(tensors: Any, indexing: builtins.str = "ij") -> Any:
    """Repeats each of n vectors over a grid with one axis per vector."""

def min(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the smallest element over the axes; NaN if any is NaN."""

def minimum(x1: Any, x2: Any) -> Any:
    """Returns the smaller operand; NaN if either is NaN."""

def mod(x1: Any, x2: Any) -> Any:
    """Returns the remainder of division towards 0, with the sign of x1; integers divided by 0 give 0."""

def multinomial_from_uniform(prob: Any, uniform_sample: Any, sample_indices: Any, dtype: builtins.str = "int64") -> Any:
    """The first class of a row of ``prob`` whose cumulative probability exceeds the uniform sample."""

def multiply(x1: Any, x2: Any) -> Any:
    """Returns x1 * x2."""

def negative(x: Any) -> Any:
    """Returns -x."""

def nonzero(x: Any) -> Any:
    """Returns the int64 indices of nonzero elements: one row per axis, one column per element."""

def not_equal(x1: Any, x2: Any) -> Any:
    """Tests x1 != x2."""

def null_value() -> Any:
    """Returns the value that stands for nothing."""

def one_hot(indices: Any, on_value: Any, off_value: Any, depth: Any, axis: Any = -1) -> Any:
    """Returns on_value where the position along a new axis equals the index, else off_value."""

def ones(shape: Any, dtype: Any) -> Any:
    """Returns a tensor of ones."""

def ones_like(x: Any, dtype: Any = None) -> Any:
    """Returns a tensor of ones in the shape of x."""

def outer(x1: Any, x2: Any) -> Any:
    """The product of each element of one vector with each of another."""

def permute_dims(x: Any, axes: Any = None) -> Any:
    """Permutes the axes."""

def power(x1: Any, x2: Any) -> Any:
    """Returns x1 to the power x2; integers wrap, and negative integer exponents give the integer part."""

def print(*values: Any, format: builtins.str = "") -> Any:
    """Prints values."""

def prod(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the product over the axes; bool is counted in int64."""

def quantize(data: Any, scale: Any, zero_point: Any, axis: Any = -1, out_dtype: builtins.str = "int8") -> Any:
    """``round(data / scale) + zero_point``, clipped to the range of ``out_dtype``; NaN gives zero_point."""

def repeat(data: Any, repeats: Any, axis: Any = None) -> Any:
    """Repeats each element along an axis."""

def reshape(x: Any, shape: Any) -> Any:
    """Returns the elements in row-major order in another shape."""

def reverse_sequence(data: Any, seq_lengths: Any, seq_axis: Any = 1, batch_axis: Any = 0) -> Any:
    """The first ``seq_lengths[b]`` elements of each sequence in reverse; a length beyond the axis reverses all of it."""

def right_shift(x1: Any, x2: Any) -> Any:
    """Shifts x1 right by x2 bits, keeping the sign; 0 or -1 where x2 is negative or at least the width."""

def round(x: Any) -> Any:
    """Rounds to the nearest integer, halves to the even one."""

def rsqrt(x: Any) -> Any:
    """Returns 1 / sqrt(x); infinity at 0, NaN below."""

def scatter_elements(data: Any, indices: Any, updates: Any, axis: Any = 0, reduction: builtins.str = "update") -> Any:
    """Returns data with data[indices[i, j], j] = updates[i, j] for axis 0, or combined by the reduction."""

def scatter_nd(data: Any, indices: Any, updates: Any, reduction: builtins.str = "update") -> Any:
    """Returns data with the slices at the index tuples set to updates, or combined by the reduction."""

def searchsorted(
    sorted_sequence: Any,
    values: Any,
    right: builtins.bool = False,
    out_int32: builtins.bool = False,
) -> Any:
    """Returns for each value the index that keeps the last axis of the sequence sorted when it is inserted there."""

def shape_of(expr: Any) -> Any:
    """Returns the shape of a tensor as a shape value."""

def shape_to_tensor(expr: Any) -> Any:
    """Converts a shape value to an int64 tensor of rank 1."""

def sigmoid(x: Any) -> Any:
    """Returns 1 / (1 + exp(-x))."""

def sign(x: Any) -> Any:
    """Returns -1, 0 or 1, the sign of x; NaN stays NaN."""

def sin(x: Any) -> Any:
    """Returns the sine of x in radians."""

def sinh(x: Any) -> Any:
    """Returns the hyperbolic sine."""

def size(expr: Any) -> Any:
    """Returns the number of elements as an int64 scalar tensor."""

def slice_scatter(input_tensor: Any, src: Any, start: Any, end: Any, step: Any = 1, axis: Any = 0) -> Any:
    """Returns input_tensor with the slice start:end:step of an axis replaced by src."""

def sort(x: Any, axis: Any = -1, descending: builtins.bool = False) -> Any:
    """Sorts along an axis; equal elements keep their order, and NaN counts as largest."""

def split(x: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """Splits a tensor along an axis into sections or at given positions."""

def sqrt(x: Any) -> Any:
    """Returns the square root; NaN below 0."""

def square(x: Any) -> Any:
    """Returns x * x."""

def squeeze(x: Any, axis: Any = None) -> Any:
    """Removes axes of size 1."""

def stack(tensors: Any, axis: Any = 0) -> Any:
    """Joins tensors of one shape along a new axis."""

def std(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the standard deviation over the axes, dividing by the number of elements."""

def strided_slice(
    x: Any,
    axes: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    assume_inbound: builtins.bool = False,
) -> Any:
    """Slices axes by begin, end and stride, as Python does: negative bounds count from the end, those outside are clamped."""

def subtract(x1: Any, x2: Any) -> Any:
    """Returns x1 - x2."""

def sum(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the sum over the axes; bool is counted in int64."""

def take(x: Any, indices: Any, axis: Any = None, mode: builtins.str = "fast") -> Any:
    """Picks slices along an axis by index."""

def tan(x: Any) -> Any:
    """Returns the tangent of x in radians."""

def tanh(x: Any) -> Any:
    """Returns the hyperbolic tangent."""

def tensor_to_shape(expr: Any) -> Any:
    """Converts an int64 tensor of rank 1 to a shape value."""

def tile(data: Any, repeats: Any) -> Any:
    """Repeats the whole tensor along each axis."""

def to_vdevice(data: Any, dst_vdevice: Any) -> Any:
    """Copies a tensor to a virtual device."""

def topk(
    data: Any,
    k: Any = 1,
    axis: Any = -1,
    ret_type: builtins.str = "both",
    largest: builtins.bool = True,
    dtype: builtins.str = "int32",
) -> Any:
    """Returns the k largest or smallest elements along an axis in order, and their indices; NaN counts as largest."""

def tril(x: Any, k: Any = 0) -> Any:
    """Returns the lower triangles of matrices, with zeros above diagonal k."""

def triu(x: Any, k: Any = 0) -> Any:
    """Returns the upper triangles of matrices, with zeros below diagonal k."""

def trunc(x: Any) -> Any:
    """Rounds towards 0."""

def unique(
    x: Any,
    sorted: builtins.bool = True,
    return_index: builtins.bool = False,
    return_inverse: builtins.bool = False,
    return_counts: builtins.bool = False,
    axis: Any = None,
) -> Any:
    """Returns the distinct elements or slices in rising order."""

def variance(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Returns the variance over the axes, dividing by the number of elements."""

def where(condition: Any, x1: Any, x2: Any) -> Any:
    """Selects x1 where the condition is true, else x2."""

def wrap_param(data: Any, dtype: builtins.str = "float32") -> Any:
    """A weight converted to a data type."""

def zeros(shape: Any, dtype: Any) -> Any:
    """Returns a tensor of zeros."""

def zeros_like(x: Any, dtype: Any = None) -> Any:
    """Returns a tensor of zeros in the shape of x."""

class builtin:
    """Operators ``R.builtin.*``."""

    @staticmethod
    def alloc_tensor(
        shape: Any,
        dtype: Any,
        runtime_device_index: Any = 0,
        storage_scope: builtins.str = "global",
    ) -> Any:
        """Allocates a tensor before memory is planned."""

    @staticmethod
    def stop_lift_params(x: Any) -> Any:
        """Returns x and stops lift_transform_params from moving what is computed from it."""

class grad:
    """Operators ``R.grad.*``."""

    @staticmethod
    def avg_pool2d_backward(
        output_grad: Any,
        data: Any,
        pool_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        ceil_mode: builtins.bool = False,
        count_include_pad: builtins.bool = False,
        layout: builtins.str = "NCHW",
        out_layout: Any = None,
    ) -> Any:
        """The gradient of nn.avg_pool2d with respect to ``data``: each element is shared out over its window."""

    @staticmethod
    def end_checkpoint(input: Any) -> Any:
        """Returns input and ends a segment that the backward pass computes again."""

    @staticmethod
    def max_pool2d_backward(
        output_grad: Any,
        data: Any,
        pool_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        ceil_mode: builtins.bool = False,
        count_include_pad: builtins.bool = False,
        layout: builtins.str = "NCHW",
        out_layout: Any = None,
    ) -> Any:
        """The gradient of nn.max_pool2d with respect to ``data``: each element goes to the first of the largest in its window."""

    @staticmethod
    def nll_loss_backward(
        output_grad: Any,
        predictions: Any,
        targets: Any,
        weights: Any = None,
        reduction: builtins.str = "mean",
        ignore_index: Any = -100,
    ) -> Any:
        """The gradient of nn.nll_loss with respect to ``predictions``."""

    @staticmethod
    def no_grad(input: Any) -> Any:
        """Returns input and lets no gradient flow through it."""

    @staticmethod
    def start_checkpoint(input: Any) -> Any:
        """Returns input and begins a segment that the backward pass computes again."""

    @staticmethod
    def take_backward(output_grad: Any, x: Any, indices: Any, axis: Any = 0) -> Any:
        """The gradient of take with respect to ``x``."""

class image:
    """Operators ``R.image.*``."""

    @staticmethod
    def affine_grid(data: Any, size: Any, align_corners: builtins.bool = True) -> Any:
        """The sampling grid of an image or volume of a size under affine maps; coordinates run from -1 to 1."""

    @staticmethod
    def grid_sample(
        data: Any,
        grid: Any,
        method: builtins.str = "bilinear",
        layout: builtins.str = "NCHW",
        padding_mode: builtins.str = "zeros",
        align_corners: builtins.bool = False,
    ) -> Any:
        """Samples images or volumes (layout NCDHW) at the coordinates of a grid; a NaN coordinate reads pixel 0."""

    @staticmethod
    def resize1d(
        data: Any,
        size: Any,
        roi: Any = None,
        layout: builtins.str = "NCW",
        method: builtins.str = "linear",
        coordinate_transformation_mode: builtins.str = "half_pixel",
        rounding_method: builtins.str = "round",
        cubic_alpha: Any = -0.75,
        cubic_exclude: builtins.bool = False,
        extrapolation_value: Any = 0.0,
        out_dtype: Any = None,
        scales: Any = None,
    ) -> Any:
        """Resizes the spatial axes by interpolation; coordinates are float64."""

    @staticmethod
    def resize2d(
        data: Any,
        size: Any,
        roi: Any = None,
        layout: builtins.str = "NCHW",
        method: builtins.str = "linear",
        coordinate_transformation_mode: builtins.str = "half_pixel",
        rounding_method: builtins.str = "round",
        cubic_alpha: Any = -0.75,
        cubic_exclude: builtins.bool = False,
        extrapolation_value: Any = 0.0,
        out_dtype: Any = None,
        scales: Any = None,
    ) -> Any:
        """Resizes the spatial axes by interpolation; coordinates are float64."""

    @staticmethod
    def resize3d(
        data: Any,
        size: Any,
        roi: Any = None,
        layout: builtins.str = "NCDHW",
        method: builtins.str = "linear",
        coordinate_transformation_mode: builtins.str = "half_pixel",
        rounding_method: builtins.str = "round",
        cubic_alpha: Any = -0.75,
        cubic_exclude: builtins.bool = False,
        extrapolation_value: Any = 0.0,
        out_dtype: Any = None,
        scales: Any = None,
    ) -> Any:
        """Resizes the spatial axes by interpolation; coordinates are float64."""

class inspect:
    """Operators ``R.inspect.*``."""

    @staticmethod
    def tensor_byte_offset(tensor: Any) -> Any:
        """Returns the offset of the first element in bytes."""

    @staticmethod
    def tensor_dtype_bits(tensor: Any) -> Any:
        """Returns the number of bits of an element."""

    @staticmethod
    def tensor_dtype_code(tensor: Any) -> Any:
        """Returns the DLPack code of the data type."""

    @staticmethod
    def tensor_dtype_lanes(tensor: Any) -> Any:
        """Returns the number of lanes of an element."""

    @staticmethod
    def tensor_elem_offset(tensor: Any) -> Any:
        """Returns the offset of the first element in elements."""

    @staticmethod
    def tensor_ndim(tensor: Any) -> Any:
        """Returns the rank of a tensor at run time."""

    @staticmethod
    def tensor_shape_i(tensor: Any, axis: Any) -> Any:
        """Returns one dimension of a tensor at run time."""

    @staticmethod
    def tensor_stride_i(tensor: Any, axis: Any) -> Any:
        """Returns one stride of a tensor at run time, in elements."""

class memory:
    """Operators ``R.memory.*``."""

    @staticmethod
    def alloc_storage(size: Any, virtual_device_index: Any, storage_scope: Any, dtype: Any) -> Any:
        """Allocates memory in which tensors are placed."""

    @staticmethod
    def alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any, runtime_device_index: Any = 0) -> Any:
        """Places a tensor in a storage."""

    @staticmethod
    def ensure_zero_offset(data: Any) -> Any:
        """Returns the tensor, copied if its data does not start at the beginning of its memory."""

    @staticmethod
    def kill_storage(storage: Any) -> Any:
        """Marks the last use of a storage."""

    @staticmethod
    def kill_tensor(tensor: Any) -> Any:
        """Marks the last use of a tensor."""

    @staticmethod
    def view(data: Any, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> Any:
        """Returns the memory of data with another shape, data type or start, without a copy."""

class nn:
    """Operators ``R.nn.*``."""

    @staticmethod
    def adaptive_avg_pool1d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the means of windows chosen so that the output has a given size."""

    @staticmethod
    def adaptive_avg_pool2d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCHW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the means of windows chosen so that the output has a given size."""

    @staticmethod
    def adaptive_avg_pool3d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCDHW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the means of windows chosen so that the output has a given size."""

    @staticmethod
    def adaptive_max_pool1d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the largest elements of windows chosen so that the output has a given size."""

    @staticmethod
    def adaptive_max_pool2d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCHW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the largest elements of windows chosen so that the output has a given size."""

    @staticmethod
    def adaptive_max_pool3d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCDHW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the largest elements of windows chosen so that the output has a given size."""

    @staticmethod
    def attention(
        query: Any,
        key: Any,
        value: Any,
        bias: Any = None,
        scale: Any = None,
        causal_mask: Any = None,
        window_size: Any = None,
        layout: builtins.str = "BSHD",
        empty: Any = None,
    ) -> Any:
        """Returns softmax(query key^T * scale + bias) value per head (online softmax over blocks: Dao et al. 2022)."""

    @staticmethod
    def attention_bias(
        query: Any,
        key: Any,
        value: Any,
        bias: Any,
        scale: Any = None,
        causal_mask: Any = None,
        window_size: Any = None,
        layout: builtins.str = "BSHD",
        empty: Any = None,
    ) -> Any:
        """Returns nn.attention with a bias that must be given."""

    @staticmethod
    def avg_pool1d(
        data: Any,
        pool_size: Any = (1,),
        strides: Any = (1,),
        padding: Any = (0,),
        dilation: Any = (1,),
        ceil_mode: builtins.bool = False,
        count_include_pad: builtins.bool = True,
        layout: builtins.str = "NCW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the mean of each window; integers round towards 0."""

    @staticmethod
    def avg_pool2d(
        data: Any,
        pool_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        ceil_mode: builtins.bool = False,
        count_include_pad: builtins.bool = False,
        layout: builtins.str = "NCHW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the mean of each window; integers round towards 0."""

    @staticmethod
    def avg_pool3d(
        data: Any,
        pool_size: Any = (1, 1, 1),
        strides: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        dilation: Any = (1, 1, 1),
        ceil_mode: builtins.bool = False,
        count_include_pad: builtins.bool = True,
        layout: builtins.str = "NCDHW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the mean of each window; integers round towards 0."""

    @staticmethod
    def batch_flatten(data: Any) -> Any:
        """``data`` reshaped to two axes, the first one kept."""

    @staticmethod
    def batch_norm(
        data: Any,
        gamma: Any,
        beta: Any,
        moving_mean: Any,
        moving_var: Any,
        axis: Any = 1,
        epsilon: Any = 1e-05,
        center: builtins.bool = True,
        scale: builtins.bool = True,
        momentum: Any = 0.1,
        training: builtins.bool = False,
    ) -> Any:
        """Normalises each channel with the moving mean and variance, or those of the batch; also returns the new moving values."""

    @staticmethod
    def conv1d(
        data: Any,
        weight: Any,
        strides: Any = (1,),
        padding: Any = (0,),
        dilation: Any = (1,),
        groups: Any = 1,
        data_layout: builtins.str = "NCW",
        kernel_layout: builtins.str = "OIW",
        out_layout: Any = None,
        out_dtype: Any = None,
    ) -> Any:
        """Convolves data with weight over the spatial axes, without flipping the kernel."""

    @staticmethod
    def conv1d_transpose(
        data: Any,
        weight: Any,
        strides: Any = (1,),
        padding: Any = (0,),
        output_padding: Any = (0,),
        dilation: Any = (1,),
        groups: Any = 1,
        data_layout: builtins.str = "NCW",
        kernel_layout: builtins.str = "IOW",
        out_layout: Any = None,
        out_dtype: Any = None,
    ) -> Any:
        """Applies the transpose of nn.conv1d with the same weight and options."""

    @staticmethod
    def conv2d(
        data: Any,
        weight: Any,
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: Any = 1,
        data_layout: builtins.str = "NCHW",
        kernel_layout: builtins.str = "OIHW",
        out_layout: Any = None,
        out_dtype: Any = None,
    ) -> Any:
        """Convolves data with weight over the spatial axes, without flipping the kernel."""

    @staticmethod
    def conv2d_transpose(
        data: Any,
        weight: Any,
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        output_padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: Any = 1,
        data_layout: builtins.str = "NCHW",
        kernel_layout: builtins.str = "IOHW",
        out_layout: Any = None,
        out_dtype: Any = None,
    ) -> Any:
        """Applies the transpose of nn.conv2d with the same weight and options."""

    @staticmethod
    def conv3d(
        data: Any,
        weight: Any,
        strides: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        dilation: Any = (1, 1, 1),
        groups: Any = 1,
        data_layout: builtins.str = "NCDHW",
        kernel_layout: builtins.str = "OIDHW",
        out_layout: Any = None,
        out_dtype: Any = None,
    ) -> Any:
        """Convolves data with weight over the spatial axes, without flipping the kernel."""

    @staticmethod
    def conv3d_transpose(
        data: Any,
        weight: Any,
        strides: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        output_padding: Any = (0, 0, 0),
        dilation: Any = (1, 1, 1),
        groups: Any = 1,
        data_layout: builtins.str = "NCDHW",
        kernel_layout: builtins.str = "IODHW",
        out_layout: Any = None,
        out_dtype: Any = None,
    ) -> Any:
        """Applies the transpose of nn.conv3d with the same weight and options."""

    @staticmethod
    def cross_entropy_with_logits(predictions: Any, labels: Any) -> Any:
        """``-sum(predictions * labels)``, divided by the size of the first axis if there are several."""

    @staticmethod
    def dropout(data: Any, rate: Any = 0.5) -> Any:
        """Returns data unchanged and a mask of ones: dropout at inference."""

    @staticmethod
    def gelu(data: Any) -> Any:
        """Returns x times the standard normal distribution function of x (Hendrycks and Gimpel 2016)."""

    @staticmethod
    def gelu_tanh(data: Any) -> Any:
        """Returns the tanh approximation of gelu."""

    @staticmethod
    def group_norm(
        data: Any,
        gamma: Any,
        beta: Any,
        num_groups: Any,
        channel_axis: Any = 1,
        axes: Any = None,
        epsilon: Any = 1e-05,
        center: builtins.bool = True,
        scale: builtins.bool = True,
    ) -> Any:
        """Normalises groups of channels to mean 0 and variance 1, then scales by gamma and shifts by beta per channel."""

    @staticmethod
    def grouped_matmul(x: Any, weight: Any, ends: Any) -> Any:
        """Multiplies consecutive groups of rows of x by a matrix each; rows after the last group give zeros."""

    @staticmethod
    def gru(gates: Any, hidden: Any, weight: Any, bias: Any = None, reverse: builtins.bool = False) -> Any:
        """Runs a GRU layer, gates in the order reset, update, new; returns all outputs and the last state."""

    @staticmethod
    def instance_norm(
        data: Any,
        gamma: Any,
        beta: Any,
        channel_axis: Any = 1,
        axes: Any = None,
        epsilon: Any = 1e-05,
        center: builtins.bool = True,
        scale: builtins.bool = True,
    ) -> Any:
        """Normalises each channel of each instance to mean 0 and variance 1, then scales by gamma and shifts by beta."""

    @staticmethod
    def layer_norm(
        data: Any,
        gamma: Any,
        beta: Any,
        axes: Any,
        epsilon: Any = 1e-05,
        center: builtins.bool = True,
        scale: builtins.bool = True,
    ) -> Any:
        """Normalises over the axes to mean 0 and variance 1, then scales by gamma and shifts by beta."""

    @staticmethod
    def leakyrelu(data: Any, alpha: Any = 0.01) -> Any:
        """Returns x if positive, else alpha * x."""

    @staticmethod
    def log_softmax(data: Any, axis: Any = -1) -> Any:
        """Returns the logarithm of softmax along an axis, without overflow."""

    @staticmethod
    def lstm(gates: Any, hidden: Any, cell: Any, weight: Any, reverse: builtins.bool = False) -> Any:
        """Runs an LSTM layer, gates in the order input, forget, cell, output; returns all outputs and the last two states."""

    @staticmethod
    def max_pool1d(
        data: Any,
        pool_size: Any = (1,),
        strides: Any = (1,),
        padding: Any = (0,),
        dilation: Any = (1,),
        ceil_mode: builtins.bool = False,
        count_include_pad: builtins.bool = False,
        layout: builtins.str = "NCW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the largest element of each window; NaN if any is NaN."""

    @staticmethod
    def max_pool2d(
        data: Any,
        pool_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        ceil_mode: builtins.bool = False,
        count_include_pad: builtins.bool = False,
        layout: builtins.str = "NCHW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the largest element of each window; NaN if any is NaN."""

    @staticmethod
    def max_pool3d(
        data: Any,
        pool_size: Any = (1, 1, 1),
        strides: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        dilation: Any = (1, 1, 1),
        ceil_mode: builtins.bool = False,
        count_include_pad: builtins.bool = False,
        layout: builtins.str = "NCDHW",
        out_layout: Any = None,
    ) -> Any:
        """Returns the largest element of each window; NaN if any is NaN."""

    @staticmethod
    def nll_loss(
        predictions: Any,
        targets: Any,
        weights: Any = None,
        reduction: builtins.str = "mean",
        ignore_index: Any = -100,
    ) -> Any:
        """Returns minus the log probability of each target class, weighted; the mean divides by the sum of the weights."""

    @staticmethod
    def pad(data: Any, pad_width: Any, pad_mode: builtins.str = "constant", pad_value: Any = 0.0) -> Any:
        """Pads each axis with a constant, or with the tensor reflected, replicated or wrapped around."""

    @staticmethod
    def pixel_shuffle(data: Any, upscale_factor: Any) -> Any:
        """Channels rearranged into blocks of pixels: (..., c * r * r, h, w) to (..., c, h * r, w * r)."""

    @staticmethod
    def prelu(data: Any, alpha: Any, axis: Any = 1) -> Any:
        """``data`` where it is positive, else times the slope of its channel. Shapes: alpha is (channels,) or (1,)."""

    @staticmethod
    def relu(data: Any) -> Any:
        """Returns max(x, 0); NaN stays NaN."""

    @staticmethod
    def relu6(data: Any) -> Any:
        """Limits x to [0, 6]; NaN stays NaN."""

    @staticmethod
    def rms_norm(data: Any, weight: Any, axes: Any = (-1,), epsilon: Any = 1e-05) -> Any:
        """Divides by the root mean square over the axes, then multiplies by weight."""

    @staticmethod
    def rnn(
        gates: Any,
        hidden: Any,
        weight: Any,
        nonlinearity: builtins.str = "tanh",
        reverse: builtins.bool = False,
    ) -> Any:
        """Runs an Elman recurrent layer; returns all outputs and the last state."""

    @staticmethod
    def selu(data: Any) -> Any:
        """Returns the scaled exponential linear unit (Klambauer et al. 2017)."""

    @staticmethod
    def silu(data: Any) -> Any:
        """Returns x * sigmoid(x)."""

    @staticmethod
    def softmax(data: Any, axis: Any = -1) -> Any:
        """Returns exp(x) divided by its sum along an axis, without overflow."""

    @staticmethod
    def softplus(data: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
        """Returns log(1 + exp(beta * x)) / beta, and x itself where beta * x is above the threshold."""

class vm:
    """Operators ``R.vm.*``."""

    @staticmethod
    def alloc_storage(shape: Any, runtime_device_index: Any, dtype: Any, storage_scope: builtins.str = "global") -> Any:
        """Allocates memory from the VM's allocator."""

    @staticmethod
    def alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any, runtime_device_index: Any = 0) -> Any:
        """Places a tensor in a storage of the VM."""

    @staticmethod
    def call_tir_dyn(func: Any, args: Any) -> Any:
        """Calls a tensor program with its outputs among the arguments."""

    @staticmethod
    def kill_object(obj: Any) -> Any:
        """Drops the VM's reference to an object."""

call_tir = call_dps

call_dps_packed = call_dps

call_tir_inplace = call_inplace

call_tir_with_grad = call_dps_with_grad

match_shape = match_cast

ShapeExpr = shape

PrimValue = prim_value

StringImm = str

DataTypeImm = dtype
