"""Targets and code generation."""
