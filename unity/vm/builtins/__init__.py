"""The VM's own operations and the values they work on, for every way to run a program."""
