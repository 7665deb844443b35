"""Passes and pipelines. Lowering of tensor programs lives in ``tir/``."""
