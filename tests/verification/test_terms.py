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


SPLIT = """\
load_tensors:   CPU_Mapped model buffer size =   292.36 MiB
load_tensors:        CUDA0 model buffer size =  2100.00 MiB
load_tensors:        CUDA1 model buffer size =  2300.00 MiB
llama_context:  CUDA_Host  output buffer size =     0.98 MiB
llama_kv_cache:      CUDA0 KV buffer size =   512.00 MiB
llama_kv_cache:      CUDA1 KV buffer size =   480.00 MiB
sched_reserve:      CUDA0 compute buffer size =   560.00 MiB
sched_reserve:      CUDA1 compute buffer size =   304.00 MiB
sched_reserve:  CUDA_Host compute buffer size =    20.01 MiB
"""


@pytest.mark.parametrize(("rank", "weights", "cache", "compute"), [(0, 2100, 512, 560), (1, 2300, 480, 304)])
def test_a_card_of_several_is_held_to_its_own_buffers(rank: int, weights: int, cache: int, compute: int) -> None:
    (log,) = read_log([SPLIT.encode()]).measurements
    told = {"weights": weights, "kv_cache": cache, "activations": compute}
    assert {name: one.bytes // MIB for name, one in printed(log, rank).items()} == told
    loaded = Reading(0.0, 900 * MIB, 400 * MIB, 290 * MIB, device_bytes=(weights + cache + compute + 450) * MIB)
    found = measured(subject_named(on_host=False, gpu="L4", rank=rank), log, {"loaded": loaded})
    assert found["weights"].bytes == weights * MIB  # not the pages that stay with the host
    assert (found["runtime"].bytes, found["runtime"].source) == (450 * MIB, "the driver, the rest")
    assert printed(log, 2) == {}  # its names are not those of cards


def test_a_whole_run_in_host_memory_is_summed() -> None:
    (log,) = read_log([SPLIT.encode()]).measurements
    assert printed(log)["weights"].bytes == round((292.36 + 2100 + 2300) * MIB)


def test_cards_stand_in_the_order_of_their_numbers() -> None:
    lines = "".join(f"load_tensors: Vulkan{n} model buffer size = {100 + n}.00 MiB\n" for n in range(11))
    (log,) = read_log([lines.encode()]).measurements
    assert printed(log, 10)["weights"].bytes == 110 * MIB
    assert printed(log, 2)["weights"].bytes == 102 * MIB


def test_pages_of_a_file_are_not_what_a_card_holds() -> None:
    loaded = Reading(0.0, 104 * MIB, 101 * MIB, 100 * MIB, device_bytes=50 * MIB)
    assert "weights" not in measured(subject_named(on_host=False), None, {"loaded": loaded})
