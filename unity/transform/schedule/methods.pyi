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
        """Note a value under a key on a block or loop (numbers, strings, lists, dictionaries). Raises ScheduleError E426
        for a key that is there already with another value, or a value of another kind.
        """

    def unannotate(self, block_or_loop: ItemRef, ann_key: str) -> None:
        """Remove a note. Raises ScheduleError E426 for a key that is not there."""

    def transform_block_layout(self, block: BlockRef, index_map: IndexMap | Callable[..., Any]) -> None:
        """Let a block iterate over the results of ``index_map`` of its iterators, with one loop for each.

        Each iterator must be bound to a loop of its own that holds this block alone; the map must be bijective and keep spatial and
        reduction iterators apart. Raises ScheduleError E445.
        """

    def blockize(self, target: ItemRef | Sequence[BlockRef], preserve_unit_iters: bool = True) -> BlockRV:
        """Make the subtree of a loop, or neighbouring blocks with their loops, one outer block named ``<name>_o``; gives that block.

        Each iterator ``v`` is divided into ``v_o`` of the loops outside and ``v_i`` of those inside. A reduction's initialisation goes
        to the outer block, over the inner spatial iterators. Without ``preserve_unit_iters`` outer iterators of one value are left out.
        Raises ScheduleError E440 where a loop holds anything but one block, or an iterator cannot be divided between the loops.
        """

    def set_scope(self, block: BlockRef, buffer_index: Int | str, storage_scope: str) -> None:
        """Put a buffer that a block writes into another storage scope ("shared", "local", ...).

        ``buffer_index`` counts the buffers the block writes, or names one. Raises ScheduleError E429 for a parameter of the
        function, or a scope that is not known.
        """

    def storage_align(self, block: BlockRef, buffer_index: Int, axis: Int, factor: Int, offset: Int) -> None:
        """Ask that the stride of an axis of a written buffer be ``k * factor + offset`` (against bank conflicts).

        Recorded as the block's annotation ``buffer_dim_align``, a list of [buffer, axis, factor, offset]. Negative axes
        count from the end. Raises ScheduleError E429.
        """

    def unsafe_set_dtype(self, block: BlockRef, buffer_index: Int | str, dtype: str) -> None:
        """Keep a buffer that a block writes in another data type. Values are converted when stored and back when loaded, so
        results change by rounding: the step is graded "unsafe". What is combined with a cell of floats that become wider is
        combined in the wider type: a sum of float32 then is one of float64. Raises ScheduleError E429.
        """

    def cache_read(
        self,
        block: BlockRef,
        read_buffer_index: Int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRef] | BlockRef | None = None,
    ) -> BlockRV:
        """Copy a buffer that a block reads into ``storage_scope``, and let the block read the copy; gives the copying block.

        ``read_buffer_index`` counts the buffers the block reads, or names one. ``consumer_blocks`` are the blocks that read the
        copy: by default all that read the buffer after it is written. Raises ScheduleError E438.
        """

    def cache_write(
        self,
        block: BlockRef,
        write_buffer_index: Int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRef] | BlockRef | None = None,
    ) -> BlockRV:
        """Let a block write into a buffer in ``storage_scope`` and copy that out afterwards; gives the copying block.

        ``write_buffer_index`` counts the buffers the block writes, or names one. ``consumer_blocks`` read the cache itself instead
        of the buffer. Raises ScheduleError E438, E429.
        """

    def compute_at(self, block: BlockRef, loop: LoopRV, preserve_unit_loops: bool = False, index: Int = -1) -> None:
        """Move a producer under a loop that all its consumers stand under, and run it there only for the cells they read in
        one iteration (loops ``ax0``, ``ax1``, ... over these cells replace its own).

        ``index`` is the place in the loop's body: -1 as late as possible (before the first consumer), -2 as early as
        possible (after the last producer). ``preserve_unit_loops`` keeps loops of one iteration. Cells that two iterations
        read are computed twice. Raises ScheduleError E430 to E436.
        """

    def reverse_compute_at(
        self,
        block: BlockRef,
        loop: LoopRV,
        preserve_unit_loops: bool = False,
        index: Int = -1,
    ) -> None:
        """Move a consumer under a loop of its producers, and run it there for the cells they finish in one iteration.

        ``index`` is the place in the loop's body: -1 as late as possible, -2 directly after the last producer. Raises
        ScheduleError E430 to E437.
        """

    def compute_inline(self, block: BlockRef) -> None:
        """Inline a block into its consumers: they compute its value themselves, and its buffer disappears.

        The block must store one element for each of its points, at its own iterators (``B[vi, vj] = ...``). Raises ScheduleError
        E439 where that is not so, or where what it reads is overwritten before a consumer runs.
        """

    def reverse_compute_inline(self, block: BlockRef) -> None:
        """Inline a consumer into its only producer: the producer computes the consumer's value at once.

        The producer must be a complete block of one store whose every element the consumer reads exactly once. Raises ScheduleError
        E439 where that is not so.
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

        ``buffer`` is ``("read", 0)``, ``("write", 0)``, a name or the buffer; ``index_map`` a function of the buffer's indices, in
        which ``...`` (``IndexMap.AXIS_SEPARATOR``) divides the new axes. A parameter comes in the new layout then: its shape in the
        signature changes, and no function of the module may call the program.

        Where the map does not fill the new shape, the cells that are left over hold ``pad_value``: a number or a function of the new
        indices. None leaves them as they are, which a parameter that is written allows only with ``assume_injective_transform``. The
        caller sees to it that a parameter that is only read holds the pad value there: ``T.assume`` says so in the program, and the
        interpreter checks it.

        With ``assume_injective_transform`` a map that is not proved to keep cells apart is tested. Raises ScheduleError E444.
        """

    def set_axis_separator(
        self,
        block: BlockRef,
        buffer: Buffer | Sequence[str | int] | int,
        axis_separators: Sequence[Int],
    ) -> None:
        """Divide the axes of a buffer into groups, each a dimension of the memory it lies in. Raises ScheduleError E444."""

    def sample_compute_location(self, block: BlockRef, decision: Int | None = None) -> LoopRV:
        """Choose where ``compute_at`` may put a block: one of the loops around its consumers, the root (where it stands), or inline.

        Each legal choice is equally likely. The decision counts the loops from the outside in that ``compute_at`` accepts;
        -1 is the root, -2 inline. Give the result to ``compute_at``. Raises ScheduleError E428 for a decision that is not legal here.
        """

    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations of a loop on several threads.

        Buffers that only serve inside an iteration (caches, packed panels) are allocated inside of the loop from then on, so that each
        thread has its own. Raises ScheduleError E411 to E418 naming why the iterations are not independent.
        """

    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations of a loop as lanes of vector instructions. Raises ScheduleError E411 to E417 as
        ``parallel``.
        """

    def unroll(self, loop: LoopRV) -> None:
        """Write the iterations of a loop out one after the other. Needs no condition: the order stays."""

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis: blockIdx.x to z, threadIdx.x to z, or vthread.

        A loop bound to threadIdx may drive reduction iterators of a block with an initialisation: each thread reduces its part, and
        the lowering joins the parts (``lower_cross_thread_reduction``). Raises ScheduleError E425 for an axis that is not known, or
        that a block would run over twice, E411 to E417 as ``parallel``.
        """

    def decompose_reduction(self, block: BlockRef, loop: LoopRV) -> BlockRV:
        """Move the initialisation of a reduction in front of a loop; gives the initialisation block.

        The new block is named ``<name>_init`` and stands in copies of the loops inside ``loop`` (itself included) that
        spatial iterators use; the old block goes on as ``<name>_update``. Raises ScheduleError E412 unless the block is a
        reduction block, E427 unless ``loop`` is around it and no reduction loop is outside of ``loop``.
        """

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[Int | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Split a loop into nested loops with the given extents, outermost first.

        At most one factor is None: it is inferred (rounded up). Where the factors do not multiply to the extent exactly,
        the blocks inside get a predicate. Factors may be symbolic. ``preserve_unit_iters=False`` leaves loops of one
        iteration out of the bindings; ``disable_predication=True`` leaves the predicate out: the step is then tested, or
        refused. Raises ScheduleError E421 for a bound or annotated loop, E422 for wrong factors.
        """

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Fuse nested loops, each the only child of the one before, into one.

        Raises ScheduleError E421 for a bound or annotated loop, E423 where they are no chain, one's extent uses another,
        or they run in different ways (one parallel, one not).
        """

    def loop_partition(
        self,
        loop: LoopRV,
        factors: Sequence[Int | None],
        preserve_unit_iters: bool = True,
    ) -> list[LoopRV]:
        """Cut a loop into consecutive loops with the given numbers of iterations; what is left over makes one more.

        At most one factor is None: it takes what the others leave. The blocks inside are copied: those of part ``n`` are
        named ``<name>_<n>``, and references to the old ones go stale. Each part runs from zero. Raises ScheduleError E421
        for a bound or annotated loop, E422 for factors that do not fit.
        """

    def merge(self, *loops: LoopRV) -> LoopRV:
        """Merge loops of nests that follow each other into one nest that does the work of all; gives the innermost merged
        loop.

        From where the nests meet down to each given loop there must be equally many loops, each the only child of the one
        before, with equal extents. Refused with ScheduleError E423 where they are not, E415 where an iteration of a later
        nest would read what the merged iteration has not computed yet.
        """

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one nest into the given order, outermost first; loops between them that are not named keep their
        places.

        Raises ScheduleError E424 where the loops are no single chain or an extent would use a loop inside of it, E413 where
        a block inside is not bound affinely, E414 for iterators that are neither spatial nor reductions.
        """

    def reorder_block_iter_var(self, block: BlockRef, new_order: Sequence[Int]) -> None:
        """Permute the iterators of a block: ``new_order[k]`` is the present place of the new k-th. Raises ScheduleError
        E424.
        """

    def add_unit_loop(self, block_or_loop: ItemRef) -> LoopRV:
        """Put a loop of one iteration around a block or a loop. Raises ScheduleError E424 for the root block."""

    def decompose_padding(self, block: BlockRef, loop: LoopRV) -> BlockRV:
        """Divide a block that pads into one that stores the padding everywhere, in front of ``loop``, and one that stores the
        inside; gives the first, named ``<name>_pad_const``.

        The block must store ``if_then_else(condition, value, constant)``. Loops that drive one iterator of a condition alone run over
        the inside only; other conditions stay. Raises ScheduleError E446.
        """

    def pad_einsum(self, block: BlockRef, padding: Sequence[Int]) -> None:
        """Round the extents of a sum of products up to multiples: ``padding`` has a number for each iterator of the block.

        Operands that a padded iterator selects are copied with zeros (blocks ``<buffer>_pad`` in front), the result is computed in a
        padded buffer and copied back where a spatial iterator is padded. Iterators must be bound to loops of their own, indices must be
        iterators. Raises ScheduleError E447.
        """

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of a name in a function (the one worked on when none is given). Raises ScheduleError E407 for none or
        several.
        """

    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """Newer name of ``get_block``."""

    def get_loops(self, block: BlockRef) -> list[LoopRV]:
        """The loops around a block within its enclosing block, from the outside in."""

    def get_child_blocks(self, block_or_loop: ItemRef) -> list[BlockRV]:
        """The blocks directly inside a block or a loop (none between but loops), in program order."""

    def get_producers(self, block: BlockRef) -> list[BlockRV]:
        """The blocks of the same scope that write what this block reads, in program order."""

    def get_consumers(self, block: BlockRef) -> list[BlockRV]:
        """The blocks of the same scope that read what this block writes, in program order."""

    def get_output_blocks(self, scope_block: BlockRef) -> list[BlockRV]:
        """The blocks inside a scope that write buffers allocated outside of it, in program order."""

    def enter_postproc(self) -> None:
        """Mark the point in the trace after which postprocessing steps follow."""

    def reindex_cache_read(
        self,
        block: BlockRef,
        read_buffer_index: Int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Copy a buffer that a block reads into ``storage_scope``, laid out by ``index_map`` of the block's iterators; gives the
        copying block. Packing for a matrix product is ``lambda i, j, k: (j // 64, k, j % 64)``.

        The block must access the buffer at one place. Raises ScheduleError E438, also where two iterations would share a cell.
        """

    def reindex_cache_write(
        self,
        block: BlockRef,
        write_buffer_index: Int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Let a block write into a buffer in ``storage_scope`` laid out by ``index_map`` of its iterators, and copy that out
        afterwards; gives the copying block. Raises ScheduleError E438, E429.
        """

    def reindex(self, block: BlockRef, buffer: Buffer | Sequence[str | int] | int) -> BlockRV:
        """Copy a buffer that a block reads (``("read", 0)``) or writes (``("write", 0)``), or one by name, into a layout with one
        axis for each iterator of the block that selects its elements; gives the copying block. Raises ScheduleError E438.
        """

    def rfactor(self, loop: LoopRV, factor_axis: Int, merge_loops: bool = False) -> BlockRV:
        """Give each value of a reduction loop a partial result of its own, as a block ``<name>_rf``; gives that block.

        The partial results lie in a new buffer with an axis of the loop's extent at ``factor_axis`` (negative counts from the end); the
        loop becomes spatial there, so that it can be parallel or vectorized. The old block goes on to reduce them. With ``merge_loops``
        both stand in the spatial loops outside of all reduction loops. Sums are taken in another order. Raises ScheduleError E443.
        """

    def sample_categorical(
        self,
        candidates: Sequence[Int],
        probs: Sequence[float],
        decision: Int | None = None,
    ) -> ExprRV:
        """Choose one of the candidates with the given probabilities; ``decision`` is the place of the one to take. Gives an
        ExprRV.

        Raises ScheduleError E428 for probabilities that do not fit.
        """

    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: Int,
        max_innermost_factor: Int = 16,
        decision: Sequence[Int] | None = None,
    ) -> list[ExprRV]:
        """Choose ``n`` factors whose product is exactly the extent of a loop, the innermost at most
        ``max_innermost_factor`` (-1: no limit); each factorisation is equally likely. Gives ExprRVs for ``split``. Raises
        ScheduleError E428.
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
        ``innerpart_factor``. Where the extent allows none, all factors are 1 but the first. Raises ScheduleError E428.
        """

    def tensorize(self, block_or_loop: ItemRef, tensor_intrin: str, preserve_unit_iters: bool = True) -> None:
        """Replace a block, or the subtree of a loop (which is blockized first), by the tensor intrinsic of a name.

        The block must compute what the intrinsic's description says: same loops, iterators and accesses, up to names, loops of one
        iteration and the order of operands of ``+`` and ``*``. Buffers may have more axes in front than the description's, and any
        strides and offset that the implementation declares as symbols. Raises ScheduleError E441 with the first difference,
        also for one that is not registered, E442 where strides or offset are not what the implementation needs.
        """
