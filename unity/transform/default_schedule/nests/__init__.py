"""The loops of nests that no rule scheduled: reductions in tiles of registers or in lanes, running sums, all others in order.

``pipeline.py`` lists the passes in order; ``tiles`` are the loops over tiles, ``epilogues`` what follows a reduction at its tile.
"""
