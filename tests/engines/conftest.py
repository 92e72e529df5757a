"""Models and cards that the engines' tests share, read from what the package brings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec
from cotenant.readers.model_config import read_model_config


@pytest.fixture
def spec() -> Callable[[str], ModelSpec]:
    """A model of the catalogue by its name."""

    def read(name: str) -> ModelSpec:
        entry = find_entry(name)
        assert entry is not None
        return read_model_config(entry.config, name=name, source=entry.config_source)

    return read


@pytest.fixture
def card_of() -> Callable[..., GpuSpec]:
    """A card whose CUDA total is known: an A100's other facts with another capacity."""
    from dataclasses import replace

    def build(cuda_bytes: int) -> GpuSpec:
        exact = Interval.exact(cuda_bytes)
        return replace(find_gpu("A100-80GB-SXM"), cuda_bytes=exact, driver_bytes=exact, cuda_measured=True)

    return build
