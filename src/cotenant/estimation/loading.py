"""What a rank holds beside its weights while they are loaded.

    stored as served   each tensor is copied into its place: up to two of the largest (a repacked layer beside its
                       source, as GPTQ, AWQ and MXFP4 kernels make it)
    made while loading (a 16-bit checkpoint, quantised by the engine)
        whole          all of it in 16 bits first, then tensor by tensor
        held           the 16 bits stay until everything is quantised
        streamed       one layer in 16 bits at a time

Which of them holds is data of the engine's version (`MemoryRules.online`). An engine that fits at rest can die
here: before vLLM 0.15 a 16-bit checkpoint served in FP8 needs the card to hold all of its 16 bits.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.domain.interval import Interval
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import QuantizationFormat
from cotenant.engines.rules import MemoryRules, Online
from cotenant.estimation.memo import IdentityCache
from cotenant.estimation.weights import StageWeights

_HELD: IdentityCache[QuantizationFormat] = IdentityCache()


def held_format(format: QuantizationFormat, rules: MemoryRules) -> QuantizationFormat:  # noqa: A002
    """The format as the engine's kernels hold it; the same object for the same format and rules."""
    way = next((one for one in rules.held if format.name.startswith(one.format)), None)
    if way is None:
        return format
    storage = {role: way.storage(stored) for role, stored in format.storage.items()}
    return _HELD.get((format, rules), 0, lambda: replace(format, storage=storage))


def made_while_loading(
    model: ModelSpec,
    format: QuantizationFormat,  # noqa: A002 - the field's own word
    rules: MemoryRules,
) -> Online | None:
    """How the engine makes the format of a 16-bit checkpoint; None where the checkpoint holds it already."""
    if not format.engine_flag or model.quantization:
        return None
    return dict(rules.online).get(format.name, Online.STREAMED)


def beside_weights(served: StageWeights, plain: StageWeights | None, way: Online | None) -> Interval:
    """Bytes beyond the weights as served; `plain` are the same in 16 bits."""
    if way is None or plain is None:
        return Interval(0, served.largest, 2 * served.largest)
    if way is Online.STREAMED:  # a layer's matrices together are half as much again as its largest
        return Interval(0, plain.largest, 3 * plain.largest)
    over = max(0, plain.bytes - served.bytes) if way is Online.WHOLE else plain.bytes
    return Interval(over, over, over + 2 * plain.largest)
