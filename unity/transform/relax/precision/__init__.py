"""Passes that compute in fewer bits: mixed precision, 8-bit products, weights of few bits."""
