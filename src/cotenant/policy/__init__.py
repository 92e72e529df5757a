"""Decisions, one copy each: small pure functions over scalars and arrays, with no clock and no state of their own.

They run as plain Python (in the router, in the plain core) and compiled (in the fast core), so they keep
to what both understand: integers, one-dimensional integer arrays, loops, comparisons. Ranks order requests: a
smaller rank is served first and preempted last.
"""
