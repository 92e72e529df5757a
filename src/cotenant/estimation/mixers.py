"""Recurrent mixers in a checkpoint that only its format's name describes: quantised with the rest, or left out.

Linear attention and Mamba project with plain linear layers, which a quantiser takes unless its recipe names them.
Publishers' own FP8 takes them (Qwen3.6-27B-FP8 loads 27.6 GiB: every one). Four bits differ by maker: a mixture of
experts is usually quantised in its experts and feed-forwards alone; in a dense model the mixers are a third of the
weights, and public checkpoints of one 27B model load 18.5 to 24 GiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cotenant.domain.model import ModelSpec, ParameterGroup, Role
from cotenant.domain.quantization import QuantizationFormat
from cotenant.estimation.memo import IdentityCache

_OPEN = ("fp8", "nvfp4", "w4a16", "awq-int4", "gptq-int4", "gptq-int8", "int8")
_CACHE: IdentityCache[QuantizationFormat | None] = IdentityCache()
_FOLLOWS: IdentityCache[bool] = IdentityCache()
_WHOLE_FORMATS = ("gguf-", "bnb-", "fp32")  # made from the 16-bit weights, whatever another recipe left out


def quantised_mixers(model: ModelSpec, format: QuantizationFormat) -> QuantizationFormat | None:  # noqa: A002
    """The format as it stores recurrent mixers too, where nothing says whether it does; else None."""
    return _CACHE.get((model, format.storage), format.name, lambda: _with_mixers(model, format))


def share_quantised(model: ModelSpec, format: QuantizationFormat) -> float:  # noqa: A002
    """Where between left out (0) and quantised (1) the value stands."""
    if format.name == "fp8":
        return 1.0
    return 0.0 if model.num_experts else 0.5


def _with_mixers(model: ModelSpec, format: QuantizationFormat) -> QuantizationFormat | None:  # noqa: A002
    named = format.name in _OPEN and Role.STATE not in format.storage and Role.ATTENTION in format.storage
    if not named or format.name == model.quantization:
        return None
    mixers = [group for group in model.parameters if group.role is Role.STATE and len(group.shape) > 1]
    if not mixers or (_told(mixers) and not any(group.own_storage for group in mixers)):
        return None  # the publisher left them all out
    return replace(format, storage={**format.storage, Role.STATE: format.storage[Role.ATTENTION]})


def _told(groups: Sequence[ParameterGroup]) -> bool:
    return any(group.own_storage is not None for group in groups)


def follows_exceptions(model: ModelSpec, format: QuantizationFormat) -> bool:  # noqa: A002
    """Whether another format leaves out what the checkpoint's own does: what was kept out of 8 bits is kept out of
    fewer, but four bits' exceptions say nothing of eight."""
    return _FOLLOWS.get((model, format.storage), format.name, lambda: _follows(model, format))


def _follows(model: ModelSpec, format: QuantizationFormat) -> bool:  # noqa: A002
    if format.name.startswith(_WHOLE_FORMATS):
        return False
    fewest = min((one.bits for group in model.parameters for one in group.own_storage or ()), default=16.0)
    return fewest >= min((one.bits for one in format.storage.values()), default=16.0)
