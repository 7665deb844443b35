"""Passes for devices whose threads share memory."""
