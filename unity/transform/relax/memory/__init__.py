"""Passes from values to storage: explicit outputs, views, lifetimes, reuse."""
