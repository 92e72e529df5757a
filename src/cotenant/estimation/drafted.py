"""A draft with weights of its own beside the model, in an engine that allocates what it is told to.

It is a second model in the same process: weights once, then cache and graph of each of its contexts. The device's
context and libraries are there already.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import EngineSettings
from cotenant.domain.estimate import HostMemory, Term
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines.rules import Allocate, Allocation, DeviceBuffers
from cotenant.estimation.served_format import own_format
from cotenant.estimation.speculation import prediction_layers
from cotenant.estimation.weights import tensor_bytes


def with_draft(
    found: Allocation,
    model: ModelSpec,
    gpu: GpuSpec,
    resolved: EngineSettings,
    *,
    allocate: Allocate,
    format: QuantizationFormat,  # noqa: A002 - the field's own word
) -> Allocation:
    """`found` with the buffers of the draft that the resolved settings name, or of `model`'s own prediction layers
    where they are asked for; `found` alone without one.

    A draft whose file was read is counted in its own format, one of the catalogue in the model's (`format`).
    Raises UnsupportedError for a draft whose tensors nobody knows.
    """
    speculation, options = resolved.speculation, resolved.llama_cpp
    draft = None if speculation is None else speculation.draft or prediction_layers(model)
    if draft is None or options is None or options.draft is None:
        return found
    held = _held(draft, format)
    settings = replace(resolved, speculation=None, llama_cpp=options.draft)
    beside = allocate(draft, gpu, settings, tensor_bytes(draft, held, resolved.dtype))
    contexts = options.draft_contexts
    devices = tuple(
        _joined(part, own, draft.name, contexts) for part, own in zip(found.devices, beside.devices, strict=True)
    )
    note = f"the draft {draft.name} is counted as {held.title}, with its own cache and graph"
    if contexts > 1:
        note += f" for each of {contexts} slots"
    return replace(
        found, devices=devices, host=_hosted(found.host, beside.host, contexts),
        token_bytes=found.token_bytes + beside.token_bytes, notes=(*found.notes, note),
        sequence_bytes=found.sequence_bytes + beside.sequence_bytes,
        slot_bytes=found.slot_bytes + beside.slot_bytes,
    )  # fmt: skip


def _held(draft: ModelSpec, target: QuantizationFormat) -> QuantizationFormat:
    return find_format(own_format(draft)) if draft.stored_bytes is not None else target


def _joined(part: DeviceBuffers, own: DeviceBuffers, name: str, contexts: int) -> DeviceBuffers:
    return replace(
        part,
        weights=_sum(part.weights, own.weights, 1, name),
        kv_cache=_sum(part.kv_cache, own.kv_cache, contexts, name),
        compute=_sum(part.compute, own.compute, contexts, name),
    )


def _sum(term: Term, own: Term, times: int, name: str) -> Term:
    size = own.bytes
    more = Interval(size.low * times, size.value * times, size.high * times)
    return replace(term, bytes=term.bytes + more, why=f"{term.why}; draft {name}: {own.why}")


def _hosted(host: HostMemory, own: HostMemory, times: int) -> HostMemory:
    computed = host.computed
    if computed is not None and own.computed is not None:
        more = own.computed
        computed += Interval(more.low * times, more.value * times, more.high * times)
    return replace(
        host, weights=host.weights + own.weights, kv_cache=host.kv_cache + times * own.kv_cache,
        compute=host.compute + times * own.compute, computed=computed,
    )  # fmt: skip
