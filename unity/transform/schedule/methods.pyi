# Made by tools/make_stubs.py from the table of primitives; do not edit.
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...arith.index_map import IndexMap
from ...ir.buffer import Buffer
from ...ir.types import Expr
from .traces.values import BlockRV, ExprRV, LoopRV

Int = int | ExprRV | Expr
BlockRef = BlockRV | str
ItemRef = BlockRV | LoopRV | str

class Primitives:
    """The primitives, methods of a schedule."""

    def annotate(
        self,
        block_or_loop: ItemRef,
        ann_key: str,
        ann_val: str | Int | float | bool | Sequence[Any] | Mapping[str, Any],
    ) -> None:
        """Attach a value under a key to a block or loop: a number, string, list or dictionary. Raises ScheduleError E426 if the key is
        present with another value, or the value is of another kind.
        """

    def unannotate(self, block_or_loop: ItemRef, ann_key: str) -> None:
        """Remove an annotation. Raises ScheduleError E426 if the key is absent."""

    def transform_block_layout(self, block: BlockRef, index_map: IndexMap | Callable[..., Any]) -> None:
        """Iterate a block over the results of ``index_map`` of its iterators, with one loop for each.

        Each iterator must be bound to a loop of its own that contains only this block; the map must be bijective and keep spatial and
        reduction iterators apart. Raises ScheduleError E445.
        """

    def decompose_reduction(self, block: BlockRef, loop: LoopRV) -> BlockRV:
        """Move the initialisation of a reduction into a block before ``loop``. Returns that block.

        It is named ``<name>_init``, in copies of ``loop`` and of the loops inside it that spatial iterators use; the old block becomes
        ``<name>_update``. Raises ScheduleError E412 unless the block is a reduction block, E427 unless ``loop`` is around it and no
        reduction loop is outside ``loop``.
        """

    def blockize(self, target: ItemRef | Sequence[BlockRef], preserve_unit_iters: bool = True) -> BlockRV:
        """Turn the subtree of a loop, or neighbouring blocks with their loops, into one outer block ``<name>_o``. Returns that block.

        Each iterator ``v`` is divided into ``v_o``, bound to the loops outside, and ``v_i``, bound to those inside. The initialisation
        of a reduction moves to the outer block, over the inner spatial iterators. ``preserve_unit_iters=False`` leaves out outer
        iterators of one value. Raises ScheduleError E440 if a loop contains anything but one block, or an iterator cannot be divided
        between the loops.
        """

    def set_scope(self, block: BlockRef, buffer_index: Int | str, storage_scope: str) -> None:
        """Put a buffer that a block writes into another storage scope ("shared", "local", ...).

        ``buffer_index``: number of the buffer among those the block writes, or its name. Raises ScheduleError E429 for a parameter of
        the function, or an unknown scope.
        """

    def storage_align(self, block: BlockRef, buffer_index: Int, axis: Int, factor: Int, offset: Int) -> None:
        """Request that the stride of an axis of a written buffer be ``k * factor + offset``, in elements (against bank conflicts).

        The block gets the annotation ``buffer_dim_align``, a list of [buffer, axis, factor, offset]. Negative axes count from the end.
        Raises ScheduleError E429.
        """

    def unsafe_set_dtype(self, block: BlockRef, buffer_index: Int | str, dtype: str) -> None:
        """Keep a buffer that a block writes in another data type.

        Values are converted when stored and converted back when loaded, so results change by rounding: the step is graded "unsafe".
        What is combined with cells that became wider is computed in the wider type: a float32 sum becomes a float64 sum. Raises
        ScheduleError E429.
        """

    def cache_read(
        self,
        block: BlockRef,
        read_buffer_index: Int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRef] | BlockRef | None = None,
    ) -> BlockRV:
        """Copy a buffer that a block reads into ``storage_scope``, and let the block read the copy. Returns the copying block.

        ``read_buffer_index``: number of the buffer among those the block reads, or its name. ``consumer_blocks``: blocks that read the
        copy; default: all that read the buffer after it is written. Raises ScheduleError E438.
        """

    def cache_write(
        self,
        block: BlockRef,
        write_buffer_index: Int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRef] | BlockRef | None = None,
    ) -> BlockRV:
        """Let a block write into a buffer in ``storage_scope``, and copy that to the old buffer afterwards. Returns the copying block.

        ``write_buffer_index``: number of the buffer among those the block writes, or its name. ``consumer_blocks``: blocks that read
        the new buffer instead of the old one. Raises ScheduleError E438, E429.
        """

    def compute_at(self, block: BlockRef, loop: LoopRV, preserve_unit_loops: bool = False, index: Int = -1) -> None:
        """Move a producer into a loop that contains all its consumers, and compute in each iteration only the cells they read there.

        New loops ``ax0``, ``ax1``, ... over these cells replace the producer's own. Cells that two iterations read are computed twice.
        ``index``: position in the loop's body; -1 is as late as possible (before the first consumer), -2 as early as possible (after
        the last producer). ``preserve_unit_loops``: keep loops of one iteration. Raises ScheduleError E430 to E436.
        """

    def reverse_compute_at(
        self,
        block: BlockRef,
        loop: LoopRV,
        preserve_unit_loops: bool = False,
        index: Int = -1,
    ) -> None:
        """Move a consumer into a loop of its producers, and run it in each iteration for the cells that are finished there.

        ``index``: position in the loop's body; -1 is as late as possible, -2 directly after the last producer. ``preserve_unit_loops``:
        keep loops of one iteration. Raises ScheduleError E430 to E437.
        """

    def compute_inline(self, block: BlockRef) -> None:
        """Inline a block into its consumers: they compute its value themselves, and its buffer disappears.

        The block must store one element for each of its points, at its own iterators (``B[vi, vj] = ...``) or at indices that have an
        inverse on the whole buffer (``B[vi // 4, vj, vi % 4] = ...``). Raises ScheduleError E439 if it does not, or if what it reads is
        overwritten before a consumer runs.
        """

    def reverse_compute_inline(self, block: BlockRef) -> None:
        """Inline a consumer into its only producer, which then computes the consumer's value at once.

        The producer must be a complete block with one store, and the consumer must read each of its elements exactly once, at indices
        that have an inverse. Raises ScheduleError E439 otherwise.
        """

    def transform_layout(
        self,
        block: BlockRef,
        buffer: Buffer | Sequence[str | int] | int,
        index_map: IndexMap | Callable[..., Any],
        pad_value: Any = None,
        assume_injective_transform: bool = False,
    ) -> None:
        """Change the layout of a buffer that a block reads or writes; every access in the function follows.

        ``buffer``: ``("read", 0)``, ``("write", 0)``, a name, or the buffer. ``index_map``: a function of the buffer's indices. A
        parameter changes its shape in the signature, and no function of the module may call the program.

        ``pad_value``: value of the cells that the map leaves over, a number or a function of the new indices; None leaves them
        undefined, which a parameter that is written allows only with ``assume_injective_transform``. A parameter that is only read must
        hold the pad value there: ``T.assume`` states it in the program, and the interpreter checks it. ``assume_injective_transform``:
        test a map that cannot be proved to keep cells apart. Raises ScheduleError E444.
        """

    def sample_compute_location(self, block: BlockRef, decision: Int | None = None) -> LoopRV:
        """Choose where ``compute_at`` may put a block: a loop around its consumers, the root (where it stands), or inline. Returns a
        loop for ``compute_at``.

        Each legal choice is equally likely. ``decision``: number of the loop, from the outside in, among those that ``compute_at``
        accepts; -1 is the root, -2 inline. Raises ScheduleError E428 for a decision that is not legal here.
        """

    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations of a loop on several threads.

        Buffers used inside one iteration only (caches, packed panels) are allocated inside the loop from then on, so that each thread
        has its own. Raises ScheduleError E411 to E418 if the iterations are not independent.
        """

    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations of a loop as lanes of vector instructions. Raises ScheduleError E411 to E417 as ``parallel`` does."""

    def unroll(self, loop: LoopRV) -> None:
        """Unroll a loop. It needs no condition: the order of iterations stays."""

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis: "blockIdx.x" to z, "threadIdx.x" to z, or "vthread".

        A loop bound to threadIdx may drive reduction iterators of a block with an initialisation: each thread reduces its part, and
        lowering combines the parts (``lower_cross_thread_reduction``). Raises ScheduleError E425 for an unknown axis, or one that is
        bound around the block already; E411 to E417 as ``parallel`` does.
        """

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[Int | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Split a loop into nested loops with the given extents, outermost first. Returns them.

        ``factors``: integers or expressions; at most one is None and is inferred (rounded up). If they do not multiply to the extent
        exactly, the blocks inside get a predicate. ``preserve_unit_iters=False``: leave loops of one iteration out of the bindings.
        ``disable_predication``: leave out the predicate; the step is then tested or refused. Raises ScheduleError E421 for a bound or
        annotated loop, E422 for wrong factors.
        """

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Fuse nested loops, each the only child of the one before, into one. Returns it.

        Raises ScheduleError E421 for a bound or annotated loop; E423 if the loops are not a chain, the extent of one uses another, or
        they run in different ways (one parallel, one not).
        """

    def loop_partition(
        self,
        loop: LoopRV,
        factors: Sequence[Int | None],
        preserve_unit_iters: bool = True,
    ) -> list[LoopRV]:
        """Cut a loop into consecutive loops with the given numbers of iterations; the rest becomes one more loop.

        At most one factor is None: it takes what the others leave. The blocks inside are copied: those of part ``n`` are named
        ``<name>_<n>``, and references to the old ones become invalid. Each part runs from zero. Raises ScheduleError E421 for a bound
        or annotated loop, E422 for factors that do not fit.
        """

    def merge(self, *loops: LoopRV) -> LoopRV:
        """Merge loops of consecutive nests into one nest that does the work of all. Returns the innermost merged loop.

        From the common ancestor down to each given loop there must be equally many loops, each the only child of its parent, with equal
        extents. Raises ScheduleError E423 if not, E415 if an iteration of a later nest would read what the merged iteration has not
        computed yet.
        """

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one nest into the given order, outermost first; loops between them that are not named keep their places.

        Raises ScheduleError E424 if the loops are not a single chain or an extent would use a loop inside it, E413 if a block inside is
        not bound affinely, E414 for iterators that are neither spatial nor reductions.
        """

    def reorder_block_iter_var(self, block: BlockRef, new_order: Sequence[Int]) -> None:
        """Permute the iterators of a block: ``new_order[k]`` is the present position of the new k-th. Raises ScheduleError E424."""

    def add_unit_loop(self, block_or_loop: ItemRef) -> LoopRV:
        """Put a loop of one iteration around a block or a loop. Raises ScheduleError E424 for the root block."""

    def decompose_padding(self, block: BlockRef, loop: LoopRV) -> BlockRV:
        """Divide a padding block into one that stores the padding everywhere, before ``loop``, and one that stores the inside. Returns
        the first, named ``<name>_pad_const``.

        The block must store ``if_then_else(condition, value, constant)``. Loops that drive a single iterator of a condition run over
        the inside only; other conditions stay. Raises ScheduleError E446.
        """

    def pad_einsum(self, block: BlockRef, padding: Sequence[Int]) -> None:
        """Round the extents of a product, or of a sum of products, up to multiples of ``padding``, one number for each iterator of the
        block.

        Operands that a padded iterator indexes are copied with zeros (blocks ``<buffer>_pad`` before it); with a padded spatial
        iterator the result is computed in a padded buffer and copied back. Each iterator must be bound to a loop of its own, and
        indices must be iterators. Raises ScheduleError E447.
        """

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """Return the block ``name`` of a function (None: the one set by ``work_on``). Raises ScheduleError E407 for none
        or several.
        """

    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """Newer name of ``get_block``."""

    def get_loops(self, block: BlockRef) -> list[LoopRV]:
        """Return the loops around a block within its enclosing block, from the outside in."""

    def get_child_blocks(self, block_or_loop: ItemRef) -> list[BlockRV]:
        """Return the blocks directly inside a block or a loop, with nothing but loops between, in program order."""

    def get_producers(self, block: BlockRef) -> list[BlockRV]:
        """Return the blocks of the same scope that write what this block reads, in program order."""

    def get_consumers(self, block: BlockRef) -> list[BlockRV]:
        """Return the blocks of the same scope that read what this block writes, in program order."""

    def get_output_blocks(self, scope_block: BlockRef) -> list[BlockRV]:
        """Return the blocks inside a scope that write buffers allocated outside it, in program order."""

    def enter_postproc(self) -> None:
        """Mark the point in the trace after which postprocessing begins."""

    def reindex_cache_read(
        self,
        block: BlockRef,
        read_buffer_index: Int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Copy a buffer that a block reads into ``storage_scope``, laid out by ``index_map`` of the block's iterators. Returns the
        copying block.

        ``lambda i, j, k: (j // 64, k, j % 64)`` packs an operand of a matrix product. ``read_buffer_index``: as in ``cache_read``; the
        block must access the buffer at one place. Raises ScheduleError E438, also if two iterations would share a cell.
        """

    def reindex_cache_write(
        self,
        block: BlockRef,
        write_buffer_index: Int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Let a block write into a buffer in ``storage_scope``, laid out by ``index_map`` of its iterators, and copy that out
        afterwards. Returns the copying block. Raises ScheduleError E438, E429.
        """

    def reindex(self, block: BlockRef, buffer: Buffer | Sequence[str | int] | int) -> BlockRV:
        """Copy a buffer of a block into a layout with one axis for each iterator that selects its elements. Returns the copying block.

        ``buffer``: ``("read", 0)``, ``("write", 0)``, or a name. Raises ScheduleError E438.
        """

    def rfactor(self, loop: LoopRV, factor_axis: Int, merge_loops: bool = False) -> BlockRV:
        """Compute a partial result for each value of a reduction loop in a block ``<name>_rf``; the old block reduces them. Returns the
        new block.

        The partial results lie in a new buffer with an axis of the loop's extent at ``factor_axis`` (negative counts from the end). The
        loop becomes spatial there, so that it can be parallel or vectorized. ``merge_loops``: put both blocks into the spatial loops
        outside all reduction loops. Sums are taken in another order. A block that chooses an element with several results (argmax) has
        a buffer for each; of equal elements another one may be chosen. Raises ScheduleError E443.
        """

    def sample_categorical(
        self,
        candidates: Sequence[Int],
        probs: Sequence[float],
        decision: Int | None = None,
    ) -> ExprRV:
        """Choose one of ``candidates`` with the probabilities ``probs``. Returns an ExprRV.

        ``decision``: position of the candidate to take. Raises ScheduleError E428 for probabilities that do not fit.
        """

    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: Int,
        max_innermost_factor: Int = 16,
        decision: Sequence[Int] | None = None,
    ) -> list[ExprRV]:
        """Choose ``n`` factors whose product is the extent of a loop, each factorisation equally likely. Returns ExprRVs for ``split``.

        ``max_innermost_factor``: limit of the last factor; -1: none. ``decision``: the factors to take. Raises ScheduleError E428.
        """

    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: Int,
        partition_pos: Int = 0,
        innerpart_factor: Int = 1,
        decision: Sequence[Int] | None = None,
    ) -> list[ExprRV]:
        """Choose ``n`` factors of a loop's extent such that the product of those from ``partition_pos`` on is a multiple of
        ``innerpart_factor``. Returns ExprRVs for ``split``.

        If the extent allows none, all factors but the first are 1. Raises ScheduleError E428.
        """

    def tensorize(self, block_or_loop: ItemRef, tensor_intrin: str, preserve_unit_iters: bool = True) -> None:
        """Replace a block, or the subtree of a loop (which is blockized first), by the tensor intrinsic named ``tensor_intrin``.

        The block must compute what the intrinsic's description says: same loops, iterators and accesses, up to names, loops of one
        iteration, and the order of operands of ``+`` and ``*``. Buffers may have more leading axes than the description's, and any
        strides and offset that the implementation declares as symbols. Raises ScheduleError E441, with the first difference, if the
        block differs or no such intrinsic is registered; E442 for wrong strides or offset.
        """
