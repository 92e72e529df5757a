"""Where the bytes of each device went: the four terms as printed, and as predicted beside."""

from __future__ import annotations

from cotenant.diagnosis.launch import Launch
from cotenant.domain.estimate import Estimate, RankEstimate
from cotenant.domain.explanation import TERMS, DeviceShare, TermPair
from cotenant.domain.measurement import Measurement
from cotenant.engines.logs.llama_cpp import is_host
from cotenant.units import MIB


def device_shares(found: Measurement, launched: Launch, predicted: Estimate | None) -> tuple[DeviceShare, ...]:
    """llama.cpp and Ollama print buffers by device; the others one figure a rank: the smallest pool binds."""
    buffers = _buffers(found)
    if buffers:
        return tuple(
            _device(name, terms, found, _rank(predicted, place))
            for place, (name, terms) in enumerate(buffers.items())
        )
    return (_engine_share(found, launched, _rank(predicted, 0)),)


def _rank(predicted: Estimate | None, place: int) -> RankEstimate | None:
    return predicted.per_gpu[place] if predicted is not None and place < len(predicted.per_gpu) else None


def printed_terms(found: Measurement) -> dict[str, int]:
    """The four terms in bytes, as far as they were printed. What lies outside PyTorch and what graphs keep are the
    runtime; weights and the rest of what was consumed are told apart where one of them was printed alone."""
    weights = found.size_bytes("weights_gib")
    outside = found.size_bytes("non_torch_gib")
    consumed = found.size_bytes("consumed_weights_plus_nontorch_gib")
    if consumed is not None and weights is not None and outside is None:
        outside = consumed - weights
    elif consumed is not None and weights is None:
        weights = consumed - (outside or 0)
    graphs = found.size_bytes("cudagraph_gib")
    pool = (
        found.smallest("available_kv_gib") or found.smallest("given_kv_gib") or found.smallest("room_for_kv_gib")
    )
    states = sum(found.size_bytes(name) or 0 for name in _STATES)  # SGLang's beside its pool
    terms = {
        "weights": weights,
        "kv_cache": None if pool is None else pool.bytes + states,
        "activations": found.size_bytes("activation_peak_gib"),
        "runtime": None if outside is None and graphs is None else (outside or 0) + (graphs or 0),
    }
    return {name: size for name, size in terms.items() if size is not None}


_STATES = ("conv_states_gib", "ssm_states_gib", "draft_states_gib", "draft_windows_gib")


def _engine_share(found: Measurement, launched: Launch, rank: RankEstimate | None) -> DeviceShare:
    printed = printed_terms(found)
    terms = {name: TermPair(printed.get(name), rank.terms[name].bytes if rank else None) for name in TERMS}
    taken = [pair.best_bytes for pair in terms.values()]
    capacity = launched.capacity_bytes
    left = None
    if capacity is not None and None not in taken and {"weights", "kv_cache"} <= printed.keys():
        left = capacity - launched.used_bytes - sum(max(0, size) for size in taken if size is not None)
    budget = found.size_bytes("budget_gib")
    if budget is None and rank is not None:
        budget = rank.budget.value
    return DeviceShare("", capacity, launched.used_bytes, budget, terms, left)


_TERMS_OF = {
    "model_buffer_mib": "weights", "kv_buffer_mib": "kv_cache", "rs_buffer_mib": "kv_cache",
    "compute_buffer_mib": "activations", "output_buffer_mib": "activations", "lora_buffer_mib": "weights",
}  # fmt: skip


def host_terms(found: Measurement) -> dict[str, int]:
    """Bytes by term that were put into host memory, mapped files included; {} where no buffers are printed."""
    terms: dict[str, int] = {}
    for figure in found.figures:
        term = _TERMS_OF.get(figure.name)
        if term is not None and figure.device and is_host(figure.device):
            terms[term] = terms.get(term, 0) + figure.bytes
    if found.first("host_needed_mib") is not None:
        cards = {figure.name for figure in found.figures if figure.device}
        terms |= {
            term: found.size_bytes(name) or 0 for name, (term, card) in _OF_2023.items() if card not in cards
        }
    return terms


# What builds of 2023 print of the host without naming it, unless the line of the card stands beside it.
_OF_2023 = {
    "host_needed_mib": ("weights", ""),
    "kv_cache_mib": ("kv_cache", "kv_buffer_mib"),
    "compute_total_mib": ("activations", "compute_buffer_mib"),
}


def _buffers(found: Measurement) -> dict[str, dict[str, int]]:
    """Bytes by device and term, of everything that was put on a GPU (drafts and projectors too)."""
    devices: dict[str, dict[str, int]] = {}
    for figure in found.figures:
        term = _TERMS_OF.get(figure.name)
        if term is not None and figure.device and not is_host(figure.device):
            terms = devices.setdefault(figure.device, {})
            terms[term] = terms.get(term, 0) + figure.bytes
    projector = next(found.every("projector_mib", None), None)
    if projector is not None and devices:  # on the first card, and on no line of its own
        terms = next(iter(devices.values()))
        terms["weights"] = terms.get("weights", 0) + projector.bytes
    for figure in found.figures:  # the breakdown at the end, where nothing was printed before
        if figure.name in _BREAKDOWN and figure.device and not is_host(figure.device):
            devices.setdefault(figure.device, {}).setdefault(_BREAKDOWN[figure.name], round(figure.value * MIB))
    return devices


_BREAKDOWN = {"bd_model": "weights", "bd_context": "kv_cache", "bd_compute": "activations"}


def _device(name: str, terms: dict[str, int], found: Measurement, rank: RankEstimate | None) -> DeviceShare:
    of_device = {figure.name: figure.value for figure in found.figures if figure.device == name}
    total, free = of_device.get("bd_total"), of_device.get("device_free_mib")
    capacity = None if total is None else round(total * MIB)
    runtime = of_device.get("bd_unaccounted")
    printed = dict(terms)
    if runtime is not None and 0 <= runtime * MIB < (capacity or 0):
        printed["runtime"] = round(runtime * MIB)
    pairs = {term: TermPair(printed.get(term), rank.terms[term].bytes if rank else None) for term in TERMS}
    taken = sum(printed.values())
    room = capacity if free is None else round(free * MIB)
    return DeviceShare(name, capacity or room, None, None, pairs, None if room is None else room - taken)
