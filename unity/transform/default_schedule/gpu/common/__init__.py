"""Nests of blocks, and the stages of a program: the ground floor of the rules for devices."""
