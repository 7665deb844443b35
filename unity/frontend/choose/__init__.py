"""Which kernel computes each product and convolution, by measurement or by rule."""
