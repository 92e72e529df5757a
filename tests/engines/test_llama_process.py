"""What a server's process holds on a processor, against what build 11549 was measured to hold."""

from __future__ import annotations

import pytest

from cotenant.engines.llama_cpp.process import process_bytes
from cotenant.units import MIB


@pytest.mark.parametrize(
    ("vocabulary", "family", "measured_mib"),
    [(4096, "qwen3", 35.4), (4096, "gemma3", 35.7), (49_152, "llama", 57.2), (262_144, "gemma3", 87.5)],
)
def test_measured_processes_lie_inside_and_near(vocabulary: int, family: str, measured_mib: float) -> None:
    found = process_bytes(vocabulary, family)
    assert found.low < measured_mib * MIB < found.high
    assert found.value == pytest.approx(measured_mib * MIB, rel=0.03)


@pytest.mark.parametrize(
    ("vocabulary", "family", "measured_mib"),
    [(4096, "qwen3", 17.5), (49_152, "llama", 33.0), (262_144, "gemma3", 60.2)],
)
def test_a_server_compiled_where_it_runs_lies_inside(vocabulary: int, family: str, measured_mib: float) -> None:
    found = process_bytes(vocabulary, family)
    assert found.low < measured_mib * MIB < found.value


def test_merges_cost_more_than_pieces() -> None:
    assert process_bytes(128_000, "llama").value > process_bytes(128_000, "gemma3").value
    assert process_bytes(0).value == 34 * MIB
