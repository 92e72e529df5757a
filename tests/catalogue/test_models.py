"""The catalogue of models: every published parameter total against our count from the structure."""

from __future__ import annotations

import re
import time

import pytest

from cotenant.catalogue.models import ModelEntry, all_entries, find_entry
from cotenant.domain.model import ModelSpec, Role
from cotenant.readers.model_config import read_model_config

ENTRIES = all_entries()
TASKS = {"chat", "base", "code", "embed", "rerank", "vision-chat", "speech"}
FORMATS = {"fp8", "fp8-block", "awq-int4", "gptq-int4", "w4a16", "nvfp4", "mxfp4", "gguf", "int8", "bnb-nf4"}
BLOCK_SCALED = (Role.ATTENTION, Role.MLP, Role.EXPERT)
NUMBER = re.compile(r"(\d[\d,]*) (?:U8 )?([a-z0-9_-]+)")


def spec_of(entry: ModelEntry) -> ModelSpec:
    return read_model_config(entry.config, name=entry.id, source=entry.config_source)


def clauses(what: str) -> list[tuple[str, str]]:
    """("includes" | "excludes", words) in order; bracketed remarks say nothing of the total itself."""
    plain = re.sub(r"\([^()]*\)", "", what)
    parts = re.split(r"\b(includes|excludes|with)\b", plain)
    return [("includes" if verb == "with" else verb, words) for verb, words in zip(parts[1::2], parts[2::2])]


def block_scales(spec: ModelSpec) -> int:
    """One scale for each 128 x 128 block of the matrices that block-wise fp8 shrinks."""
    total = 0
    for group in spec.parameters_of(*BLOCK_SCALED):
        if len(group.shape) >= 2:
            stack = group.shape[0] if len(group.shape) == 3 else 1
            rows, columns = group.shape[-2:]
            total += group.count * stack * -(-rows // 128) * -(-columns // 128)
    return total


def expected_total(spec: ModelSpec, what: str) -> int:
    """Our count, adjusted by what the published figure says that it counts."""
    head = sum(g.count * g.shape[0] * g.shape[1] for g in spec.parameters_of(Role.HEAD) if len(g.shape) == 2)
    total = spec.num_parameters
    for verb, words in clauses(what):
        if verb == "includes":
            total += spec.num_draft_parameters if re.search("multi-token|draft layers", words) else 0
            total += 2 * spec.vocab_size * spec.hidden_size if "own copies of embedding and head" in words else 0
            total += head if "tied output head" in words else 0
            total += block_scales(spec) if "block scales" in words else 0
            total += sum(counted(words, "position", "rotary", "buffer", "A_log", "values"))
        else:
            total -= head if "output head" in words else 0
            total -= sum(counted(words, "expert", "routing", "parameters", "router"))
            total -= 2 * spec.hidden_size if "two unused position rows" in words else 0
    return total


def counted(words: str, *things: str) -> list[int]:
    """The numbers in `words` that stand before one of `things`."""
    found = NUMBER.findall(words)
    return [int(number.replace(",", "")) for number, thing in found if thing.startswith(things)]


def printed_range(as_printed: str, what: str) -> tuple[float, float]:
    """What a rounded figure allows: half a unit of its last digit, or a whole one where it was cut."""
    match = re.fullmatch(r"~?([\d.]+)\s*([KMBT])", as_printed)
    assert match is not None, as_printed
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[match.group(2)]
    value, digits = float(match.group(1)), len(match.group(1).partition(".")[2])
    unit = scale / 10**digits
    return (
        (value * scale, value * scale + unit)
        if "down" in what
        else (value * scale - unit / 2, value * scale + unit / 2)
    )


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_our_count_is_the_published_one(entry: ModelEntry) -> None:
    published = entry.published
    total = expected_total(spec_of(entry), published.what)
    if published.exact:
        assert total - published.parameters == 0
    else:
        low, high = printed_range(published.as_printed, published.what)
        assert low <= total <= high


def test_the_catalogue_is_large_and_mostly_exact() -> None:
    assert len(ENTRIES) >= 120
    assert sum(entry.published.exact for entry in ENTRIES) >= 40


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_every_entry_is_whole(entry: ModelEntry) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry.id)
    assert entry.task in TASKS
    assert entry.license is None or entry.license
    assert entry.config_source
    assert entry.published.source
    assert entry.published.what
    assert set(entry.checkpoints) <= FORMATS
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+", checkpoint) for checkpoint in entry.checkpoints.values())
    assert all(entry.checkpoint_sources[name] for name in entry.checkpoints)
    assert set(entry.defaulted) <= keys_of(entry.config), "defaulted names keys of the config"


def keys_of(config: object) -> set[str]:
    """Every key at any depth."""
    if not isinstance(config, dict):
        return set()
    return set(config) | {inner for value in config.values() for inner in keys_of(value)}


def test_no_two_entries_answer_to_one_name() -> None:
    seen: dict[str, str] = {}
    for entry in ENTRIES:
        for name in {entry.id.lower(), *(alias.lower() for alias in entry.aliases)}:
            assert seen.setdefault(name, entry.id) == entry.id, f"{name} names {seen[name]} and {entry.id}"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("META-LLAMA/llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Qwen/Qwen3-8B-Base", "Qwen/Qwen3-8B"),
        ("qwen/qwen3-8b-fp8", "Qwen/Qwen3-8B"),
        ("Mistral-7B-Instruct-v0.3", "mistralai/Mistral-7B-Instruct-v0.3"),
    ],
)
def test_found_by_id_alias_checkpoint_or_short_name(name: str, found: str) -> None:
    entry = find_entry(name)
    assert entry is not None
    assert entry.id == found


@pytest.mark.parametrize("name", ["", "nobody/nothing", "../../etc/passwd", "x" * 10_000, 'a"b', "gpt-5"])
def test_unknown_names_are_none(name: str) -> None:
    assert find_entry(name) is None


def test_a_look_up_is_quick() -> None:
    started = time.perf_counter()
    find_entry("meta-llama/Llama-3.1-8B-Instruct")
    find_entry("no-such/model")
    assert time.perf_counter() - started < 0.5  # 15 ms on an idle machine; slow runners get room
