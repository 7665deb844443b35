"""Calls from Python into machine code, with checks of every argument."""
