"""One replica on one type of card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from cotenant.api.asked import Asked, EngineWords, TrafficWords
from cotenant.api.measured import with_what_is_known
from cotenant.api.sources import load_model
from cotenant.domain.defaults import KV_OVERFLOW

if TYPE_CHECKING:
    from cotenant.api.sources import ModelSource
    from cotenant.domain.estimate import Estimate
    from cotenant.domain.gpu import GpuSpec
    from cotenant.estimation.question import Question


def estimate(
    model: ModelSource,
    *,
    gpu: str | Mapping[str, Any] | GpuSpec,
    calibration: bool = True,
    aiconfigurator: bool = True,
    **asked: Unpack[Asked],
) -> Estimate:
    """What one replica takes of `gpu`, term by term, and whether it fits.

    `engine` may carry a version (``vllm@0.21``; vLLM by default); `quantization` is a format's name, by default
    the one that the model is stored in. `used` (``11GiB``) is held on each card by others. Engine options
    (`cotenant.api.asked.EngineWords`) are read as the engine reads them; those left out take its defaults, or
    follow from the traffic where some is given: `concurrent` with `context_tokens`, or `requests_per_second`
    with `input_tokens` and `output_tokens`, each ``{p50: ..., p95: ..., max: ...}``; `ttft`, `tpot` (``500ms``)
    and `percentile` (95) are what it must keep, `kv_overflow` how often the cache may be too small. `options`
    are the engine's own, in its words: ``{mem_fraction_static: 0.85}``, ``{ctx_size: 32768, parallel: 4}``,
    ``{max_input_tokens: 3072, max_total_tokens: 4096}``, ``{num_ctx: 8192, OLLAMA_NUM_PARALLEL: 4}``.
    `speculative_config` is vLLM's: ``{method: mtp, num_speculative_tokens: 2}``, ``{model: OWNER/DRAFT,
    num_speculative_tokens: 3}``. Terms follow what was measured of that engine, version, card and model family
    (`verify`, `explain --save`), unless `calibration` is false; step times are combined with AIConfigurator's
    where it is installed, unless
    `aiconfigurator` is false. Raises InputErrors and its kin for anything that cannot be used.
    """
    from cotenant.estimation.question import answer

    question = _question(model, gpu, asked)
    return with_what_is_known(lambda: answer(question), calibration, aiconfigurator)


def _question(model: ModelSource, gpu: str | Mapping[str, Any] | GpuSpec, asked: Mapping[str, Any]) -> Question:
    """Words to values, and everything opened."""
    from dataclasses import replace

    from cotenant.edge.own_gpus import open_gpu
    from cotenant.engines import find_engine, listed_adapters, read_words
    from cotenant.engines.speculative import read_speculative, refuse_elsewhere, split_speculative
    from cotenant.estimation.options import adapters_from, engine_settings, overflow_from, slo_from, traffic_from
    from cotenant.estimation.question import Question
    from cotenant.readers.draft_model import open_speculation
    from cotenant.units import parse_bytes

    _refuse_unknown(asked)
    rules, version = find_engine(asked.get("engine", "vllm"))
    own = asked.get("options")
    drafting, words = split_speculative(rules.name, {} if own is None else own)
    told, llama_cpp = read_words(rules, words)
    stored = told.pop("quantization", None)
    rank = told.get("max_lora_rank", _LISTED_RANK)
    named = [{"name": name, "source": source, "rank": rank} for name, source in listed_adapters(rules, words)]
    tuned = adapters_from(asked.get("adapters") or named)
    drafting = drafting or read_speculative(asked.get("speculative_config"))
    settings = engine_settings({**_those(EngineWords, asked), **told}, tuned)
    refuse_elsewhere(rules.name, rules.title, drafting, settings)
    loaded = load_model(model)
    drafted = open_speculation(drafting, loaded.spec, load_model)
    return Question(
        settings=replace(settings, llama_cpp=llama_cpp, speculation=drafted),
        traffic=traffic_from(**_those(TrafficWords, asked)),
        slo=slo_from(asked.get("ttft"), asked.get("tpot"), asked.get("percentile", 95.0)),
        overflow=overflow_from(asked.get("kv_overflow", KV_OVERFLOW)),
        adapters=tuned,
        gpu=open_gpu(gpu),
        used_bytes=parse_bytes(asked.get("used", 0)),
        engine=rules,
        version=version,
        quantization=asked.get("quantization") or stored,
        model=loaded,
    )


_LISTED_RANK = 16  # of adapters that an engine's own option lists (LORA_ADAPTERS), where nothing says it


def _those(words: type, asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asked[name] for name in words.__annotations__ if name in asked}


def _refuse_unknown(asked: Mapping[str, Any]) -> None:
    """As Python does for a keyword that a function does not have."""
    from difflib import get_close_matches

    for name in sorted(set(asked) - set(Asked.__annotations__)):
        near = get_close_matches(name, Asked.__annotations__, 1)
        raise TypeError(f"estimate() has no word {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
