"""Loops that become vector code."""
