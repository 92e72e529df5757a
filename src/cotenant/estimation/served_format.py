"""The format that a replica's weights are held in, which checkpoint has it, and which kernel multiplies it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.catalogue.quantization import all_formats, find_format, kernel
from cotenant.domain.engine import Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.loaded import LoadedModel
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import KernelSupport, QuantizationFormat, Speed
from cotenant.engines.rules import EngineRules
from cotenant.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class ServedFormat:
    """`format.engine_flag` is set only where the engine must be told; `model_path` is what it loads."""

    format: QuantizationFormat
    kernel: KernelSupport
    model_path: str
    warnings: tuple[str, ...] = ()


def served_format(
    loaded: LoadedModel, name: str | None, gpu: GpuSpec, *, engine: EngineRules, version: Version
) -> ServedFormat:
    """The format called `name`, or the one that the model is stored in.

    Raises InputError for an unknown name, UnsupportedError where the engine has no kernel for it on the card.
    """
    own = own_format(loaded.spec)
    found = find_format(name or _default_format(own, gpu, engine, version))
    support = kernel(engine.name, found.name, gpu, version)
    if support is None:
        raise _no_kernel(found, gpu, engine, version)
    warnings = [f"{support.kernel} runs {found.title} slowly on {gpu.name}"] if support.speed is Speed.SLOW else []
    if found.name == own:
        return ServedFormat(replace(found, engine_flag=""), support, loaded.model_id, tuple(warnings))
    checkpoint = _checkpoint(loaded, found.name)
    if checkpoint:
        return ServedFormat(replace(found, engine_flag=""), support, checkpoint, tuple(warnings))
    if not found.engine_flag and not _is_plain(found):
        warnings.append(
            f"no {found.title} checkpoint of {loaded.spec.name} is known here: the command names "
            f"{loaded.model_id}, put your own in its place"
        )
    return ServedFormat(found, support, loaded.model_id, tuple(warnings))


def _checkpoint(loaded: LoadedModel, name: str) -> str:
    """The hub id that holds the format; one repository often holds every GGUF mix, and the mix is then named as
    llama.cpp and the hub name it: ``owner/name:Q4_K_M``."""
    exact = loaded.checkpoints.get(name, "")
    mixes = loaded.checkpoints.get("gguf", "")
    if exact or not mixes or not name.startswith("gguf-"):
        return exact
    return f"{mixes}:{name.removeprefix('gguf-').upper()}"


def own_format(model: ModelSpec) -> str:
    """What the checkpoint holds: its quantisation, or the dtype of its weights.

    Raises UnsupportedError for a method of quantisation that has no format here.
    """
    method = model.quantization.removeprefix("unknown:")
    if method != model.quantization:
        raise UnsupportedError(
            f"{model.name} is stored in {method!r}, a quantisation that no rule covers",
            hint="name a checkpoint in another format",
        )
    return model.quantization or model.dtype


_PLAIN_GGUF = "gguf-f16"


def _default_format(own: str, gpu: GpuSpec, engine: EngineRules, version: Version) -> str:
    """What the engine makes of the checkpoint unasked: 32 bits are cast to the card's best 16; an engine of GGUF
    files takes a 16-bit one of a plain checkpoint."""
    unserved = own in ("bf16", "fp16", "fp32") and kernel(engine.name, own, gpu, version) is None
    if unserved and kernel(engine.name, _PLAIN_GGUF, gpu, version) is not None:
        return _PLAIN_GGUF
    if own != "fp32":
        return own
    return "bf16" if kernel(engine.name, "bf16", gpu, version) is not None else "fp16"


def _is_plain(found: QuantizationFormat) -> bool:
    return not found.storage


def _no_kernel(found: QuantizationFormat, gpu: GpuSpec, engine: EngineRules, version: Version) -> UnsupportedError:
    others = [
        other.name for other in all_formats() if kernel(engine.name, other.name, gpu, version) is not None
    ]  # fmt: skip
    hint = f"it runs {', '.join(others[:8])}" if others else "it runs no format on that card"
    return UnsupportedError(f"{engine.title} {version} has no kernel for {found.title} on {gpu.name}", hint=hint)
