"""Compiled torch models that run, and files of them. torch is imported when used; the compiler never is."""
