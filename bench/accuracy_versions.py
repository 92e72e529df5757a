"""Which versions of vLLM a record without a version may come from, and one answer over all of them.

The range follows from which fields the record has (each is printed by some releases only) and from when the
model's architecture came in; never from a figure. The value is that of the version in the middle, the interval
covers every candidate's, and the verdict is theirs where nine of ten agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cotenant.domain.engine import Version
from cotenant.domain.estimate import Estimate, RankEstimate, Term, Verdict
from cotenant.domain.interval import Interval

# Releases between which the memory rules differ.
_RELEASES = (
    "0.5.4", "0.6.4.post1", "0.6.6", "0.7.3", "0.8.5", "0.9.2", "0.10.2", "0.12.0", "0.14.1", "0.17.1", "0.19.1",
    "0.20.2", "0.23.0", "0.26.0", "0.29.0", "0.33.0",
)  # fmt: skip

# (fields, first release, last release, the one whose value stands): a line with one of those fields is printed
# by these releases; the first entry with a field that the record has counts. Sources: v1/worker/gpu_worker.py,
# v1/worker/gpu_model_runner.py, v1/core/kv_cache_utils.py, worker/worker.py.
_PRINTED: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (("cudagraph_estimated_gib",), "0.20.2", "0.33.0", "0.23.0"),
    (("consumed_weights_plus_nontorch_gib",), "0.10.2", "0.33.0", "0.14.1"),
    (("gpu_blocks", "activation_peak_gib", "non_torch_gib"), "0.6.4.post1", "0.7.3", "0.7.3"),
    (("kv_cache_tokens", "needed_kv_gib", "estimated_max_len"), "0.9.2", "0.19.1", "0.12.0"),
    (("available_kv_gib", "cudagraph_gib", "max_concurrency"), "0.9.2", "0.19.1", "0.12.0"),
    (("weights_gib",), "0.6.4.post1", "0.19.1", "0.10.2"),
)  # fmt: skip
_ANY = ("0.5.4", "0.33.0", "0.33.0")

# The first release of those read whose model registry holds the architecture: a record cannot be older. A model of
# an older class (Kimi-K2, GLM-5.3, Nemotron 3, Qwen3.6 and 3.8) came out with the release named, or after it.
_SINCE = (
    ("gemma-4", "0.19.0"), ("qwen3.5", "0.17.1"), ("qwen3.6", "0.19.0"), ("qwen3.8", "0.25.0"),
    ("glm-5.3-flash", "0.30.0"), ("glm-5.3", "0.26.0"), ("glm-5", "0.16.0"),
    ("deepseek-v4.1", "0.30.0"), ("deepseek-v4", "0.20.0"), ("deepseek-v3.2", "0.11.0"), ("deepseek-v3", "0.6.6"),
    ("deepseek-r1.json", "0.6.6"), ("kimi-k3", "0.27.0"), ("kimi-k2.", "0.15.1"), ("kimi-k2", "0.9.2"),
    ("laguna", "0.21.0"), ("qwen3-vl", "0.11.0"), ("minimax-m3", "0.24.0"), ("minimax-m2", "0.11.2"),
    ("muse-glimmer", "0.28.0"), ("mimo-v2", "0.14.1"), ("mimo-7b", "0.9.2"),
    ("nemotron-3-super", "0.17.1"), ("nemotron-3-ultra", "0.20.0"), ("nemotron-3.5", "0.25.0"),
    ("nemotron-3-nano", "0.12.0"), ("nemotron-h-", "0.9.2"),
    ("gpt-oss", "0.10.2"), ("qwen3-next", "0.10.2"), ("kimi-linear", "0.12.0"), ("llama-4", "0.8.3"),
    ("qwen3", "0.8.5"), ("gemma-3", "0.8.0"), ("llama-3.1", "0.5.4"), ("qwen2.5", "0.6.1"), ("gemma-2", "0.5.1"),
)  # fmt: skip


_SURE = 0.9  # as sure as an interval is


def candidates(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Versions that the record may come from; the first is the one whose value stands."""
    first, last, middle = next(
        ((low, high, mid) for fields, low, high, mid in _PRINTED if any(row.get(f) is not None for f in fields)),
        _ANY,
    )
    name = (row.get("config_file") or "").lower()
    oldest = next((version for mark, version in _SINCE if mark in name), first)
    first, middle, last = (max(one, oldest, key=Version.parse) for one in (first, middle, last))
    low, high = Version.parse(first), Version.parse(last)
    rest = (release for release in (first, *_RELEASES) if low <= Version.parse(release) <= high)
    return tuple(dict.fromkeys((middle, *rest)))


def merged(found: Sequence[Estimate], ends: Sequence[Estimate] = ()) -> Estimate:
    """One estimate over several versions: the first one's values inside intervals that hold all of them, and of
    the `ends`, which have no say in the verdict."""
    first, every = found[0], (*found, *ends)
    if len(every) == 1:
        return first
    usual = max(Verdict, key=lambda verdict: sum(one.verdict is verdict for one in found))
    share = sum(one.verdict is usual for one in found) / len(found)
    verdict = usual if share >= _SURE else Verdict.UNCERTAIN
    ranks = tuple(_rank(rank, [one.per_gpu[n] for one in every]) for n, rank in enumerate(first.per_gpu))
    return replace(first, verdict=verdict, per_gpu=ranks)


def _rank(rank: RankEstimate, others: Sequence[RankEstimate]) -> RankEstimate:
    return replace(
        rank,
        weights=_term(rank.weights, (one.weights for one in others)),
        kv_cache=_term(rank.kv_cache, (one.kv_cache for one in others)),
        activations=_term(rank.activations, (one.activations for one in others)),
        runtime=_term(rank.runtime, (one.runtime for one in others)),
    )


def _term(term: Term, others: Iterable[Term]) -> Term:
    spans = [term.bytes, *(one.bytes for one in others)]
    return Term(Interval(min(s.low for s in spans), term.bytes.value, max(s.high for s in spans)), term.why)
