"""Whatever a config.json holds: a ModelSpec or a CotenantError, soon, never anything else."""

from __future__ import annotations

import copy
import time
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant.catalogue.models import ModelEntry, all_entries
from cotenant.errors import CotenantError
from cotenant.readers.families import known_names
from cotenant.readers.model_config import read_model_config

ENTRIES = all_entries()
SLOWEST_S = 2.0  # 10,000 layers of everything, on a slow machine

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(0, 300), st.floats(),
    st.text(max_size=8), st.lists(st.integers(-2, 300), max_size=6), st.lists(st.text(max_size=4), max_size=4),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=3), st.just(10_000), st.just(2**31),
)  # fmt: skip


def attempt(config: Any) -> None:
    started = time.process_time()
    refused: tuple[CotenantError, ...] = ()
    try:
        spec = read_model_config(config, name="fuzz")
    except CotenantError as error:
        refused = error.faults()
    else:
        assert spec.num_parameters >= 0
        assert spec.num_layers >= 1
    assert all(fault.message and "\n" not in fault.message for fault in refused)
    assert time.process_time() - started < SLOWEST_S


def paths(config: dict[str, Any]) -> list[tuple[str, ...]]:
    """Every key, and every key of its sections."""
    found: list[tuple[str, ...]] = []
    for key, value in config.items():
        found.append((key,))
        if isinstance(value, dict):
            found += [(key, *inner) for inner in paths(value)]
    return found


@st.composite
def broken_configs(draw: st.DrawFn) -> dict[str, Any]:
    entry: ModelEntry = draw(st.sampled_from(ENTRIES))
    config = copy.deepcopy(dict(entry.config))
    for path in draw(st.lists(st.sampled_from(paths(config)), min_size=1, max_size=4)):
        place: Any = config
        for key in path[:-1]:
            place = place.get(key) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[path[-1]] = draw(VALUES)
    return config


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(broken_configs())
def test_a_broken_config_is_read_or_refused(config: dict[str, Any]) -> None:
    attempt(config)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(known_names()), st.dictionaries(st.text(max_size=20), VALUES, max_size=5))
def test_every_family_survives_an_empty_config(name: str, extra: dict[str, Any]) -> None:
    attempt({**extra, "architectures": [name]})


def test_every_family_refuses_or_reads_nothing_at_all() -> None:
    for name in known_names():
        attempt({"architectures": [name]})
        attempt({"model_type": name, "text_config": {}, "vision_config": []})


@settings(max_examples=100, deadline=None)
@given(st.recursive(VALUES, lambda inner: st.dictionaries(st.text(max_size=6), inner, max_size=4), max_leaves=12))
def test_any_value_at_all(value: Any) -> None:
    attempt(value)
