"""Targets: how they are described, the kinds that are known, processors and what they have."""
