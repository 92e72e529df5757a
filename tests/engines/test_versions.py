"""Versions as engines tell them, against those that were planned; what settings say of slots and of the host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.domain.engine import EngineSettings, is_as_planned
from cotenant.domain.llama_cpp import LlamaCppOptions


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


def test_slots_and_the_host_are_read_off_the_settings():
    llama = EngineSettings(llama_cpp=LlamaCppOptions(n_parallel=3, n_gpu_layers=0))
    assert (llama.slots, llama.works_on_host) == (3, True)
    assert replace(llama, max_num_seqs=8).slots == 8
    cards = EngineSettings(llama_cpp=LlamaCppOptions(n_gpu_layers=99))
    assert (cards.slots, cards.works_on_host) == (None, False)
    assert (EngineSettings().slots, EngineSettings().works_on_host) == (None, False)
