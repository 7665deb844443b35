"""Products and convolutions for devices: ``product`` finds them, ``tile_costs`` says how long a tile takes.

``tensor_cores`` gives them to tiles of warpgroups (``warpgroup_*``, with ``tensor_views`` and ``image_views`` for bulk copies) or
of warps (``warp_tiles``); ``few_rows`` reads weights as fast as memory gives them (``lane_*``); ``pipelined_tiles`` and ``tiles``
compute other types by tiles of registers (``thread_*``). ``tile_blocks`` and ``tile_sides`` are what tiles share.
"""
