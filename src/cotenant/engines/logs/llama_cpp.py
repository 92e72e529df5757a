"""What llama.cpp prints about memory, from the GGML days of 2023 to builds of 2026. Its figures are MiB.

Sources: src/llama-{model,context,kv-cache,memory-recurrent}.cpp and the llama.cpp of older builds,
common/{common,fit}.cpp, ggml/src/ggml-{backend,alloc}.c, ggml/src/ggml-cuda/ggml-cuda.cu, tools/mtmd/clip.cpp.
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine

_WHOSE = r"(?:(?P<draft>DRAFT )[^:]{0,60}:\s*|(?P<mmproj>(?:alloc|reserve)_compute_meta):\s*)?"
_DEVICE = _WHOSE + r"\b(?P<device>[A-Z]\w{0,40}(?:\[[^\]]{0,60}\])?)\s{1,40}"
_MIB = r"\s*=\s*(?P<{0}><N>) Mi?B"
_SETTINGS = {
    "n_ctx": "n_ctx", "n_ctx_seq": "n_ctx_seq", "n_seq_max": "n_parallel", "n_batch": "n_batch",
    "n_ubatch": "n_ubatch", "flash_attn": "flash_attn", "kv_unified": "kv_unified", "n_rs_seq": "n_rs_seq",
}  # fmt: skip
_FLAGS = {
    "ctx-size": "n_ctx", "c": "n_ctx", "batch-size": "n_batch", "b": "n_batch", "ubatch-size": "n_ubatch",
    "ub": "n_ubatch", "parallel": "n_parallel", "np": "n_parallel", "n-gpu-layers": "n_gpu_layers",
    "ngl": "n_gpu_layers", "cache-type-k": "type_k", "ctk": "type_k", "cache-type-v": "type_v", "ctv": "type_v",
    "flash-attn": "flash_attn", "fa": "flash_attn", "model": "model", "m": "model", "n-cpu-moe": "n_cpu_moe",
    "ncmoe": "n_cpu_moe",
}  # fmt: skip


_HOST = ("CPU", "HOST", "BLAS", "RPC/CPU")


def is_host(device: str) -> bool:
    """Whether llama.cpp's name of a device means the host's memory."""
    return device.upper().startswith(_HOST) or "_HOST" in device.upper()


def _buffer(kind: str, name: str) -> str:
    return _DEVICE + kind + r" buffer size" + _MIB.replace("{0}", name)


_CONTEXTS = ("llama_context:", "llama_init_from_model:", "llama_new_context_with_model:")

LLAMA_CPP = EngineLog(
    engine="llama.cpp",
    title="llama.cpp",
    signs=("ggml_", "llama_model_load", "llama-server", "llama_kv_cache"),
    lines=(
        LogLine("build: ", r"build: (?P<engine_version>\d{1,6}) \(", starts=True),
        LogLine("print_info: build ", r"build (?P<engine_version>[1-9]\d{0,5}) \(", starts=True),  # since b11000
        LogLine("build_info", r"build_info:? *=?:? *(?P<engine_version>b\d{1,6})", starts=True),
        LogLine("main: build =", r"build = (?P<engine_version>\d{1,6}) \(", starts=True),
        LogLine("llama-server ", flags=_FLAGS),
        LogLine("loading draft model '", r"loading draft model '(?P<draft_model>[^']{1,300})'", section="draft"),
        LogLine("loading model '", r"loading model '(?P<model>[^']{1,300})'"),
        LogLine("general.name", r"general\.name\s+str\s+= (?P<model>.{1,120}?)\s*$"),
        LogLine("file type ", r"file type\s+= (?P<file_type>[\w .-]{2,40}?)\s*$"),
        LogLine("model ftype ", r"model ftype\s+= (?P<file_type>[\w .,-]{2,40}?)\s*$"),
        LogLine(" BPW)", r"\((?P<weight_bits><N>) BPW\)"),
        *(
            LogLine(f": {vendor} ", rf"Device (?P<oom_gpu>\d+): (?P<gpu>{vendor} [\w -]+?)(?:,|$)")
            for vendor in ("NVIDIA", "AMD")
        ),
        LogLine("VRAM: ", r"Device (?P<oom_gpu>\d+): .{1,120}?VRAM: (?P<device_total_mib><N>) MiB"),
        LogLine(  # since May 2026, before anything is loaded
            " MiB free)",
            r"-\s+(?P<device>(?!CPU)\w+)\s*: (?P<gpu>.{1,80}?) \((?P<device_total_mib><N>) MiB, "
            r"(?P<device_free_mib><N>) MiB free\)",
        ),
        LogLine(
            "using device ",
            r"using device (?P<device>\w+)(?: \((?P<gpu>(?:[^()]|\([^()]{0,40}\)){1,80})\))?"
            r"(?:.{0,60}?- (?P<device_free_mib><N>) MiB free)?",
        ),
        LogLine(
            "offloaded ",
            r"offloaded (?P<layers_on_gpu>\d+)/(?P<layers_all>\d+) layers to GPU",
        ),
        LogLine(
            "buffer type overrid",
            r"blk\.(?P<host_expert_layer><N>)\.ffn_\w{2,12}_exps\.weight.{0,60}overrid+en to CPU",
        ),
        *(LogLine(text, keys=_SETTINGS) for text in _CONTEXTS),
        LogLine("model buffer size", _buffer("model", "model_buffer_mib"), anchor=" buffer size"),
        LogLine(
            "llm_load_tensors:",
            r"llm_load_tensors:\s+(?P<device>\w+)\s+buffer size\s*=\s*(?P<model_buffer_mib><N>) MiB",
        ),
        LogLine(
            "KV buffer size",
            _buffer("KV", "kv_buffer_mib") + r"(?: \((?P<kv_kind>non-SWA|SWA),)?",
            anchor=" buffer size",
        ),
        LogLine("RS buffer size", _buffer("RS", "rs_buffer_mib"), anchor=" buffer size"),
        LogLine("state buffer size", _buffer(r"DSV4 [\w -]{1,20}state", "rs_buffer_mib"), anchor=" buffer size"),
        LogLine("LoRA buffer size", _buffer("LoRA", "lora_buffer_mib"), anchor=" buffer size"),
        LogLine(
            "compute buffer size",
            _buffer("compute", "compute_buffer_mib"),
        ),
        LogLine("output buffer size", _buffer("output", "output_buffer_mib"), anchor=" buffer size"),
        LogLine("llama_model_loader: loaded meta data", section="draft"),  # a second one, after the first is up
        LogLine("constructing llama_context", section="draft"),
        LogLine("creating non-SWA KV cache", section="full"),
        LogLine("creating main KV cache", section="full"),  # sparse attention: the cache beside its indexer's
        LogLine("creating indexer KV cache", section="indexer"),
        LogLine("SWA KV cache, size", r"creating\s+SWA KV cache, size = (?P<swa_cells><N>) cells", section="swa"),
        LogLine(
            "llama_kv_cache",
            r"(?P<draft>DRAFT )?llama_kv_cache\w{0,30}: size\s*=\s*(?P<kv_cache_mib><N>) MiB "
            r"\(\s*(?P<cells>\d+) cells,\s*(?P<layers>\d+) layers(?:,\s*(?P<seqs>\d+(?:/\s?\d+)?) seqs)?\s*\)"
            r"(?:, K \((?P<type_k>\w+)\):\s*(?P<k_mib><N>) MiB, V \((?P<type_v>\w+)\):\s*(?P<v_mib><N>) MiB)?",
        ),
        LogLine(
            "KV self size",
            r"KV self size\s*=\s*(?P<kv_cache_mib><N>) MiB"
            r"(?:, K(?:-only)? \((?P<type_k>\w+)\):\s*(?P<k_mib><N>) MiB"
            r"(?:, V \((?P<type_v>\w+)\):\s*(?P<v_mib><N>) MiB)?)?"
            r"(?:, c\^KV \((?P<type_c>\w+)\):\s*(?P<c_mib><N>) MiB)?",
        ),
        LogLine(  # ik_llama.cpp's, beside the cache of its layers
            "KV self indexer size",
            r"KV self (?P<kv_kind>indexer) size\s*=\s*(?P<kv_cache_mib><N>) MiB \((?P<type_k>\w+)\)",
        ),
        LogLine("DSV4 cache: ", r"DSV4 cache: .{1,200}?total=\s*(?P<kv_cache_mib><N>) MiB"),
        LogLine("kv self size", r"kv self size\s*=\s*(?P<kv_cache_mib><N>) MB"),
        # Of 2023: what the host holds (with its scratch until that August), then what went to the card.
        LogLine("mem required  =", r"mem required\s+=\s*(?P<host_needed_mib><N>) MB"),
        LogLine("compute buffer total size", r"total size = (?P<compute_total_mib><N>) Mi?B"),
        LogLine(
            "total VRAM used: ",
            r"total (?P<device>VRAM) used: (?P<vram_mib><N>) MB"
            r"(?: \(model: (?P<model_buffer_mib><N>) MB, context: (?P<vram_context_mib><N>) MB\))?",
        ),
        LogLine("VRAM kv self =", r"(?P<device>VRAM) kv self = (?P<kv_buffer_mib><N>) MB"),
        LogLine("VRAM scratch buffer: ", r"(?P<device>VRAM) scratch buffer: (?P<compute_buffer_mib><N>) MB"),
        LogLine("llama_memory_recurrent: size", r"size =\s*(?P<rs_total_mib><N>) MiB"),
        LogLine(
            "model size:",
            r"(?P<mmproj>load_hparams|clip_\w{3,40}): model size:\s+(?P<projector_mib><N>) Mi?B",
        ),
        LogLine(
            "memory_breakdown_print",
            r"-\s+(?P<device>\w+)(?: \((?P<gpu>[^|]{1,80}?)\))?\s*\|\s*"
            r"(?:(?P<bd_total>\d+) =\s*(?P<bd_free>\d+) \+ \()?"
            r"\s*(?P<bd_self>\d+) =\s*(?P<bd_model>\d+) \+\s*(?P<bd_context>\d+) \+\s*(?P<bd_compute>\d+)\)?"
            r"(?:\s*\+\s*(?P<bd_unaccounted>-?\d+))?",
        ),
        LogLine(
            "projected to use",
            r"projected to use (?P<fit_projected_mib><N>) MiB of device memory vs\. (?P<fit_free_mib><N>) MiB",
        ),
        LogLine(
            "allocating ",
            r"allocating (?P<asked><N>) (?P<asked_unit>MiB) on device (?P<oom_gpu>\d+): \w+ failed: out of memory",
            failure="out_of_memory",
        ),
        LogLine(
            "failed to allocate",
            r"failed to allocate (?:'?(?P<oom_device>(?!buffer\b)\w+)\s*'? )?buffer(?: of size|, size =)\s+"
            r"(?P<asked><N>)(?: (?P<asked_unit>Mi?B))?",
            failure="out_of_memory",
        ),
        LogLine(
            "failed to allocate", r"failed to allocate (?:memory|buffer) for kv cache", failure="out_of_memory"
        ),
        LogLine("failed to allocate", r"failed to allocate compute buffers", failure="out_of_memory"),
        LogLine("unable to allocate", r"unable to allocate (?P<oom_device>\w+) buffer", failure="out_of_memory"),
        LogLine(
            "(attempted to allocate",
            r"attempted to allocate\s+(?P<asked><N>) (?P<asked_unit>MB)",
            failure="out_of_host_memory",
        ),
        LogLine("kIOGPUCommandBufferCallbackErrorOutOfMemory", failure="out_of_memory"),
        LogLine(
            "Device memory allocation of size",
            r"allocation of size (?P<asked><N>) failed",
            failure="out_of_memory",
        ),
        LogLine("ErrorOutOfDeviceMemory", failure="out_of_memory"),
        LogLine("UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", failure="out_of_memory"),
        # What people report of a run in one line.
        LogLine("REPORTED", r"(?:held (?P<device_used_mib><N>) MiB.*?)?\bKV (?P<kv_cache_mib><N>) MiB"),
        LogLine("server is listening", ready=True),
        LogLine("all slots are idle", ready=True),
    ),
)
