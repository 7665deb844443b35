"""Neural networks: activations, normalisations, convolution, pooling, attention, recurrent layers, images, losses."""

from . import (
    activations,
    attention,
    channel_norm,
    conv,
    conv_transpose,
    grouped,
    loss,
    norm,
    pool,
    recurrent,
    resize,
    sample,
)
