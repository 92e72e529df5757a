"""What Ollama's server prints about memory; its runner prints llama.cpp's lines beside.

Sources: llm/{memory,server}.go, ml/backend.go, fs/ggml/ggml.go, server/sched.go. Sizes carry their unit; figures
with "required" are its estimate from before loading, those of "model weights", "kv cache" and "compute graph" what
it allocated.
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine

_SIZE = r"\\?\"?\[?(?P<{0}><N>) (?P<{0}_unit>[KMGT]?i?B)"


def _size(name: str) -> str:
    return _SIZE.replace("{0}", name)


def _sized(what: str, name: str) -> LogLine:
    return LogLine(
        what, rf"{what}\\?\"? (?:device|buffer|backend)=(?P<device>\w+)(?: buffer_type=\w+)? size={_size(name)}"
    )


_ESTIMATES = (
    "memory.required.full", "memory.required.partial", "memory.required.kv",
    "memory.required.allocations", "memory.weights.total",
    "memory.weights.repeating", "memory.weights.nonrepeating", "memory.graph.full", "memory.graph.partial",
    "projector.weights", "projector.graph",
)  # fmt: skip


_LOADS = {"Parallel": "n_parallel", "BatchSize": "n_ubatch", "FlashAttention": "flash_attn"}


def estimate_name(word: str) -> str:
    """The figure's name for one of Ollama's words: memory.required.kv -> ollama_memory_required_kv_gib."""
    return "ollama_" + word.replace(".", "_") + "_gib"


OLLAMA = EngineLog(
    engine="ollama",
    title="Ollama",
    signs=("ollama", "OLLAMA_"),
    lines=(
        LogLine("(version ", r"Listening on .*?\(version (?P<engine_version>[\w.+-]+)\)"),
        LogLine(
            "OLLAMA_NUM_PARALLEL",
            keys={
                "OLLAMA_CONTEXT_LENGTH": "n_ctx",
                "OLLAMA_NUM_PARALLEL": "n_parallel",
                "OLLAMA_KV_CACHE_TYPE": "type_k",
            },
        ),
        LogLine(
            "layers.offload=",
            r"layers\.model=(?P<layers_all>\d+) layers\.offload=(?P<layers_on_gpu>\d+)",
            starts=True,
        ),
        *(
            LogLine(f"{word}=", rf"{word}={_size(estimate_name(word))}".replace(".", r"\.", 2))
            for word in _ESTIMATES
        ),
        LogLine(
            "memory.available=",
            r"memory\.available=\\?\"?\[(?P<ollama_memory_available_gib><N>) "
            r"(?P<ollama_memory_available_gib_unit>[KMGT]?i?B)",
        ),
        _sized("model weights", "ollama_model_buffer_mib"),
        _sized("kv cache", "ollama_kv_buffer_mib"),
        _sized("compute graph", "ollama_compute_buffer_mib"),
        LogLine("total memory", rf"total memory\\?\"? size={_size('ollama_total_gib')}", ready=True),
        LogLine(
            "architecture=", r"architecture=\w+ file_type=(?P<file_type>\w+) name=\\?\"(?P<model>[^\"\\]{1,120})"
        ),
        LogLine(
            "model requires more system memory",
            rf"system memory \({_size('asked')}\) than is available \({_size('oom_free')}\)",
            failure="out_of_host_memory",
        ),
        LogLine("memory layout cannot be allocated", failure="out_of_memory"),
        LogLine("llama-server reported out-of-memory during startup", failure="out_of_memory"),
        LogLine(
            "inference compute",
            r"(?:description|name)=\\?\"?(?P<gpu>(?:NVIDIA|AMD|Intel|Apple|Quadro|Tesla|Radeon)"
            r"[\w .()/+-]{0,80}?)\\?\""
            rf".*?total={_size('gpu_mem')}\\?\"? available={_size('free')}",
        ),
        LogLine("new model will fit in available VRAM", r"parallel=(?P<n_parallel><N>)"),
        LogLine("request=", r"\bKvSize:(?P<kv_cells><N>)", keys=_LOADS),
        LogLine(
            'msg="starting ',
            r'starting (?:runner|llama[ -]server)" cmd=.{1,1000}? (?:--ctx-size|-c) (?P<kv_cells><N>)',
            flags={"parallel": "n_parallel", "np": "n_parallel", "ub": "n_ubatch"},
        ),
        LogLine("llama runner started", ready=True),
        LogLine("llama-server started in", ready=True),
    ),
)
