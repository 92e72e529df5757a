"""What a log of llama.cpp or Ollama says of its launch, in those engines' own words."""

from __future__ import annotations

import re

from cotenant.catalogue.quantization import all_formats, find_format
from cotenant.domain.measurement import Measurement, Setting
from cotenant.domain.model import Role
from cotenant.engines.llama_cpp.cache import TYPES
from cotenant.engines.logs.llama_cpp import is_host
from cotenant.errors import CotenantError, InputError

ENGINES = ("llama.cpp", "ollama")
_WORDS = {
    "llama.cpp": {
        "n_ctx": "ctx_size", "n_parallel": "parallel", "n_batch": "batch_size", "n_ubatch": "ubatch_size",
        "flash_attn": "flash_attn", "kv_unified": "kv_unified", "type_k": "cache_type_k", "type_v": "cache_type_v",
        "n_gpu_layers": "n_gpu_layers", "n_cpu_moe": "n_cpu_moe",
    },
    "ollama": {
        "n_ctx": "num_ctx", "n_parallel": "OLLAMA_NUM_PARALLEL", "n_gpu_layers": "num_gpu",
        "n_ubatch": "num_batch", "type_k": "OLLAMA_KV_CACHE_TYPE",
    },
}  # fmt: skip
_MIX = re.compile(r"[-_. ](?:UD[-_])?((?:I?Q|TQ)\d\w*|BF16|F16|MXFP4)\w*(?:\.gguf)?$", re.IGNORECASE)
_SIZES = re.compile(r" - (Small|Medium|Large)\b", re.IGNORECASE)  # "Q4_K - Medium" is Q4_K_M
_PART = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf$)")
_FLASH = {"0": "off", "1": "on", "enabled": "on", "disabled": "off"}


def own_words(found: Measurement) -> dict[str, Setting]:
    """The options that the log shows; those left out were the engine's defaults."""
    words: dict[str, Setting] = {}
    settings = dict(found.settings)
    layers = found.value("layers_on_gpu")
    if layers is not None:
        settings["n_gpu_layers"] = int(layers)
    elif (held := [figure.device for figure in found.every("model_buffer_mib", None)]) and all(map(is_host, held)):
        settings["n_gpu_layers"] = 0  # a build without a GPU says nothing of layers
    experts = {figure.value for figure in found.figures if figure.name == "host_expert_layer"}
    if experts:
        settings["n_cpu_moe"] = len(experts)
    cache = found.first("kv_cache_mib")
    for name in ("type_k", "type_v"):
        if cache is not None and (said := cache.labels.get(name, cache.labels.get("type_c"))):
            settings[name] = said  # type_c: one compressed row (ik_llama.cpp)
    for ours, theirs in _WORDS[found.engine].items():
        if ours in settings:
            words[theirs] = settings[ours]
    if found.engine == "llama.cpp" and len(shares := _shares(found)) > 1:
        words["tensor_split"] = ",".join(f"{share:g}" for share in shares)
    drafted = next(found.every("kv_cache_mib", "draft"), None)
    if found.engine == "llama.cpp" and drafted is not None:
        told = {f"cache_{name}_draft": drafted.labels.get(name) for name in ("type_k", "type_v")}
        words |= {name: said for name, said in told.items() if said in TYPES}
    projector = next((figure.value for figure in found.every("projector_mib", None)), None)
    if found.engine == "llama.cpp" and projector:
        words["mmproj_size"] = f"{projector:g}MiB"
    cells = found.value("kv_cells") or found.value("cells")  # of all slots together
    if found.engine == "ollama" and found.first("kv_cells"):
        words["num_ctx"] = 0
    if found.engine == "ollama" and str(settings.get("flash_attn")).lower() in ("1", "true", "enabled"):
        words["OLLAMA_FLASH_ATTENTION"] = True
    if words.get("num_ctx") == 0:  # by the card: what was cached says it
        words["num_ctx"] = int(cells or 0) // int(settings.get("n_parallel") or 1)
        if not words["num_ctx"]:
            del words["num_ctx"]
    if words.get("OLLAMA_KV_CACHE_TYPE") not in TYPES:  # an empty variable is followed by the next one's name
        words.pop("OLLAMA_KV_CACHE_TYPE", None)
    if "flash_attn" in words:
        said = str(words["flash_attn"]).lower()
        words["flash_attn"] = _FLASH.get(said, said)
    return words


def _shares(found: Measurement) -> list[float]:
    """How the layers were dealt to several GPUs, by the cache that each got; the last has the output layer too."""
    sizes: dict[str, float] = {}
    for figure in found.every("kv_buffer_mib", None):
        if figure.section != "draft" and figure.device and not is_host(figure.device):
            sizes[figure.device] = sizes.get(figure.device, 0.0) + figure.value
    shares, layers = list(sizes.values()), int(found.value("layers_all") or 0) - 1
    if not all(shares):
        return []
    return [*shares[:-1], shares[-1] + sum(shares) / layers] if layers > 0 and shares else shares


def mix(found: Measurement, assumed: list[str]) -> str | None:
    """The format that the file's name or the engine's own words give (Q4_K_M); None where nothing says it.

    Mixes of other publishers (UD-Q4_K_XL) are taken as llama.cpp's own of the same width, and `assumed` says so.
    """
    said = _SIZES.sub(lambda size: f"_{size[1][0].upper()}", str(found.settings.get("quantization", "")))
    match = _MIX.search(_PART.sub("", found.model or ""))
    if not said and match is not None:
        said = match.group(1)
    for name in (said, re.sub(r"_(?:XL|L)$", "_M", said)) if said else ():
        try:
            chosen = find_format(name).name
        except CotenantError:
            continue
        if name != said or "UD-" in (found.model or "").upper():
            assumed.append(f"the mix {said} is its publisher's own: weights predicted as {chosen}")
        return chosen
    return _nearest(said, found, assumed) if said else None


_NEAR = 0.15  # of the bits that an element has


def _nearest(said: str, found: Measurement, assumed: list[str]) -> str:
    """The mix with about as many bits an element as the log prints of one that is not known."""
    bits = found.value("weight_bits")
    known = {one.name: one.storage[Role.MLP].bits for one in all_formats() if one.name.startswith("gguf-")}
    near = min(known, key=lambda name: abs(known[name] - (bits or 0.0)))
    if bits is None or abs(known[near] - bits) > _NEAR * bits:
        raise InputError(
            f"the mix {said} of the model's file is not known", hint="name the model by its .gguf file"
        )
    assumed.append(f"the mix {said} is not known: weights predicted as {near}, by its {bits:g} bits an element")
    return near
