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

def linear(data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Any:
    """``data @ weight.T + bias``: short for ``R.add(R.matmul(data, R.permute_dims(weight)), bias)``."""

def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """``value`` where the mask is true, else ``x``: short for ``R.where``."""

def abs(x: Any) -> Any:
    """Absolute value."""

def acos(x: Any) -> Any:
    """Inverse cosine, in radians."""

def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine."""

def add(x1: Any, x2: Any) -> Any:
    """x1 + x2."""

def all(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Are all elements over axes not 0."""

def any(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Is any element over axes not 0."""

def arange(start: Any, end: Any = None, step: Any = None, dtype: Any = None) -> Any:
    """start, start + step, ... below end; with one bound it is the end."""

def argmax(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Index of the largest element, the first of equal ones; NaN is largest."""

def argmin(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Index of the smallest element, the first of equal ones; NaN is smallest."""

def argsort(data: Any, axis: Any = -1, descending: builtins.bool = False, dtype: builtins.str = "int32") -> Any:
    """Indices that sort along an axis; equal elements keep their order."""

def asin(x: Any) -> Any:
    """Inverse sine, in radians."""

def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine."""

def assert_op(condition: Any, *values: Any, format: builtins.str = "") -> Any:
    """Stop with a message unless the condition holds."""

def astype(x: Any, dtype: Any) -> Any:
    """The values in another data type; floats to integers truncate."""

def atan(x: Any) -> Any:
    """Inverse tangent, in radians."""

def atan2(x1: Any, x2: Any) -> Any:
    """Angle of the point (x2, x1), in radians."""

def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent."""

def bitwise_and(x1: Any, x2: Any) -> Any:
    """Bits set in both."""

def bitwise_not(x: Any) -> Any:
    """Complement of every bit; logical negation of bool."""

def bitwise_or(x1: Any, x2: Any) -> Any:
    """Bits set in either."""

def bitwise_xor(x1: Any, x2: Any) -> Any:
    """Bits set in one of two."""

def broadcast_to(x: Any, shape: Any) -> Any:
    """Repeated along axes of size 1 up to a shape."""

def bucketize(
    input_tensor: Any,
    boundaries: Any,
    out_int32: builtins.bool = False,
    right: builtins.bool = False,
) -> Any:
    """For each value the number of rising boundaries below it (not above it, with right)."""

def ceil(x: Any) -> Any:
    """Smallest integer not below x."""

def clip(x: Any, min: Any, max: Any) -> Any:
    """x limited to [min, max]; NaN stays NaN."""

def collapse_sum_like(data: Any, collapse_target: Any) -> Any:
    """collapse_sum_to the shape of a tensor."""

def collapse_sum_to(data: Any, shape: Any) -> Any:
    """Sum over the axes a tensor of the shape was broadcast along."""

def concat(tensors: Any, axis: Any = 0) -> Any:
    """Tensors joined along an axis."""

def cos(x: Any) -> Any:
    """Cosine of radians."""

def cosh(x: Any) -> Any:
    """Hyperbolic cosine."""

def cummax(data: Any, axis: Any) -> Any:
    """Largest element so far along an axis and its index, the last of equal ones; NaN stays."""

def cummin(data: Any, axis: Any) -> Any:
    """Smallest element so far along an axis and its index, the last of equal ones; NaN stays."""

def cumprod(data: Any, axis: Any = None, dtype: Any = None, exclusive: builtins.bool = False) -> Any:
    """Running product along an axis; None flattens first."""

def cumsum(data: Any, axis: Any = None, dtype: Any = None, exclusive: builtins.bool = False) -> Any:
    """Running sum along an axis; None flattens first."""

def dequantize(data: Any, scale: Any, zero_point: Any, axis: Any = -1, out_dtype: builtins.str = "float32") -> Any:
    """(data - zero_point) * scale in a float type."""

def digamma(x: Any) -> Any:
    """Derivative of the logarithm of the gamma function."""

def divide(x1: Any, x2: Any) -> Any:
    """x1 / x2 of floats."""

def dynamic_strided_slice(x: Any, begin: Any, end: Any, strides: Any) -> Any:
    """Part of a tensor: begin, end and stride of every axis in tensors, as in Python."""

def einsum(operands: Any, subscripts: Any) -> Any:
    """Sum of products of a tuple of tensors, as the letters of the subscripts say."""

def equal(x1: Any, x2: Any) -> Any:
    """x1 == x2."""

def erf(x: Any) -> Any:
    """Error function."""

def erfc(x: Any) -> Any:
    """1 - erf(x), exact far from 0."""

def erfcx(x: Any) -> Any:
    """exp(x^2) times R.erfc of x, which does not underflow."""

def erfinv(x: Any) -> Any:
    """Inverse of the error function."""

def ewise_fma(x1: Any, x2: Any, x3: Any) -> Any:
    """x1 * x2 + x3."""

def exp(x: Any) -> Any:
    """e to the power x."""

def exp2(x: Any) -> Any:
    """2 to the power x."""

def expand_dims(x: Any, axis: Any) -> Any:
    """Axes of size 1 put in."""

def expm1(x: Any) -> Any:
    """exp(x) - 1, exact near 0."""

def eye(n: Any, m: Any = None, k: Any = 0, dtype: builtins.str = "float32") -> Any:
    """Ones on diagonal k, zeros elsewhere."""

def eye_like(x: Any, k: Any = 0, dtype: Any = None) -> Any:
    """Ones on diagonal k, zeros elsewhere, in the shape of a matrix."""

def flatten(x: Any) -> Any:
    """All elements in one axis."""

def flip(data: Any, axis: Any) -> Any:
    """Elements along an axis in reverse order."""

def floor(x: Any) -> Any:
    """Largest integer not above x."""

def floor_divide(x1: Any, x2: Any) -> Any:
    """Quotient rounded down; integers by 0 give 0."""

def floor_mod(x1: Any, x2: Any) -> Any:
    """Remainder with the sign of x2; integers by 0 give 0."""

def frexp(x: Any) -> Any:
    """Mantissa, at least 0.5 and below 1 in size, and exponent of 2 whose product is x; exponent 0 for 0, NaN and infinities."""

def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """A tensor of one value."""

def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    """One value in the shape of a tensor."""

def gather_elements(data: Any, indices: Any, axis: Any = 0) -> Any:
    """out[i, j] = data[indices[i, j], j] for axis 0."""

def gather_nd(data: Any, indices: Any, batch_dims: Any = 0) -> Any:
    """Slices of data at the index tuples in the last axis of indices."""

def gcd(x1: Any, x2: Any) -> Any:
    """Greatest common divisor of integers."""

def greater(x1: Any, x2: Any) -> Any:
    """x1 > x2."""

def greater_equal(x1: Any, x2: Any) -> Any:
    """x1 >= x2."""

def hamming_window(
    window_size: Any,
    periodic: builtins.bool = True,
    alpha: Any = 0.54,
    beta: Any = 0.46,
    dtype: builtins.str = "float32",
) -> Any:
    """alpha - beta * cos(2 pi i / n), over n = window_size (periodic) or window_size - 1."""

def hint_on_device(x: Any, device: Any, memory_scope: builtins.str = "global") -> Any:
    """Says on which device the value should live; a copy where it does not."""

def i0(x: Any) -> Any:
    """Modified Bessel function of order 0."""

def i0e(x: Any) -> Any:
    """exp(-|x|) times R.i0 of x."""

def i1(x: Any) -> Any:
    """Modified Bessel function of order 1."""

def i1e(x: Any) -> Any:
    """exp(-|x|) times R.i1 of x."""

def index_put(data: Any, indices: Any, values: Any, accumulate: builtins.bool = False) -> Any:
    """data with the elements at index tensors set to values, or added to."""

def index_tensor(data: Any, indices: Any) -> Any:
    """Elements at broadcast index tensors, one for each leading axis."""

def isfinite(x: Any) -> Any:
    """Neither infinite nor NaN."""

def isinf(x: Any) -> Any:
    """Infinite, of either sign."""

def isnan(x: Any) -> Any:
    """Not a number."""

def layout_transform(
    x: Any,
    index_map: Any,
    pad_value: Any = None,
    axis_separators: Any = None,
    input_axis_separators: Any = None,
) -> Any:
    """The elements in another layout: element ``i`` stands at ``index_map(i)``; dimensions the map divides are rounded up."""

def lcm(x1: Any, x2: Any) -> Any:
    """Least common multiple of integers; 0 with anything is 0."""

def left_shift(x1: Any, x2: Any) -> Any:
    """Bits moved up; 0 from the width on."""

def less(x1: Any, x2: Any) -> Any:
    """x1 < x2."""

def less_equal(x1: Any, x2: Any) -> Any:
    """x1 <= x2."""

def lgamma(x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function."""

def log(x: Any) -> Any:
    """Natural logarithm."""

def log10(x: Any) -> Any:
    """Logarithm to base 10."""

def log1p(x: Any) -> Any:
    """Natural logarithm of 1 + x, exact near 0."""

def log2(x: Any) -> Any:
    """Logarithm to base 2."""

def log_add_exp(x1: Any, x2: Any) -> Any:
    """log(exp(x1) + exp(x2)) without overflow."""

def logcumsumexp(data: Any, axis: Any) -> Any:
    """Logarithm of the running sum of exponentials along an axis, without overflow."""

def logical_and(x1: Any, x2: Any) -> Any:
    """Both hold."""

def logical_not(x: Any) -> Any:
    """Logical negation of bool."""

def logical_or(x1: Any, x2: Any) -> Any:
    """One holds."""

def logical_xor(x1: Any, x2: Any) -> Any:
    """Exactly one holds."""

def logsumexp(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Logarithm of the sum of exponentials over axes, without overflow."""

def make_closure(func: Any, args: Any) -> Any:
    """Function with its captured values as a value."""

def matmul(x1: Any, x2: Any, out_dtype: Any = None) -> Any:
    """Matrix product with numpy's rules for batches and vectors."""

def max(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Largest over axes; NaN if any is NaN."""

def maximum(x1: Any, x2: Any) -> Any:
    """Larger of two; NaN if either is NaN."""

def mean(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Mean over axes."""

def median(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """The lower of the middle values over axes, and its index where it is one axis; NaN if any is NaN (the last of them)."""

def meshgrid(tensors: Any, indexing: builtins.str = "ij") -> Any:
    """Each of n vectors repeated over a grid with one axis for each; indexing xy swaps the first two axes."""

def min(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Smallest over axes; NaN if any is NaN."""

def minimum(x1: Any, x2: Any) -> Any:
    """Smaller of two; NaN if either is NaN."""

def mod(x1: Any, x2: Any) -> Any:
    """Remainder with the sign of x1; integers by 0 give 0."""

def multinomial_from_uniform(prob: Any, uniform_sample: Any, sample_indices: Any, dtype: builtins.str = "int64") -> Any:
    """For each uniform sample the first class of its row whose running probability is above it."""

def multiply(x1: Any, x2: Any) -> Any:
    """x1 * x2."""

def negative(x: Any) -> Any:
    """-x."""

def nextafter(x1: Any, x2: Any) -> Any:
    """The float next to x1 on the way to x2."""

def nonzero(x: Any) -> Any:
    """Indices of the elements that are not 0, one row for each axis and one column for each element."""

def not_equal(x1: Any, x2: Any) -> Any:
    """x1 != x2."""

def null_value() -> Any:
    """The value that stands for nothing."""

def one_hot(indices: Any, on_value: Any, off_value: Any, depth: Any, axis: Any = -1) -> Any:
    """on_value where the position along the new axis equals the index."""

def ones(shape: Any, dtype: Any) -> Any:
    """A tensor of ones."""

def ones_like(x: Any, dtype: Any = None) -> Any:
    """A tensor of ones in the shape of another."""

def outer(x1: Any, x2: Any) -> Any:
    """Products of all pairs of elements of two vectors."""

def permute_dims(x: Any, axes: Any = None) -> Any:
    """Axes in another order; None reverses them."""

def polygamma(x: Any, n: Any) -> Any:
    """The n-th derivative of digamma, n at least 1."""

def power(x1: Any, x2: Any) -> Any:
    """x1 to the power x2; integers wrap, and a negative exponent gives the integer part."""

def print(*values: Any, format: builtins.str = "") -> Any:
    """Print values through a format with {} places."""

def prod(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Product over axes; of bool int64."""

def quantize(data: Any, scale: Any, zero_point: Any, axis: Any = -1, out_dtype: builtins.str = "int8") -> Any:
    """round(data / scale) + zero_point limited to the integers of out_dtype; NaN gives zero_point."""

def reinterpret(x: Any, dtype: Any) -> Any:
    """The memory of x read as another dtype; its last axis grows or shrinks with the size of an element."""

def repeat(data: Any, repeats: Any, axis: Any = None) -> Any:
    """Each element several times in a row."""

def reshape(x: Any, shape: Any) -> Any:
    """The same elements in another shape; one dimension may be -1."""

def reverse_sequence(data: Any, seq_lengths: Any, seq_axis: Any = 1, batch_axis: Any = 0) -> Any:
    """The first seq_lengths[b] elements of each sequence in reverse; a length above the axis counts as the whole."""

def right_shift(x1: Any, x2: Any) -> Any:
    """Bits moved down, keeping the sign."""

def round(x: Any) -> Any:
    """Nearest integer, halves to even."""

def rsqrt(x: Any) -> Any:
    """1 over the square root."""

def scatter_elements(data: Any, indices: Any, updates: Any, axis: Any = 0, reduction: builtins.str = "update") -> Any:
    """data with data[indices[i, j], j] = updates[i, j] for axis 0, or combined by the reduction."""

def scatter_nd(data: Any, indices: Any, updates: Any, reduction: builtins.str = "update") -> Any:
    """data with the slices at the index tuples in the last axis of indices set to updates, or combined by the reduction."""

def searchsorted(
    sorted_sequence: Any,
    values: Any,
    right: builtins.bool = False,
    out_int32: builtins.bool = False,
) -> Any:
    """Where each value would be put into the sorted last axis: before equal elements, or after them with right."""

def shape_of(x: Any) -> Any:
    """Shape of a tensor as a value."""

def shape_to_tensor(shape: Any) -> Any:
    """Shape value as an int64 tensor."""

def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""

def sign(x: Any) -> Any:
    """-1, 0 or 1; NaN stays NaN."""

def sin(x: Any) -> Any:
    """Sine of radians."""

def sinh(x: Any) -> Any:
    """Hyperbolic sine."""

def size(x: Any) -> Any:
    """Number of elements as an int64 scalar tensor."""

def slice_scatter(input_tensor: Any, src: Any, start: Any, end: Any, step: Any = 1, axis: Any = 0) -> Any:
    """A tensor with input_tensor[start:end:step] along an axis set to src."""

def sort(data: Any, axis: Any = -1, descending: builtins.bool = False) -> Any:
    """Elements along an axis in order, NaN largest."""

def split(x: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """Parts along an axis: a number of sections, of which only the last ones may be smaller, or the positions of the cuts."""

def sqrt(x: Any) -> Any:
    """Square root."""

def square(x: Any) -> Any:
    """x * x."""

def squeeze(x: Any, axis: Any = None) -> Any:
    """Axes of size 1 left out."""

def stack(tensors: Any, axis: Any = 0) -> Any:
    """Tensors of one shape joined along a new axis."""

def std(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Square root of the variance."""

def strided_slice(
    x: Any,
    axes: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    assume_inbound: builtins.bool = False,
) -> Any:
    """Part of a tensor: begin, end and stride per axis, as in Python."""

def subtract(x1: Any, x2: Any) -> Any:
    """x1 - x2."""

def sum(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Sum over axes; of bool int64."""

def take(x: Any, indices: Any, axis: Any = None, mode: builtins.str = "fast") -> Any:
    """Slices along an axis chosen by indices."""

def tan(x: Any) -> Any:
    """Tangent of radians."""

def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""

def tensor_to_shape(x: Any) -> Any:
    """Rank-1 int64 tensor as a shape value."""

def tile(data: Any, repeats: Any) -> Any:
    """The whole tensor several times along each axis."""

def to_vdevice(x: Any, dst_vdevice: Any) -> Any:
    """Copy to a virtual device."""

def topk(
    data: Any,
    k: Any = 1,
    axis: Any = -1,
    ret_type: builtins.str = "both",
    largest: builtins.bool = True,
    dtype: builtins.str = "int32",
) -> Any:
    """The k largest (or smallest) elements along an axis (all of a symbolic axis with fewer), in order, and their indices."""

def tril(x: Any, k: Any = 0) -> Any:
    """Lower triangle of matrices, zero above diagonal k."""

def triu(x: Any, k: Any = 0) -> Any:
    """Upper triangle of matrices, zero below diagonal k."""

def trunc(x: Any) -> Any:
    """Integer part."""

def unique(
    x: Any,
    sorted: builtins.bool = True,
    return_index: builtins.bool = False,
    return_inverse: builtins.bool = False,
    return_counts: builtins.bool = False,
    axis: Any = None,
) -> Any:
    """Different elements (or slices along an axis) in order, and where wanted their first index, the way back and how often."""

def variance(x: Any, axis: Any = None, keepdims: builtins.bool = False) -> Any:
    """Mean squared distance from the mean over axes."""

def where(condition: Any, x1: Any, x2: Any) -> Any:
    """x1 where the condition holds, else x2."""

def wrap_param(data: Any, dtype: builtins.str = "float32") -> Any:
    """A weight, seen in a data type."""

def zeros(shape: Any, dtype: Any) -> Any:
    """A tensor of zeros."""

def zeros_like(x: Any, dtype: Any = None) -> Any:
    """A tensor of zeros in the shape of another."""

class builtin:
    """Operators ``R.builtin.*``."""

    @staticmethod
    def alloc_tensor(
        shape: Any,
        dtype: Any,
        runtime_device_index: Any = 0,
        storage_scope: builtins.str = "global",
    ) -> Any:
        """New memory of a shape and dtype, not planned."""

    @staticmethod
    def stop_lift_params(x: Any) -> Any:
        """Identity that keeps weight computations behind it out of transform_params."""

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
        """Gradient of nn.avg_pool2d with respect to data, for layout NCHW."""

    @staticmethod
    def end_checkpoint(input: Any) -> Any:
        """The tensor itself; a segment that is computed again for the gradient ends."""

    @staticmethod
    def linear_recurrence(factor: Any, term: Any, start: Any, reverse: builtins.bool = False) -> Any:
        """States of all steps of y[t] = factor[t] * y[t - 1] + term[t]: the cells of an LSTM."""

    @staticmethod
    def lstm_backward(
        output_grad: Any,
        hidden_grad: Any,
        keep: Any,
        factors: Any,
        weight: Any,
        cell_grad: Any,
        through: Any,
        reverse: builtins.bool = False,
    ) -> Any:
        """Gradients of the outputs and cells of all steps of nn.lstm and of both first states; weight is (4 * hidden, hidden)."""

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
        """Gradient of nn.max_pool2d with respect to data, for layout NCHW."""

    @staticmethod
    def nll_loss_backward(
        output_grad: Any,
        predictions: Any,
        targets: Any,
        weights: Any = None,
        reduction: builtins.str = "mean",
        ignore_index: Any = -100,
    ) -> Any:
        """Gradient of nn.nll_loss with respect to predictions."""

    @staticmethod
    def no_grad(input: Any) -> Any:
        """The tensor itself; no gradient flows through it."""

    @staticmethod
    def recurrent_backward(
        output_grad: Any,
        hidden_grad: Any,
        keep: Any,
        factors: Any,
        weight: Any,
        reverse: builtins.bool = False,
    ) -> Any:
        """Gradients of the outputs of all steps of nn.rnn or nn.gru and of the first state; weight is (n * hidden, hidden)."""

    @staticmethod
    def start_checkpoint(input: Any) -> Any:
        """The tensor itself; a segment that is computed again for the gradient begins."""

    @staticmethod
    def take_backward(output_grad: Any, x: Any, indices: Any, axis: Any = 0) -> Any:
        """Gradient of take with respect to x."""

class image:
    """Operators ``R.image.*``."""

    @staticmethod
    def affine_grid(data: Any, size: Any, align_corners: builtins.bool = True) -> Any:
        """Places of the pixels of an image of a given size under affine maps (batch, 2, 3)."""

    @staticmethod
    def grid_sample(
        data: Any,
        grid: Any,
        method: builtins.str = "bilinear",
        layout: builtins.str = "NCHW",
        padding_mode: builtins.str = "zeros",
        align_corners: builtins.bool = True,
    ) -> Any:
        """Images read at the places of a grid (batch, 2, height, width): bilinear, nearest or bicubic; volumes alike (NCDHW)."""

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
        """Signals in another length: nearest_neighbor, linear or cubic."""

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
        """Images in another height and width: nearest_neighbor, linear or cubic."""

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
        """Volumes in another size: nearest_neighbor, linear or cubic."""

class inspect:
    """Operators ``R.inspect.*``."""

    @staticmethod
    def tensor_byte_offset(tensor: Any) -> Any:
        """Byte offset of the first element."""

    @staticmethod
    def tensor_dtype_bits(tensor: Any) -> Any:
        """Bits of an element."""

    @staticmethod
    def tensor_dtype_code(tensor: Any) -> Any:
        """DLPack code of the dtype."""

    @staticmethod
    def tensor_dtype_lanes(tensor: Any) -> Any:
        """Lanes of an element."""

    @staticmethod
    def tensor_elem_offset(tensor: Any) -> Any:
        """Element offset of the first element."""

    @staticmethod
    def tensor_ndim(tensor: Any) -> Any:
        """Rank of a run-time tensor."""

    @staticmethod
    def tensor_shape_i(tensor: Any, axis: Any) -> Any:
        """One dimension of a run-time tensor."""

    @staticmethod
    def tensor_stride_i(tensor: Any, axis: Any) -> Any:
        """One stride, in elements."""

class linalg:
    """Operators ``R.linalg.*``."""

    @staticmethod
    def cholesky(a: Any) -> Any:
        """Lower triangular factor l of positive definite matrices a = l l^T; only the lower triangle is read."""

    @staticmethod
    def eigh(a: Any, UPLO: builtins.str = "L") -> Any:
        """Eigenvalues of symmetric matrices in rising order and the eigenvectors as columns; only one triangle is read."""

    @staticmethod
    def geqrf(a: Any) -> Any:
        """Householder's reflections that make matrices upper triangular: R with the vectors below its diagonal, and the
        scales tau.
        """

    @staticmethod
    def householder_product(a: Any, tau: Any) -> Any:
        """The first columns (as many as a has) of the product of the reflections that R.linalg.geqrf gives."""

    @staticmethod
    def lu_factor(a: Any) -> Any:
        """LU factors of matrices in one tensor (the unit diagonal of L left out) and the row exchanges."""

    @staticmethod
    def lu_solve(a: Any, pivots: Any, b: Any) -> Any:
        """Solution x of a x = b, with a given by lu_factor."""

    @staticmethod
    def matrix_exp(a: Any) -> Any:
        """Exponential of square matrices: the sum of the powers a^k / k!."""

    @staticmethod
    def qr(a: Any, mode: builtins.str = "reduced") -> Any:
        """Orthogonal q and upper triangular r with a = q r; mode complete gives a square q."""

    @staticmethod
    def solve_triangular(a: Any, b: Any, upper: builtins.bool = False, unitriangular: builtins.bool = False) -> Any:
        """Solution x of a x = b for triangular a; the other triangle is not read."""

    @staticmethod
    def svd(a: Any, full_matrices: builtins.bool = True) -> Any:
        """Singular values in falling order between orthogonal u and vh: a = u diag(s) vh; full_matrices makes both square."""

class memory:
    """Operators ``R.memory.*``."""

    @staticmethod
    def alloc_storage(size: Any, virtual_device_index: Any, storage_scope: Any, dtype: Any) -> Any:
        """Memory of ``size`` elements that tensors are placed in."""

    @staticmethod
    def alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any, runtime_device_index: Any = 0) -> Any:
        """Tensor placed in a storage at a byte offset."""

    @staticmethod
    def ensure_zero_offset(x: Any) -> Any:
        """The tensor, copied if its data does not start at its memory."""

    @staticmethod
    def kill_storage(storage: Any) -> Any:
        """The storage is not used any more."""

    @staticmethod
    def kill_tensor(tensor: Any) -> Any:
        """The tensor is not used any more."""

    @staticmethod
    def view(data: Any, shape: Any = None, dtype: Any = None, relative_byte_offset: Any = None) -> Any:
        """The same memory with another shape, dtype and start; never a copy."""

class nn:
    """Operators ``R.nn.*``."""

    @staticmethod
    def adaptive_avg_pool1d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCW",
        out_layout: Any = None,
    ) -> Any:
        """Mean of windows chosen so that the output has a given size."""

    @staticmethod
    def adaptive_avg_pool2d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCHW",
        out_layout: Any = None,
    ) -> Any:
        """Mean of windows chosen so that the output has a given size."""

    @staticmethod
    def adaptive_avg_pool3d(
        data: Any,
        output_size: Any = None,
        layout: builtins.str = "NCDHW",
        out_layout: Any = None,
    ) -> Any:
        """Mean of windows chosen so that the output has a given size."""

    @staticmethod
    def adaptive_max_pool1d(data: Any, output_size: Any) -> Any:
        """Largest of windows chosen so that the output has a given size, and its index in the spatial axes."""

    @staticmethod
    def adaptive_max_pool2d(data: Any, output_size: Any) -> Any:
        """Largest of windows chosen so that the output has a given size, and its index in the spatial axes."""

    @staticmethod
    def adaptive_max_pool3d(data: Any, output_size: Any) -> Any:
        """Largest of windows chosen so that the output has a given size, and its index in the spatial axes."""

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
        """softmax(query key^T * scale + bias) value; heads may share keys. layout: BSHD (batch, sequence, heads, width),
        BHSD, or one each for query,key,value,result. A bool bias is true where a key is seen; rows that see none are
        empty (None: NaN).
        """

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
        """nn.attention with a bias that must be given."""

    @staticmethod
    def avg_pool1d(
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
        """Mean of each window, of integers towards zero; the border counts with count_include_pad."""

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
        """Mean of each window, of integers towards zero; the border counts with count_include_pad."""

    @staticmethod
    def avg_pool3d(
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
        """Mean of each window, of integers towards zero; the border counts with count_include_pad."""

    @staticmethod
    def batch_flatten(data: Any) -> Any:
        """All axes but the first in one."""

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
        """Normalised per channel with given mean and variance; also hands these on. With training those of the data are
        used, and the given ones are handed on after a step of size momentum towards them.
        """

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
        """Convolution over 1 spatial axes (no flipping of the kernel)."""

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
        """Transpose of a convolution over 1 spatial axes."""

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
        """Convolution over 2 spatial axes (no flipping of the kernel)."""

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
        """Transpose of a convolution over 2 spatial axes."""

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
        """Convolution over 3 spatial axes (no flipping of the kernel)."""

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
        """Transpose of a convolution over 3 spatial axes."""

    @staticmethod
    def cross_entropy_with_logits(predictions: Any, labels: Any) -> Any:
        """Minus the sum of predictions times labels, divided by the size of the first axis where there are more."""

    @staticmethod
    def dropout(data: Any, rate: Any = 0.5) -> Any:
        """At inference the data itself, and a mask of ones."""

    @staticmethod
    def gelu(data: Any) -> Any:
        """x times the normal distribution function of x."""

    @staticmethod
    def gelu_tanh(data: Any) -> Any:
        """gelu approximated with tanh."""

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
        """Normalised over groups of channels and all places, then times gamma plus beta per channel."""

    @staticmethod
    def grouped_matmul(x: Any, weight: Any, ends: Any) -> Any:
        """Rows of x up to ends[0] times weight[0], the next up to ends[1] times weight[1], and so on."""

    @staticmethod
    def gru(gates: Any, hidden: Any, weight: Any, bias: Any = None, reverse: builtins.bool = False) -> Any:
        """GRU layer: outputs of all steps and last hidden state; bias is added to the hidden part."""

    @staticmethod
    def instance_norm(
        data: Any,
        gamma: Any,
        beta: Any,
        axes: Any,
        channel_axis: Any = 1,
        epsilon: Any = 1e-05,
        center: builtins.bool = True,
        scale: builtins.bool = True,
    ) -> Any:
        """Shifted to mean 0 and scaled to variance 1 over axes of each instance, then times gamma plus beta of the channel."""

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
        """Shifted to mean 0 and scaled to variance 1 over axes, then times gamma plus beta."""

    @staticmethod
    def leakyrelu(data: Any, alpha: Any = 0.01) -> Any:
        """x for positive x, alpha * x below."""

    @staticmethod
    def log_softmax(data: Any, axis: Any = -1) -> Any:
        """Logarithm of softmax."""

    @staticmethod
    def lstm(gates: Any, hidden: Any, cell: Any, weight: Any, reverse: builtins.bool = False) -> Any:
        """LSTM layer: outputs of all steps, last hidden state, last cell state."""

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
        """Largest of each window."""

    @staticmethod
    def max_pool1d_with_indices(
        data: Any,
        pool_size: Any = (1,),
        strides: Any = (1,),
        padding: Any = (0,),
        dilation: Any = (1,),
        ceil_mode: builtins.bool = False,
    ) -> Any:
        """Largest of each window and its index in the spatial axes."""

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
        """Largest of each window."""

    @staticmethod
    def max_pool2d_with_indices(
        data: Any,
        pool_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        ceil_mode: builtins.bool = False,
    ) -> Any:
        """Largest of each window and its index in the spatial axes."""

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
        """Largest of each window."""

    @staticmethod
    def max_pool3d_with_indices(
        data: Any,
        pool_size: Any = (1, 1, 1),
        strides: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        dilation: Any = (1, 1, 1),
        ceil_mode: builtins.bool = False,
    ) -> Any:
        """Largest of each window and its index in the spatial axes."""

    @staticmethod
    def nll_loss(
        predictions: Any,
        targets: Any,
        weights: Any = None,
        reduction: builtins.str = "mean",
        ignore_index: Any = -100,
    ) -> Any:
        """Minus the log probability of the target class, weighted; the mean divides by the sum of the weights."""

    @staticmethod
    def pad(data: Any, pad_width: Any, pad_mode: builtins.str = "constant", pad_value: Any = 0.0) -> Any:
        """A border around the tensor: a constant, or the tensor reflected, replicated or wrapped around."""

    @staticmethod
    def pixel_shuffle(data: Any, upscale_factor: Any) -> Any:
        """Channels laid out as blocks of pixels: (..., c * r * r, h, w) to (..., c, h * r, w * r)."""

    @staticmethod
    def prelu(data: Any, alpha: Any, axis: Any = 1) -> Any:
        """x for positive x, alpha of its channel times x below."""

    @staticmethod
    def relu(data: Any) -> Any:
        """max(x, 0)."""

    @staticmethod
    def relu6(data: Any) -> Any:
        """x limited to [0, 6]."""

    @staticmethod
    def rms_norm(data: Any, weight: Any, axes: Any, epsilon: Any = 1e-05) -> Any:
        """Divided by the root of the mean square over axes, then times weight."""

    @staticmethod
    def rnn(
        gates: Any,
        hidden: Any,
        weight: Any,
        nonlinearity: builtins.str = "tanh",
        reverse: builtins.bool = False,
    ) -> Any:
        """Recurrent layer with tanh or relu: outputs of all steps and last hidden state."""

    @staticmethod
    def selu(data: Any) -> Any:
        """Self-normalising unit."""

    @staticmethod
    def silu(data: Any) -> Any:
        """x times sigmoid of x."""

    @staticmethod
    def softmax(data: Any, axis: Any = -1) -> Any:
        """exp(x) divided by its sum along an axis, without overflow."""

    @staticmethod
    def softplus(data: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
        """log(1 + exp(beta * x)) / beta; x itself above the threshold."""

class vm:
    """Operators ``R.vm.*``."""

    @staticmethod
    def alloc_storage(shape: Any, runtime_device_index: Any, dtype: Any, storage_scope: builtins.str = "global") -> Any:
        """Memory taken from the VM's allocator."""

    @staticmethod
    def alloc_tensor(storage: Any, offset: Any, shape: Any, dtype: Any, runtime_device_index: Any = 0) -> Any:
        """Tensor placed in VM storage at a byte offset."""

    @staticmethod
    def call_tir_dyn(func: Any, args: Any) -> Any:
        """Call of a tensor program with explicit outputs and sizes: a shape among the arguments is unpacked into scalars."""

    @staticmethod
    def kill_object(obj: Any) -> Any:
        """The VM drops its reference to the object."""

call_tir = call_dps

call_dps_packed = call_dps

call_tir_inplace = call_inplace

call_tir_with_grad = call_dps_with_grad

match_shape = match_cast

ShapeExpr = shape

PrimValue = prim_value

StringImm = str

DataTypeImm = dtype
