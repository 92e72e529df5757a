"""How many steps a time holds, by brute force: the root is a guess, and wherever it lies the answer is exact."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cotenant.simulation.core_steps import steps_until


@given(st.integers(1, 10**14), st.integers(0, 10**9), st.integers(1, 400), st.integers(-1, 1))
def test_the_least_number_of_steps_that_last_so_long(base: int, growth: int, steps: int, off: int) -> None:
    """At the end of a step, one femtosecond before it and one after. Each sequence has a token at least, so that
    the first step is no shorter than what it grows by."""
    first = base + 1 + growth

    def lasts(k: int) -> int:
        return k * first + growth * (k * (k - 1) // 2)

    assert steps_until(lasts(steps) + off, first, growth, steps + 1) == (steps + 1 if off > 0 else steps)
