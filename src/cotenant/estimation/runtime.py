"""Runtime: what CUDA, the communicators and CUDA graphs take beside the tensors.

None of it follows from the model alone: the driver's context, the kernels that a process loads, NCCL's buffers
and what a captured graph keeps differ by driver, library and card. Values are the middle of what engines
print, intervals their range: wide on purpose, and the place for a calibration.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import Term
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval, total
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.engines.rules import RuntimeRules
from cotenant.estimation.memo import IdentityCache
from cotenant.units import KIB, MIB

# Kernels loaded while running, library workspaces: what a single GPU's log calls non-torch memory.
_LIBRARIES = Interval(5 * MIB, 70 * MIB, 300 * MIB)
# ROCm's libraries keep larger workspaces of their own.
_LIBRARIES_AMD = Interval(20 * MIB, 250 * MIB, 1200 * MIB)
# Where host and card share one memory, engines read what is available to the host: what their own processes take
# there while loading and compiling counts too (vLLM, utils/mem_utils.py, MemorySnapshot).
_LIBRARIES_SHARED = Interval(100 * MIB, 1024 * MIB, 4096 * MIB)
SHARED_MEMORY = frozenset({(7, 2), (8, 7), (11, 0), (12, 1)})
"""Compute capabilities of Xavier, Orin, Thor and GB10."""
# The CUDA context itself, created before the first measurement.
_CONTEXT = Interval(150 * MIB, 450 * MIB, 700 * MIB)
# NCCL channels and all-reduce buffers of a group of GPUs: over PCIe, and over links (more channels, and
# multicast buffers on a switch).
_OVER_PCIE = Interval(80 * MIB, 250 * MIB, 600 * MIB)
_OVER_LINKS = Interval(150 * MIB, 500 * MIB, 2000 * MIB)
_LINKED = 200e9  # bytes/s of all links together; bridges of two cards stay below
_COMMUNICATORS_LATER = Interval(0, 60 * MIB, 600 * MIB)
# What a captured graph keeps: its pool's outputs once, and its nodes for every layer.
_GRAPH_POOL = 100 * MIB
_GRAPH_NODES = 96 * KIB
# Where every layer's part is a graph of its own, each keeps its nodes, and in a group those of two all-reduces:
# public logs print 137 to 525 KiB for each on one GPU (median 260) and 300 to 830 in a group (median 406).
_PIECES, _PIECES_GROUPED = 256 * KIB, 400 * KIB
# What vLLM subtracts before it captures: the largest first capture, with what its warm-up leaves behind, and the
# second one's growth for each of the rest, though graphs share their memory (v1/worker/gpu_model_runner.py,
# profile_cudagraph_memory; issue 45178). Public logs print 0.55 to 1.65 GiB for its 86 default graphs on one GPU,
# less for fewer, and 2.7 to 5.0 on four.
_ESTIMATED_NODES = 176 * KIB
_ESTIMATED_GROUP = 1536 * MIB


@dataclass(frozen=True, slots=True)
class Runtime:
    """`inside`: charged to the engine's budget before the pool is sized; `outside`: beside or on top of it.

    `beside` is the part of `outside` that is there before the engine looks at the card.
    """

    inside: Interval
    outside: Interval
    beside: Interval
    why: str

    @property
    def term(self) -> Term:
        """Both together."""
        return Term(self.inside + self.outside, self.why)


_CACHE: IdentityCache[Runtime] = IdentityCache(4096)


def runtime(
    model: ModelSpec,
    gpu: GpuSpec,
    settings: EngineSettings,
    rules: RuntimeRules,
    *,
    reserves_graphs: bool = True,
    slots: Interval | None = None,
) -> Runtime:
    """The runtime term of one rank, from resolved settings. `reserves_graphs`: false where the model's runner
    leaves the graphs out of a budget that pays for them otherwise. `slots`: rows of the token tables (None: as
    many as max_num_seqs)."""
    linked = (gpu.link_bandwidth or 0) >= _LINKED
    libraries = rules.libraries or _libraries(gpu)
    key = (
        linked, libraries, settings.data_parallel_size,
        settings.tensor_parallel_size, settings.pipeline_parallel_size, settings.max_num_seqs,
        settings.enforce_eager, settings.speculation and settings.speculation.tokens, settings.max_graph_batch,
        settings.max_model_len if rules.slot_bytes else 0,
        settings.max_num_batched_tokens if rules.prefill_sizes or rules.piecewise else 0, reserves_graphs,
        settings.adapters is not None, slots,
    )  # fmt: skip
    return _CACHE.get(
        (model, rules), key, lambda: _runtime(model, settings, rules, linked, libraries, reserves_graphs, slots)
    )


def _libraries(gpu: GpuSpec) -> Interval:
    if gpu.compute_capability in SHARED_MEMORY:
        return _LIBRARIES_SHARED
    return _LIBRARIES_AMD if gpu.vendor.lower() == "amd" else _LIBRARIES


def _runtime(
    model: ModelSpec, settings: EngineSettings, rules: RuntimeRules, linked: bool, libraries: Interval,
    reserves_graphs: bool, slots: Interval | None,
) -> Runtime:  # fmt: skip
    paid = rules.graphs_in_budget and reserves_graphs
    inside, beside, on_top = [libraries], list[Interval](), list[Interval]()
    (inside if rules.context_in_budget else beside).append(_CONTEXT)
    group = settings.tensor_parallel_size * settings.pipeline_parallel_size * settings.data_parallel_size
    if group > 1:
        communicators = _OVER_LINKS if linked else _OVER_PCIE
        if rules.communicators_in_budget:
            inside.append(communicators)
        else:
            beside.append(communicators)
            inside.append(_COMMUNICATORS_LATER)
    graphs = _graphs(model, settings, rules, estimated=paid and rules.graphs_estimated)
    if graphs is not None:
        (inside if paid else on_top).append(graphs)
    if graphs is not None and rules.index_bytes is not None:
        on_top.append(_graph_indices(settings, rules.index_bytes))
    if rules.slot_bytes:
        on_top.append(_slot_table(settings, rules, slots))
    why = "CUDA context, kernels"
    why += ", communicators" if group > 1 else ""
    why += "" if graphs is None else f", {graph_count(settings, rules, model.architecture)} CUDA graphs"
    why += "" if graphs is None or paid else " (on top of the budget)"
    why += (
        f", token tables of {slots.value if slots else settings.max_num_seqs or 1:,} slots"
        if rules.slot_bytes
        else ""
    )
    return Runtime(total(inside), total((*beside, *on_top)), total(beside), why)


def graph_count(settings: EngineSettings, rules: RuntimeRules, architecture: str = "") -> int:
    """Graphs captured: each size up to the largest, and where the version captures both kinds a second set for
    decode batches; all of them twice where adapters ask for it."""
    sizes, seqs = _sizes(settings, rules, architecture), _decode_tokens(settings)
    decode = sum(size <= seqs for size in sizes) if rules.piecewise else len(sizes)
    count = len(sizes) + (decode * (rules.graph_modes - 1) if rules.graph_modes > 1 else 0)
    if not rules.graph_modes:
        return 0
    return count * (2 if rules.adapter_graphs and settings.adapters is not None else 1)


def _decode_tokens(settings: EngineSettings) -> int:
    """Tokens of a decode step of all slots: it computes every proposed token."""
    drafted = settings.speculation.tokens if settings.speculation else 0
    return (settings.max_num_seqs or 1) * (1 + drafted)


def _sizes(settings: EngineSettings, rules: RuntimeRules, architecture: str) -> tuple[int, ...]:
    """Batch sizes that are captured."""
    own = dict(rules.graph_sets).get(architecture)
    sizes, largest = own or rules.graph_sizes, own[-1] if own else _slot_limit(settings, rules)
    largest = min(largest, settings.max_graph_batch or largest)
    if rules.piecewise:
        largest = min(largest, settings.max_num_batched_tokens or largest)
    return tuple(size for size in sizes if size <= largest)


def _slot_limit(settings: EngineSettings, rules: RuntimeRules) -> int:
    if rules.graph_slots is None:
        return rules.largest_graph
    most = rules.graph_slots * _decode_tokens(settings)
    if rules.graph_slots == 1:
        most = next((size for size in rules.graph_sizes if size >= most), most)
    return min(rules.largest_graph, most)


def _slot_table(settings: EngineSettings, rules: RuntimeRules, slots: Interval | None) -> Interval:
    """A row of token numbers a slot."""
    row, rows = (
        rules.slot_bytes * (settings.max_model_len or 1),
        slots or Interval.exact(settings.max_num_seqs or 1),
    )
    return Interval(row * rows.low, row * rows.value, row * rows.high)


def _graph_indices(settings: EngineSettings, bytes_each: tuple[int, int, int]) -> Interval:
    """Where a token of the largest graph finds its sequence's: as long as the longest, as a graph's inputs are."""
    drafted = settings.speculation.tokens if settings.speculation else 0
    entries = _largest(settings) * (1 + drafted) * (settings.max_model_len or 1)
    low, value, high = (entries * size for size in bytes_each)
    return Interval(low, value, high)


def _graphs(
    model: ModelSpec, settings: EngineSettings, rules: RuntimeRules, *, estimated: bool
) -> Interval | None:
    count = graph_count(settings, rules, model.architecture)
    if settings.enforce_eager or model.encoder_only or not count:
        return None
    if estimated:
        value = _GRAPH_POOL + count * model.num_layers * _ESTIMATED_NODES
        ranks = settings.tensor_parallel_size * settings.data_parallel_size
        return Interval(value // 4, value, value * 5 // 2 + 100 * MIB + (_ESTIMATED_GROUP if ranks > 1 else 0))
    value = _GRAPH_POOL + _graph_nodes(model, settings, rules, count)
    value += _prefill_graphs(model, settings, rules)
    slack = 100 * MIB + rules.graph_slack_bytes
    if settings.data_parallel_size > 1:
        slack += rules.copy_bytes * settings.data_parallel_size * min(rules.largest_graph, _largest(settings))
    if rules.piecewise:  # measured by release: a narrower range
        return Interval(value // 2, value, value * 9 // 5 + slack)
    return Interval(value // 4, value, value * 5 // 2 + slack)


def _graph_nodes(model: ModelSpec, settings: EngineSettings, rules: RuntimeRules, count: int) -> int:
    """Piecewise, the graphs of the layers' parts count; those of whole decode steps share their memory."""
    if not rules.piecewise:
        return count * model.num_layers * _GRAPH_NODES
    grouped = settings.tensor_parallel_size * settings.data_parallel_size > 1
    pieces = len(_sizes(settings, rules, model.architecture))
    pieces *= 2 if rules.adapter_graphs and settings.adapters is not None else 1
    return pieces * model.num_layers * (_PIECES_GROUPED if grouped else _PIECES)


def _largest(settings: EngineSettings) -> int:
    """Requests of the largest batch that is captured."""
    return settings.max_graph_batch or settings.max_num_seqs or 1


def _prefill_graphs(model: ModelSpec, settings: EngineSettings, rules: RuntimeRules) -> int:
    """Graphs of a prefill's pieces beside those of decode batches."""
    if not rules.prefill_sizes:
        return 0
    if any(group.kind is AttentionKind.LATENT for group in model.layer_groups):
        return rules.latent_prefill_bytes
    batch = settings.max_num_batched_tokens or 1
    return rules.prefill_bytes * sum(size <= batch for size in rules.prefill_sizes)
