"""Choice of the kernel for each product and convolution, by measurement or by rule."""
