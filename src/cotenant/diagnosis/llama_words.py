"""What a log of llama.cpp or Ollama says of its launch, in those engines' own words."""

from __future__ import annotations

import re

from cotenant.catalogue.quantization import find_format
from cotenant.domain.measurement import Measurement, Setting
from cotenant.engines.llama_cpp.cache import TYPES
from cotenant.errors import CotenantError

ENGINES = ("llama.cpp", "ollama")
_WORDS = {
    "llama.cpp": {
        "n_ctx": "ctx_size", "n_parallel": "parallel", "n_batch": "batch_size", "n_ubatch": "ubatch_size",
        "flash_attn": "flash_attn", "kv_unified": "kv_unified", "type_k": "cache_type_k", "type_v": "cache_type_v",
        "n_gpu_layers": "n_gpu_layers",
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
    cache = found.first("kv_cache_mib")
    for name in ("type_k", "type_v"):
        if cache is not None and name in cache.labels:
            settings[name] = cache.labels[name]
    for ours, theirs in _WORDS[found.engine].items():
        if ours in settings:
            words[theirs] = settings[ours]
    cells = found.value("cells")
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
    return None
