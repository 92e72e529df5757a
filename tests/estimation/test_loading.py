"""What a rank holds while its weights are loaded, and that an engine that fits at rest can die there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.estimate import Verdict
from cotenant.domain.interval import Interval
from cotenant.engines.rules import Online
from cotenant.engines.sglang import SGLANG
from cotenant.engines.vllm import VLLM
from cotenant.estimation.loading import beside_weights
from cotenant.estimation.memory import estimate_memory
from cotenant.estimation.weights import StageWeights
from cotenant.readers.model_config import read_model_config
from cotenant.units import GIB
from tests.estimation.conftest import LLAMA_8B, card

MODEL = read_model_config(LLAMA_8B, name="8B", source="test")
L4 = card("L4", 22.09, 22.5, (8, 9))
FP8 = find_format("fp8")


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (None, Interval(0, 10, 20)),  # stored as served: up to two of the largest
        (Online.STREAMED, Interval(0, 20, 60)),  # a layer in 16 bits
        (Online.WHOLE, Interval(90, 90, 130)),  # 16 bits instead of 8
        (Online.HELD, Interval(200, 200, 240)),  # both
    ],
)
def test_what_stands_beside_the_weights(way, expected):
    served, plain = StageWeights(110, 10, (0.0, 0.0)), StageWeights(200, 20, (0.0, 0.0))
    assert beside_weights(served, plain, way) == expected


def peak(version: str, engine=VLLM, form=FP8, model=MODEL):
    found = estimate_memory(
        model, L4, EngineSettings(max_model_len=4096), engine=engine, version=Version.parse(version), format=form
    )
    return found, found.per_gpu[0].load_peak.value / GIB


@pytest.mark.parametrize(
    ("version", "gib"),
    [("0.11.0", 15.5), ("0.13.0", 23.9), ("0.14.1", 23.9), ("0.15.0", 9.5)],
)  # fmt: skip
def test_online_fp8_by_release(version, gib):
    """Llama-3.1-8B: 14.96 GiB in 16 bits and 8.5 in FP8. Releases 0.13 and 0.14 held both, and failed where 16
    bits had fitted (vllm-project/vllm, issue 31805 and pull 32773)."""
    assert peak(version)[1] == pytest.approx(gib, abs=0.7)


def test_what_fits_at_rest_dies_while_loading():
    """Both releases rest at 8.5 GiB of weights on a card of 22; the one that holds the originals too does not get
    there."""
    dies, fits = peak("0.14.1")[0], peak("0.15.0")[0]
    assert dies.per_gpu[0].weights.bytes == fits.per_gpu[0].weights.bytes
    assert dies.verdict is Verdict.DOES_NOT_FIT
    assert dies.reason.startswith("loading its weights")
    assert any("keeps the 16-bit checkpoint on the card" in one for one in dies.warnings)
    assert fits.verdict is Verdict.FITS


def test_a_checkpoint_that_holds_the_format_is_loaded_as_it_is():
    stored = replace(FP8, engine_flag="")
    assert peak("0.14.1", form=stored)[1] == pytest.approx(peak("0.15.0", form=stored)[1], abs=0.1)
    assert peak("0.14.1", form=stored)[0].verdict is Verdict.FITS


def test_sglang_loads_all_sixteen_bits_first():
    assert peak("0.5.16", engine=SGLANG)[1] == pytest.approx(15.9, abs=0.7)


def test_bitsandbytes_is_streamed():
    found, size = peak("0.8.5", form=find_format("bnb-nf4"))
    assert size < found.per_gpu[0].weights.bytes.value / GIB + 1.5
