"""Frozen values without I/O: what the rooms hand each other."""
