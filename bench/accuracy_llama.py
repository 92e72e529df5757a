"""Records of llama.cpp and Ollama: from the shape that a record tells to buffers, input fields only.

A record says the shape of its model; where the catalogue knows a model of that name and the same shape, the widths
that a record leaves out (feed-forward, experts) come from there. Which build: `accuracy_builds`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bench.accuracy_builds import another_graph, build_of, builds_beside, release_of
from bench.accuracy_mixes import element_bytes, expert_bytes, head_bytes
from bench.accuracy_rows import Row
from cotenant.catalogue.models import all_entries
from cotenant.domain.interval import Interval
from cotenant.domain.llama_cpp import ALL_LAYERS, LlamaCppOptions
from cotenant.domain.model import AttentionKind, LayerGroup, ModelSpec, RecurrentState
from cotenant.engines.llama_cpp.buffers import compute_interval, host_interval
from cotenant.engines.llama_cpp.builds import BuildRules
from cotenant.engines.llama_cpp.cache import layer_bytes, state_bytes
from cotenant.engines.llama_cpp.placement import HOST, Placement, place
from cotenant.engines.ollama import window_memory
from cotenant.engines.ollama_own import own_compute, own_host
from cotenant.engines.ollama_releases import own_engine
from cotenant.errors import CotenantError, UnsupportedError
from cotenant.readers.model_config import read_model_config
from cotenant.units import MIB

# Fields of the schema: what a record leaves out is not said.
_UNSAID = dict.fromkeys(
    (
        "engine", "version", "arch", "n_layer", "n_head", "n_head_kv", "head_dim_k", "head_dim_v", "n_embd",
        "n_vocab", "n_swa", "n_layer_kv_full", "n_layer_kv_swa", "n_head_kv_swa", "head_dim_k_swa",
        "head_dim_v_swa", "mla_kv_lora_rank", "mla_n_rot", "mla_mode", "recurrent", "n_rs_seq", "n_ctx",
        "n_parallel", "kv_unified", "n_batch", "n_ubatch", "n_gpu_layers", "flash_attn", "type_k", "type_v",
        "swa_full", "backend", "gpu",
    )
)  # fmt: skip
_UNPRINTED = dict.fromkeys(("kv_total_mib", "rs_total_mib", "kv_swa_mib", "kv_caches", "compute_buffer_mib"))


@dataclass(frozen=True, slots=True)
class LlamaAnswer:
    """What was computed for a record, in bytes by device, or why not. `cache` holds keys and values, `state` the
    recurrent part; `compute` is by GPU number, HOST for the host's."""

    row: Row
    cache: int | None
    state: int | None
    full: int | None  # of the cache, what layers without a window hold
    compute: Mapping[int, Interval] | None
    refusal: str

    @property
    def held_out(self) -> bool:
        """A random fifth of the records, by their id."""
        return hashlib.sha256(self.row["id"].encode()).digest()[0] % 5 == 0


def answer_llama(row: Row) -> LlamaAnswer:
    """The buffers of one record; a refusal is an answer without figures."""
    row = {**_UNSAID, **row, "measured": {**_UNPRINTED, **(row.get("measured") or {})}}
    try:
        model, build = _model(row), build_of(row)
        options = _options(row, model, build)
        placement = _placement(row, model, build)
        cache, state = layer_bytes(model, options, build), sum(state_bytes(model, options))
        windowed = {layer for group in model.layer_groups if group.window for layer in group.layers}
        full = sum(size for layer, size in enumerate(cache) if layer not in windowed)
        found = _compute(row, model, options, build, placement)
        for other in builds_beside(row):
            found = _hull(found, _compute(row, model, options, other, placement))
        if another_graph(row):
            found = {device: _fork(size) for device, size in found.items()}
        return LlamaAnswer(row, sum(cache), state, full, found, "")
    except CotenantError as error:
        return LlamaAnswer(row, None, None, None, None, error.message)


def _compute(
    row: Row, model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement
) -> dict[int, Interval]:
    if build.own_engine:
        return _own_compute(row, model, options, build, placement)
    found = {HOST: host_interval(model, options, build, placement)}
    placed = {*placement.layers, placement.output} - {HOST}
    if not placed and (row["backend"] or "CPU").upper() != "CPU":  # the card still computes large batches
        placed = {0}
    for gpu in sorted(placed):
        found[gpu] = compute_interval(
            model, options, build, placement, gpu, head_bytes(row), element_bytes(row), expert_bytes(row)
        )
    return found


