"""Convolutions of stride 1 with a border of one, as schedules would leave them: channels last, packed weights, tiles."""

from __future__ import annotations


def conv2d(height: int, width: int, channels: int, filters: int, pixels: int, vectors: int) -> str:
    """3x3 convolution of ``X`` (height, width, channels) with ``W`` (3, 3, channels, filters) into ``Y`` (height, width,
    filters); a tile holds ``pixels`` x ``vectors`` * 16 outputs, which divide the extents."""
    lanes = 16 * vectors
    blocks, across = filters // lanes, width // pixels
    return f"""
@T.prim_func
def main(X: T.Buffer(({height}, {width}, {channels}), "float32"),
         W: T.Buffer((3, 3, {channels}, {filters}), "float32"),
         Y: T.Buffer(({height}, {width}, {filters}), "float32")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True, "tir.is_scheduled": True}})
    P = T.alloc_buffer(({height + 2}, {width + 2}, {channels}), "float32")
    Wp = T.alloc_buffer(({blocks}, 3, 3, {channels}, {lanes}), "float32")
    Y_local = T.alloc_buffer(({height}, {width}, {filters}), "float32", scope="local")
    for h, w in T.grid({height + 2}, {width + 2}):
        for c in T.vectorized({channels}):
            with T.block("pad"):
                vh, vw, vc = T.axis.remap("SSS", [h, w, c])
                P[vh, vw, vc] = T.if_then_else(
                    1 <= vh and vh < {height + 1} and 1 <= vw and vw < {width + 1}, X[vh - 1, vw - 1, vc], T.float32(0)
                )
    for fo, kh, kw, c in T.grid({blocks}, 3, 3, {channels}):
        for fi in T.vectorized({lanes}):
            with T.block("pack"):
                vo, vh, vw, vc, vi = T.axis.remap("SSSSS", [fo, kh, kw, c, fi])
                Wp[vo, vh, vw, vc, vi] = W[vh, vw, vc, vo * {lanes} + vi]
    for fo in T.serial({blocks}):
        for h in T.parallel({height}):
            for wo in T.serial({across}):
                for wi in T.unroll({pixels}):
                    for fv in T.unroll({vectors}):
                        for fi in T.vectorized(16):
                            with T.block("init"):
                                vh = T.axis.spatial({height}, h)
                                vw = T.axis.spatial({width}, wo * {pixels} + wi)
                                vf = T.axis.spatial({filters}, fo * {lanes} + fv * 16 + fi)
                                Y_local[vh, vw, vf] = T.float32(0)
                for kh, kw in T.grid(3, 3):
                    for c in T.serial({channels}, annotations={{"unroll": 2}}):
                        for wi in T.unroll({pixels}):
                            for fv in T.unroll({vectors}):
                                for fi in T.vectorized(16):
                                    with T.block("update"):
                                        vh = T.axis.spatial({height}, h)
                                        vw = T.axis.spatial({width}, wo * {pixels} + wi)
                                        vo = T.axis.spatial({blocks}, fo)
                                        vi = T.axis.spatial({lanes}, fv * 16 + fi)
                                        vkh, vkw, vc = T.axis.remap("RRR", [kh, kw, c])
                                        Y_local[vh, vw, vo * {lanes} + vi] = (
                                            Y_local[vh, vw, vo * {lanes} + vi]
                                            + P[vh + vkh, vw + vkw, vc] * Wp[vo, vkh, vkw, vc, vi]
                                        )
                for wi in T.unroll({pixels}):
                    for fv in T.unroll({vectors}):
                        for fi in T.vectorized(16):
                            with T.block("write"):
                                vh = T.axis.spatial({height}, h)
                                vw = T.axis.spatial({width}, wo * {pixels} + wi)
                                vf = T.axis.spatial({filters}, fo * {lanes} + fv * 16 + fi)
                                Y[vh, vw, vf] = Y_local[vh, vw, vf]
"""


def depthwise(height: int, width: int, channels: int) -> str:
    """3x3 depthwise convolution of ``X`` (height, width, channels) with ``W`` (3, 3, channels): 16 channels at a time, rows of
    four pixels."""
    return f"""
@T.prim_func
def main(X: T.Buffer(({height}, {width}, {channels}), "float32"),
         W: T.Buffer((3, 3, {channels}), "float32"),
         Y: T.Buffer(({height}, {width}, {channels}), "float32")):
    T.func_attr({{"global_symbol": "main", "tir.noalias": True, "tir.is_scheduled": True}})
    P = T.alloc_buffer(({height + 2}, {width + 2}, {channels}), "float32")
    Y_local = T.alloc_buffer(({height}, {width}, {channels}), "float32", scope="local")
    for h, w in T.grid({height + 2}, {width + 2}):
        for c in T.vectorized({channels}):
            with T.block("pad"):
                vh, vw, vc = T.axis.remap("SSS", [h, w, c])
                P[vh, vw, vc] = T.if_then_else(
                    1 <= vh and vh < {height + 1} and 1 <= vw and vw < {width + 1}, X[vh - 1, vw - 1, vc], T.float32(0)
                )
    for h in T.parallel({height}):
        for co in T.serial({channels // 16}):
            for wo in T.serial({-(-width // 4)}):
                for wi in T.unroll(4):
                    for ci in T.vectorized(16):
                        with T.block("init"):
                            vh = T.axis.spatial({height}, h)
                            vw = T.axis.spatial({width}, wo * 4 + wi)
                            vc = T.axis.spatial({channels}, co * 16 + ci)
                            T.where(wo * 4 + wi < {width})
                            Y_local[vh, vw, vc] = T.float32(0)
                for kh, kw in T.grid(3, 3):
                    for wi in T.unroll(4):
                        for ci in T.vectorized(16):
                            with T.block("update"):
                                vh = T.axis.spatial({height}, h)
                                vw = T.axis.spatial({width}, wo * 4 + wi)
                                vc = T.axis.spatial({channels}, co * 16 + ci)
                                vkh, vkw = T.axis.remap("RR", [kh, kw])
                                T.where(wo * 4 + wi < {width})
                                Y_local[vh, vw, vc] = Y_local[vh, vw, vc] + P[vh + vkh, vw + vkw, vc] * W[vkh, vkw, vc]
                for wi in T.unroll(4):
                    for ci in T.vectorized(16):
                        with T.block("write"):
                            vh = T.axis.spatial({height}, h)
                            vw = T.axis.spatial({width}, wo * 4 + wi)
                            vc = T.axis.spatial({channels}, co * 16 + ci)
                            T.where(wo * 4 + wi < {width})
                            Y[vh, vw, vc] = Y_local[vh, vw, vc]
"""
