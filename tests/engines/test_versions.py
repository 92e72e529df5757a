"""Versions as engines tell them, against those that were planned."""

from __future__ import annotations

import pytest

from cotenant.domain.engine import is_as_planned


@pytest.mark.parametrize(
    ("planned", "runs", "same"),
    [
        ("0.21", "0.21.0", True), ("0.21", "0.21.3", True), ("0.21.0", "0.21", True), ("0.21.0", "0.21.3", False),
        ("0.33.0", "0.33.0+cu128", True), ("0.5.23", "0.5.23.post1", True), ("1.2", "1.2.0rc3", True),
        ("0.21", "0.22.0", False), ("0.2", "0.21", False), ("11549", "b11549-abc123", True),
        ("11549", "b7000", False), ("v1", "1.0.2", True), ("0.21", "stub", None), ("", "0.21", None),
    ],
)  # fmt: skip
def test_what_runs_is_what_was_planned(planned, runs, same):
    assert is_as_planned(runs, planned) is same