_VENDORS = {"CUDA": "nvidia", "ROCM": "amd", "HIP": "amd"}


def _own_compute(
    row: Row, model: ModelSpec, options: LlamaCppOptions, build: BuildRules, placement: Placement
) -> dict[int, Interval]:
    """The "compute graph" lines of Ollama's own engine."""
    release = release_of(row)
    gfx = re.search(r"gfx\w+", str((row["gpu"] or {}).get("name") or ""))
    found = {HOST: own_host(model, options, release, build, placement)}
    for gpu in sorted({*placement.layers, placement.output} - {HOST}):
        found[gpu] = own_compute(
            model, options, release, build, placement, gpu, head_bytes=head_bytes(row),
            weight_bytes=element_bytes(row), vendor=_VENDORS.get((row["backend"] or "").upper(), ""),
            gfx=gfx.group() if gfx else None,
        )  # fmt: skip
    return found


def _fork(size: Interval) -> Interval:
    """A compute buffer of a fork, taken for llama.cpp's: what decides (the widest layer, the mask, the rows of
    logits) is alike; kernels of its own, and where a launch put attention and experts, are not."""
    return Interval(size.low * 4 // 10, size.value, size.high * 2)


def _hull(found: Mapping[int, Interval], other: Mapping[int, Interval]) -> dict[int, Interval]:
    """The first one's values in intervals that hold both."""
    return {
        device: Interval(min(size.low, other[device].low), size.value, max(size.high, other[device].high))
        for device, size in found.items()
    }


def _given(row: Row, name: str) -> Any:
    """A field as told, or as inferred by who wrote the record from other inputs."""
    value = row[name]
    return value if value is not None else (row.get("inferred") or {}).get(name)


def _window_memory(model: ModelSpec, row: Row) -> int:
    own = own_engine(model, release_of(row))
    return window_memory(model, own, row["n_parallel"] or 1) if own is not None else 0


def _options(row: Row, model: ModelSpec, build: BuildRules) -> LlamaCppOptions:
    slots = row["n_parallel"] or 1
    quantised = any((_given(row, name) or "f16") not in ("f16", "f32", "bf16") for name in ("type_v",))
    return LlamaCppOptions(
        n_ctx=_given(row, "n_ctx"),
        n_parallel=slots,
        n_batch=row["n_batch"],
        n_ubatch=_given(row, "n_ubatch") or build.micro_batch,
        flash_attn=_flash(_given(row, "flash_attn"), build) or quantised,
        type_k=_type(_given(row, "type_k")),
        type_v=_type(_given(row, "type_v")),
        kv_unified=row["kv_unified"] if row["kv_unified"] is not None else slots == 1,
        swa_full=bool(row["swa_full"]),
        window_memory=_window_memory(model, row) if build.own_engine else 0,
        n_rs_seq=row["n_rs_seq"] or 0,
        n_cpu_moe=_host_experts(row),
    )


def _host_experts(row: Row) -> int:
    """Layers whose experts stay with the host, a setting that only a record's note tells."""
    told = re.search(r"experts (?:of (\d+) layers )?on (?:the )?(?:CPU|host)", row.get("note") or "")
    return int(told.group(1) or ALL_LAYERS) if told else 0


def _flash(value: Any, build: BuildRules) -> bool:
    if value is None:
        return build.flash_auto
    return str(value).lower() not in ("0", "off", "disabled", "false")


def _type(value: str | None) -> str:
    said = (value or "none").lower().replace("fp", "f")
    return said if said != "none" else "f16"


def _placement(row: Row, model: ModelSpec, build: BuildRules) -> Placement:
    offloaded = str(row["n_gpu_layers"] or "all").split("/")[0]
    if (row["backend"] or "").upper() == "CPU":  # else a GPU computes large batches even for layers that stay
        return place(model.num_layers, 0, 1)
    return place(
        model.num_layers,
        int(offloaded) if offloaded.isdigit() else 10**6,
        _gpus(row),
        output_first=build.output_first,
        pipeline="RPC" not in (row["backend"] or ""),
    )


def _gpus(row: Row) -> int:
    """How many GPUs the record's card field and copies tell of."""
    text = ((row["gpu"] or {}).get("name") or "").lower()
    match = re.match(r"(\d+)\s*(?:x |(?:\w+ )?(?:gpus|npus|hosts))", text)
    if match:
        return int(match.group(1))
    return 2 if " + " in text else 1


def _model(row: Row) -> ModelSpec:
    """The record's shape, with widths that it leaves out from the catalogue's model of that name and shape."""
    if row["n_layer"] is None:
        raise UnsupportedError("the record tells no shape")
    for spec in (*_named(row["model"]["name"]), *_shaped(row), *_siblings(row)):
        if (spec.num_layers, spec.hidden_size) == (row["n_layer"], row["n_embd"]):
            heads = max((group.query_heads for group in spec.layer_groups), default=0)
            groups = spec.layer_groups if _agree(spec, row) else _groups(row, heads)
            return replace(spec, layer_groups=groups, vocab_size=row["n_vocab"] or spec.vocab_size)
    return ModelSpec(
        name=row["model"]["name"], architecture=row["arch"], family=row["arch"], layer_groups=_groups(row),
        parameters=(), num_layers=row["n_layer"], hidden_size=row["n_embd"] or 0, intermediate_size=0,
        vocab_size=row["n_vocab"] or 0, max_model_len=_given(row, "n_ctx") or 4096,
        encoder_only="bert" in row["arch"],
    )  # fmt: skip


def _agree(spec: ModelSpec, row: Row) -> bool:
    """Whether the catalogue's layers are of the record's kinds, numbers and widths."""
    return _counts(spec.layer_groups) == _counts(_groups(row))


def _counts(groups: Sequence[LayerGroup]) -> Counter[tuple[AttentionKind, int, int]]:
    found: Counter[tuple[AttentionKind, int, int]] = Counter()
    for group in groups:
        if group.kv_heads and group.kind is not AttentionKind.NONE:
            found[group.kind, group.kv_heads, group.key_width] += group.num_layers
    return found


def _groups(row: Row, otherwise: int = 0) -> tuple[LayerGroup, ...]:
    """Layers by what they cache: full ones, sliding ones, recurrent ones, the rest nothing. Which is which does
    not matter on one device; sliding and recurrent layers come first, as they do in every such family.
    `otherwise`: query heads of the nearest model, where the record tells none."""
    total, full = row["n_layer"], row["n_layer_kv_full"] or 0
    swa, recurrent = row["n_layer_kv_swa"] or 0, row["recurrent"]
    linear = recurrent["n_linear_layers"] if recurrent else total - full - swa if _hybrid(row) else 0
    numbers = _dealt(total, {"full": full, "swa": swa, "linear": linear})
    heads = row["n_head"] or otherwise or row["n_head_kv"] or 0
    found = []
    if numbers["full"]:
        found.append(_attention(row, tuple(numbers["full"]), heads))
    if numbers["swa"]:
        found.append(
            LayerGroup(
                AttentionKind.SLIDING, tuple(numbers["swa"]), heads, row["n_head_kv_swa"] or row["n_head_kv"],
                row["head_dim_k_swa"] or row["head_dim_k"], row["head_dim_v_swa"] or row["head_dim_v"],
                window=row["n_swa"],
            )
        )  # fmt: skip
    if numbers["linear"] and recurrent:
        group, state, inner = recurrent["group_count"], recurrent["state_size"], recurrent["inner_size"]
        conv = (recurrent["conv_kernel"] - 1) * (2 * group * state + inner)
        found.append(
            LayerGroup(
                AttentionKind.RECURRENT,
                tuple(numbers["linear"]),
                state=RecurrentState(conv, inner * state, "fp32"),
            )
        )
    return tuple(found)


def _hybrid(row: Row) -> bool:
    return str(row["arch"]).startswith(("qwen35", "qwen3next"))


def _attention(row: Row, layers: tuple[int, ...], heads: int) -> LayerGroup:
    if row["mla_kv_lora_rank"]:
        width = row["mla_kv_lora_rank"] + (row["mla_n_rot"] or 64)
        return LayerGroup(AttentionKind.LATENT, layers, heads, 1, width, 0)
    return LayerGroup(
        AttentionKind.FULL, layers, heads, row["n_head_kv"] or 0, row["head_dim_k"] or 0, row["head_dim_v"] or 0
    )


def _dealt(total: int, counts: Mapping[str, int]) -> dict[str, list[int]]:
    """Layer numbers of each kind, spread evenly: the most numerous kind first in every round."""
    found: dict[str, list[int]] = {name: [] for name in counts}
    for number in range(total):
        behind = {name: count * (number + 1) / total - len(found[name]) for name, count in counts.items() if count}
        best = max(behind, key=lambda name: behind[name], default=None)
        if best is not None and behind[best] > 0 and len(found[best]) < counts[best]:
            found[best].append(number)
    return found


@lru_cache(maxsize=1)
def _entries() -> tuple[tuple[str, Any], ...]:
    return tuple((_plain(entry.id.partition("/")[2]), entry) for entry in all_entries())


def _named(name: str) -> Sequence[ModelSpec]:
    """Catalogue models whose name begins as the record's does."""
    wanted = _plain(re.sub(r"\(.*?\)|-(class|like|mtp|qat).*", "", name))
    found = []
    for plain, entry in _entries():
        if plain.startswith(wanted):
            found.append(_spec(entry.id))
    return found


def _shaped(row: Row) -> Iterator[ModelSpec]:
    """Catalogue models of the very shape that the record tells, whatever their name."""
    for _, entry in _entries():
        inner = entry.config.get("text_config", entry.config)
        if (inner.get("num_hidden_layers"), inner.get("hidden_size")) != (row["n_layer"], row["n_embd"]):
            continue
        if inner.get("vocab_size", entry.config.get("vocab_size")) != row["n_vocab"]:
            continue
        spec = _spec(entry.id)
        if _agree(spec, row):
            yield spec


def _siblings(row: Row) -> Iterator[ModelSpec]:
    """Catalogue models of the same family with the same layers and width: the nearest that tells the widths."""
    family = re.match(r"[a-z]+", row["arch"] or "")
    for plain, entry in _entries():
        if family and plain.startswith(family.group()):
            yield _spec(entry.id)


@lru_cache(maxsize=256)
def _spec(name: str) -> ModelSpec:
    entry = next(entry for _, entry in _entries() if entry.id == name)
    return read_model_config(entry.config, name=entry.id, source="catalogue")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def llama_kv(found: LlamaAnswer) -> LlamaError | None:
    """Keys, values and recurrent state together; where the record tells of one part alone, that part."""
    row, printed = found.row, found.row["measured"]
    kv, state = printed["kv_total_mib"], printed["rs_total_mib"]
    kv = kv if row["n_ctx"] is not None else None
    if row["n_layer"] is None or (kv is None and state is None) or (kv is not None and row["head_dim_k"] is None):
        return None
    if found.cache is None or found.full is None:
        return LlamaError(found, None)
    unshown = row["n_layer_kv_swa"] and printed["kv_swa_mib"] is None and _shows_full_only(row)
    ours = (found.full if unshown else found.cache) if kv is not None else 0
    ours += (found.state or 0) if state is not None else 0
    return LlamaError(found, ours / (((kv or 0) + (state or 0)) * MIB) - 1)


def _shows_full_only(row: Row) -> bool:
    """Whether the lines that the record quotes are of the layers without a window alone."""
    caches = row["measured"]["kv_caches"] or ()
    return bool(caches) and all(cache["layers"] == row["n_layer_kv_full"] for cache in caches)


def llama_compute(found: LlamaAnswer) -> LlamaError | None:
    """Compute buffers of the GPUs together, or the processor's where there is no GPU."""
    row, printed = found.row, found.row["measured"]["compute_buffer_mib"]
    if not printed or None in (row["n_layer"], row["n_ctx"], row["n_embd"], row["n_vocab"]):
        return None
    gpus = sorted(name for name in printed if name != "CPU" and not name.endswith("_Host"))
    if found.compute is None:
        return LlamaError(found, None)
    ours = [size for device, size in sorted(found.compute.items()) if device != HOST][: len(gpus)]
    if not gpus or not ours:
        gpus, ours = ["CPU"], [found.compute[HOST]]
        if "CPU" not in printed:
            return LlamaError(found, None)
    measured = sum(printed[name] for name in gpus[: len(ours)]) * MIB
    total = Interval(*(sum(getattr(size, side) for size in ours) for side in ("low", "value", "high")))
    card = ((row["gpu"] or {}).get("memory_mib") or 0) * MIB
    width = (total.high - total.low) / len(ours) / card if card else None
    covered = total.low - _PRINTED <= measured <= total.high + _PRINTED
    return LlamaError(found, total.value / measured - 1, covered, width)


_PRINTED = 0.006 * MIB  # what two printed digits leave open


@dataclass(frozen=True, slots=True)
class LlamaError:
    """One record of one metric: the error as a share, None where no answer was given."""

    answer: LlamaAnswer
    share: float | None
    covered: bool | None = None
    width: float | None = None
