"""The four terms from what engines print: GPU engines' own logs, llama-server's buffers, the kernel's rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.domain.interval import Interval
from cotenant.domain.verification import Held, Reading
from cotenant.readers.logs import read_log
from cotenant.units import GIB, MIB
from cotenant.verification.terms import compare, measured, printed
from tests.verification.conftest import llama_log, subject_named

LOGS = Path(__file__).parents[1] / "golden" / "logs"


def test_vllms_log_tells_weights_and_pool() -> None:
    (log,) = read_log([(LOGS / "vllm-hybrid.log").read_bytes()]).measurements[-1:]
    found = printed(log)
    assert found["weights"].bytes == log.size_bytes("weights_gib")
    assert found["kv_cache"].bytes == log.size_bytes("available_kv_gib")
    assert found["weights"].bytes > GIB


def test_what_the_kernel_counts_beyond_buffers_is_runtime() -> None:
    loaded = Reading(0.0, 104 * MIB, 101 * MIB, 100 * MIB)
    found = measured(subject_named(), llama_log(), {"loaded": loaded, "peak": Reading(1.0, 120 * MIB, 101 * MIB)})
    assert {name: one.bytes // MIB for name, one in found.items()} == {
        "weights": 100, "kv_cache": 64, "activations": 16, "runtime": 41, "total": 221,
    }  # fmt: skip


def test_without_a_log_the_pages_of_its_file_are_its_weights() -> None:
    found = measured(subject_named(), None, {"loaded": Reading(0.0, 104 * MIB, 101 * MIB, 100 * MIB)})
    assert found["weights"].bytes == 100 * MIB
    assert "kv_cache" not in found
    told = {term.name: term.held for term in compare(subject_named(), found)}
    assert told["kv_cache"] is Held.UNKNOWN


@pytest.mark.parametrize(
    ("measured_mib", "held"), [(64.0, Held.YES), (64.6, Held.YES), (66, Held.NO), (60, Held.NO)]
)
def test_a_cache_is_held_to_one_percent(measured_mib: float, held: Held) -> None:
    found = measured(subject_named(), llama_log(cache=measured_mib), {"loaded": Reading(0.0, 1, 1)})
    term = next(term for term in compare(subject_named(), found) if term.name == "kv_cache")
    assert term.held is held
    assert term.ratio == pytest.approx(measured_mib / 64, rel=1e-6)


def test_nothing_predicted_is_no_ratio() -> None:
    nothing = subject_named(terms=(Interval.exact(0),) * 4)
    assert all(term.ratio is None for term in compare(nothing, {}))
