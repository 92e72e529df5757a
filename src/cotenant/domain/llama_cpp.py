"""What llama-server is told beyond what all engines share, in its own words."""

from __future__ import annotations

from dataclasses import dataclass

ALL_LAYERS = 100_000  # more than any model has


@dataclass(frozen=True, slots=True)
class LlamaCppOptions:
    """llama-server's own options; None means its default for its build.

    `n_ctx` is the context of all slots together, `n_ctx_slot` that of one, where the engine is told so (Ollama).
    `n_gpu_layers` counts the output layer as one more than the model's layers. `flash_attn` None is ``auto``.
    `tensor_split` are shares of the layers, one a GPU. `n_cpu_moe` keeps the experts of so many layers in host
    memory. `window_memory`: sliding layers keep so many tokens at least (Ollama's own engine). `n_rs_seq` are
    states kept to roll drafts back. `auto_batch`: `n_ubatch` is the most that it may be, fewer where weights leave
    too little room (Ollama). `program` is the kind of program on the host ("native", "wheel"), None: nobody says.
    `keep_alive` is how long Ollama keeps an idle model. `spec_type` is how it
    speculates, `draft_model` names a draft's file or hub id,
    `draft_tokens` is what it proposes at once, `draft` are the options of its own contexts, of which there are
    `draft_contexts`.
    """

    n_ctx: int | None = None
    n_ctx_slot: int | None = None
    n_parallel: int | None = None
    n_batch: int | None = None
    n_ubatch: int | None = None
    auto_batch: bool = False
    n_gpu_layers: int | None = None
    flash_attn: bool | None = None
    type_k: str = "f16"
    type_v: str = "f16"
    kv_unified: bool | None = None
    swa_full: bool = False
    window_memory: int = 0
    kv_offload: bool = True
    tensor_split: tuple[float, ...] = ()
    n_cpu_moe: int = 0
    n_rs_seq: int = 0
    mmproj_bytes: int = 0
    draft_bytes: int = 0
    program: str | None = None
    keep_alive: str = ""
    spec_type: str = ""
    draft_model: str = ""
    draft_tokens: int = 0
    draft: LlamaCppOptions | None = None
    draft_contexts: int = 1
