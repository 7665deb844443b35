"""The tile registers of AMX: their configuration, eight full tiles, loaded before use and released after it.

Where that is: the pass ``configure_tiles``. Source of the layout: Intel 64 and IA-32 Architectures Software Developer's Manual,
volume 2, LDTILECFG.
"""

from __future__ import annotations

from ..llvm.writer import FunctionWriter

CONFIG = "unity.tiles"
_PALETTE, _ROWS, _ROW_BYTES, _TILES = 1, 16, 64, 8


def configure_tiles(w: FunctionWriter) -> None:
    """Load the configuration; all tiles are zero after it."""
    widths = [part for k in range(16) for part in (_ROW_BYTES if k < _TILES else 0, 0)]
    content = bytes([_PALETTE, *[0] * 15, *widths, *[_ROWS] * _TILES, *[0] * 8])
    text = "".join([f"\\{byte:02X}" for byte in content])
    w.module.declare(f"@{CONFIG}", f'@{CONFIG} = private unnamed_addr constant [64 x i8] c"{text}", align 64\n')
    w.module.declare("@llvm.x86.ldtilecfg", "declare void @llvm.x86.ldtilecfg(ptr)\n")
    w.do(f"call void @llvm.x86.ldtilecfg(ptr @{CONFIG})")


def release_tiles(w: FunctionWriter) -> None:
    """Release the tiles, so that switching threads does not save them."""
    w.module.declare("@llvm.x86.tilerelease", "declare void @llvm.x86.tilerelease()\n")
    w.do("call void @llvm.x86.tilerelease()")
