"""The catalogue of models: every published parameter total against our count from the structure."""

from __future__ import annotations

import re
import time

import pytest

from cotenant.catalogue.models import ModelEntry, all_entries, find_entry
from cotenant.domain.model import AttentionKind, ModelSpec, Role
from cotenant.readers.model_config import read_model_config

ENTRIES = all_entries()
TASKS = {"chat", "base", "code", "embed", "rerank", "vision-chat", "speech"}
FORMATS = {"fp8", "fp8-block", "awq-int4", "gptq-int4", "w4a16", "nvfp4", "mxfp4", "gguf", "int8", "bnb-nf4"}
BLOCK_SCALED = (Role.ATTENTION, Role.MLP, Role.EXPERT)
NUMBER = re.compile(r"(\d[\d,]*) (?:U8 )?([a-z0-9_-]+)")


# Stored values that no tensor of the architecture accounts for: the figure, less our count, and what is known.
RESIDUALS = {
    "moonshotai/Kimi-K2-Instruct": (61 * 56, "56 values a layer, unexplained"),
    "moonshotai/Moonlight-16B-A3B-Instruct": (27 * 64, "64 values a layer, unexplained"),
    "moonshotai/Kimi-K3": (69 * 32, "A_log is stored 128 long for 96 heads in each of 69 layers, it seems"),
    "XiaomiMiMo/MiMo-V2-Flash": (-103_872, "not every matrix has block scales, and no config says which"),
}


def spec_of(entry: ModelEntry) -> ModelSpec:
    return read_model_config(entry.config, name=entry.id, source=entry.config_source)


def clauses(what: str) -> list[tuple[str, str]]:
    """("includes" | "excludes", words) in order; bracketed remarks say nothing of the total itself."""
    plain = re.sub(r"\([^()]*\)", "", what)
    parts = re.split(r"\b(includes|excludes|with)\b", plain)
    return [
        ("includes" if verb == "with" else verb, words)
        for verb, words in zip(parts[1::2], parts[2::2], strict=True)
    ]


def block_scales(spec: ModelSpec) -> int:
    """One scale for each 128 x 128 block of the matrices that block-wise fp8 shrinks."""
    total = 0
    for group in spec.parameters_of(*BLOCK_SCALED):
        if len(group.shape) >= 2:
            stack = group.shape[0] if len(group.shape) == 3 else 1
            rows, columns = group.shape[-2:]
            total += group.count * stack * -(-rows // 128) * -(-columns // 128)
    return total


def tensor_scales(spec: ModelSpec) -> int:
    """Per-tensor fp8 stores one scale for each weight and one for its input."""
    return 2 * sum(group.count for group in spec.parameters_of(*BLOCK_SCALED) if len(group.shape) == 2)


def unused_projections(spec: ModelSpec) -> int:
    """Key and value projections and key norms of layers that read another layer's cache."""
    borrowing = [group for group in spec.layer_groups if group.kind is AttentionKind.NONE]
    return sum(g.num_layers * g.key_width * (2 * g.kv_heads * spec.hidden_size + 1) for g in borrowing)


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
            total += tensor_scales(spec) if "the fp8 scales" in words else 0
            total += unused_projections(spec) if "KV-shared layers do not use" in words else 0
            total += sum(counted(words, "position", "rotary", "buffer", "layer", "fp8", "values"))
        else:
            total -= head if "output head" in words else 0
            total -= sum(counted(words, "expert", "routing", "parameters", "router"))
            total -= 2 * spec.hidden_size if re.search("two (unused|offset) (position )?rows", words) else 0
            total -= spec.hidden_size if "token type row" in words else 0
    return total


def counted(words: str, *things: str) -> list[int]:
    """The numbers in `words` that stand before one of `things`."""
    found = NUMBER.findall(words)
    return [int(number.replace(",", "")) for number, thing in found if thing.startswith(things)]


def printed_range(as_printed: str, what: str) -> tuple[float, float]:
    """What a rounded figure allows: half a unit of its last digit, or a whole one where it was cut."""
    match = re.fullmatch(r"~?([\d._]+)\s*([KMBT]?)", as_printed)
    assert match is not None, as_printed
    if not match.group(2):  # 6_700_000_000
        digits = as_printed.replace("_", "").rstrip("0")
        unit = float(10 ** (len(as_printed.replace("_", "")) - len(digits)))
        return float(as_printed) - unit / 2, float(as_printed) + unit / 2
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
        assert total + RESIDUALS.get(entry.id, (0, ""))[0] == published.parameters
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
    assert {name.split(".")[-1] for name in entry.defaulted} <= keys_of(entry.config)


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


def test_an_alias_is_found_without_its_owner() -> None:
    """A file is called after what it was made of: Qwen3.6-27B-Q4_K_M.gguf."""
    entry = find_entry("Qwen3.6-27B")
    assert entry is not None
    assert entry is find_entry("Qwen/Qwen3.6-27B")
