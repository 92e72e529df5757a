"""From nothing to a first answer."""

from __future__ import annotations

import pytest

from cotenant.estimation.cold_start import FIRST, KEPT, cold_start

LLAMA_8B_BYTES = 2 * 8_030_261_248


def test_terms_add_up_to_what_was_measured() -> None:
    assert FIRST.total_s == pytest.approx(94 + 33 + 10 + 42 + 54)
    assert KEPT.total_s == pytest.approx(34 + 18 + 10 + 13 + 7)
    assert cold_start(LLAMA_8B_BYTES) == FIRST
    assert cold_start(LLAMA_8B_BYTES, kept=True) == KEPT


def test_weights_alone_follow_their_bytes() -> None:
    twice = cold_start(2 * LLAMA_8B_BYTES)
    assert twice.weights_s == pytest.approx(66)
    assert twice.total_s - twice.weights_s == pytest.approx(FIRST.total_s - FIRST.weights_s)


def test_an_engine_that_does_not_compile_starts_sooner() -> None:
    assert FIRST.total_s - cold_start(LLAMA_8B_BYTES, compiles=False).total_s == pytest.approx(52)
