"""Passes that put several operators, or several tensor programs, into one."""
