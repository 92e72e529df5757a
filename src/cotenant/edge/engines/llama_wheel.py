"""llama-server from the xllamacpp wheel: `python llama_wheel.py -m FILE --port N ...`.

The wheel holds llama.cpp's server as a library, for any laptop's processor, but no program. This one reads the
flags that our driver writes, by their own names, and refuses any other.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any


def parser() -> argparse.ArgumentParser:
    """llama-server's flags, those of them that are used here."""
    found = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False, description=__doc__)
    add = found.add_argument
    add("-m", "--model", required=True)
    add("--alias", default="")
    add("--host", default="127.0.0.1")
    for name, default in (
        ("--port", 8080),
        ("-ngl", None),
        ("-c", None),
        ("-np", None),
        ("-b", None),
        ("-ub", None),
    ):
        add(name, type=int, default=default)
    for name, default in (
        ("-t", None),
        ("-lv", 3),
        ("--cache-ram", None),
        ("--ctx-checkpoints", None),
        ("--n-cpu-moe", None),
    ):
        add(name, type=int, default=default)
    add("-ctk", default="f16")
    add("-ctv", default="f16")
    add("-fa", default="auto", choices=("on", "off", "auto"))
    add("-fit", default="off", choices=("on", "off"))
    add("-lm", "--load-mode", default="auto", choices=("auto", "none", "mmap", "mlock"))
    for name in (
        "--kv-unified",
        "--swa-full",
        "--no-kv-offload",
        "--metrics",
        "--no-warmup",
        "--no-repack",
        "--embeddings",
    ):
        add(name, action="store_true")
    return found


def parameters(told: argparse.Namespace, x: Any) -> Any:
    """The library's own parameters. `x` is the xllamacpp module."""
    params = x.CommonParams()
    params.model.path, params.port, params.hostnames = told.model, told.port, [told.host]
    if told.alias:
        params.model_alias = {told.alias}
    key = os.environ.get("LLAMA_API_KEY")
    if key:
        params.api_keys = [key]
    plain = {
        "n_gpu_layers": told.ngl, "n_ctx": told.c, "n_parallel": told.np, "n_batch": told.b, "n_ubatch": told.ub,
        "verbosity": told.lv, "cache_ram_mib": told.cache_ram, "n_ctx_checkpoints": told.ctx_checkpoints,
        "kv_unified": told.kv_unified or None,
        "swa_full": told.swa_full, "no_kv_offload": told.no_kv_offload, "endpoint_metrics": told.metrics,
        "warmup": not told.no_warmup, "fit_params": told.fit == "on", "embedding": told.embeddings,
        "no_extra_bufts": told.no_repack,
    }  # fmt: skip
    for name, value in plain.items():
        if value is not None:
            setattr(params, name, value)
    params.use_jinja = True  # the model's own chat template, as llama-server's default is
    if told.t is not None:
        params.cpuparams.n_threads = told.t
    params.cache_type_k = getattr(x.ggml_type, f"GGML_TYPE_{told.ctk.upper()}")
    params.cache_type_v = getattr(x.ggml_type, f"GGML_TYPE_{told.ctv.upper()}")
    params.load_mode = getattr(x.llama_load_mode, f"LLAMA_LOAD_MODE_{told.load_mode.upper()}")
    flash = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}[told.fa]
    params.flash_attn_type = getattr(x.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{flash}")
    return params


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. The status is 1 where the model cannot be loaded."""
    told = parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    import xllamacpp

    try:
        server = xllamacpp.Server(parameters(told, xllamacpp))
    except Exception as error:
        sys.stderr.write(f"llama-server: {error}\n")
        return 1
    while server:
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
