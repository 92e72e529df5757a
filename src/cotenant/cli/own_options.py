"""Options that belong to one engine, in that engine's own words: flags of SGLang, TGI, TensorRT-LLM and
llama-server, Ollama's parameters."""

from __future__ import annotations

from typing import Any

import click

from cotenant.cli.sections import option

_LLAMA, _OLLAMA = "llama.cpp's own options", "Ollama's own words"
# (flags, metavar or None for a switch, help); each is handed on by its long name.
_FLAGS: tuple[tuple[tuple[str, ...], str | None, str], ...] = (
    (("--n-gpu-layers", "-ngl"), "N", "Layers on GPUs, the output layer one of them."),
    (("--ctx-size", "-c"), "TOKENS", "Context of all slots together."),
    (("--parallel", "-np"), "N", "Slots."),
    (("--batch-size", "-b"), "TOKENS", "Tokens that are submitted at once."),
    (("--ubatch-size", "-ub"), "TOKENS", "Tokens that are computed at once."),
    (("--flash-attn", "-fa"), "on|off|auto", "Fused attention."),
    (("--cache-type-k", "-ctk"), "TYPE", "Type of the cached keys, such as q8_0."),
    (("--cache-type-v", "-ctv"), "TYPE", "Type of the cached values."),
    (("--kv-unified", "-kvu"), None, "One cache that all slots share."),
    (("--swa-full",), None, "The whole context in sliding layers too."),
    (("--tensor-split", "-ts"), "N0,N1,...", "Shares of the layers, one for each GPU."),
    (("--no-kv-offload", "-nkvo"), None, "The cache in host memory."),
    (("--n-cpu-moe", "-ncmoe"), "N", "Layers whose experts stay in host memory."),
    (("--model-draft", "-md"), "MODEL", "A draft: its .gguf, or a name as MODEL."),
    (("--spec-type",), "TYPE", "draft-mtp: the checkpoint's own prediction layers."),
    (("--draft-max", "--spec-draft-n-max"), "N", "Tokens that the draft proposes."),
    (("--n-gpu-layers-draft", "-ngld"), "N", "Layers of the draft on GPUs."),
    (("--cache-type-k-draft", "-ctkd"), "TYPE", "Type of the draft's cached keys."),
    (("--cache-type-v-draft", "-ctvd"), "TYPE", "Type of the draft's cached values."),
    (("--model-draft-size",), "SIZE", "Bytes of a draft whose file is not at hand."),
    (("--mmproj-size",), "SIZE", "Bytes of the vision projector's file (--mmproj)."),
)
_SERVERS = "SGLang's, TGI's and TensorRT-LLM's own words"
# Whole numbers and fractions of three engines; what a word means is the engine's: see docs/commands/estimate.md.
_SERVER_FLAGS: tuple[tuple[tuple[str, ...], str | None, str], ...] = (
    (("--tp-size", "--tp_size"), "N", "SGLang, TensorRT-LLM: GPUs that share each layer."),
    (("--context-length",), "TOKENS", "SGLang: the longest sequence."),
    (("--max-running-requests",), "N", "SGLang: requests in a batch at most."),
    (("--chunked-prefill-size",), "TOKENS", "SGLang: prompt tokens of a step at most."),
    (("--mem-fraction-static",), "FRACTION", "SGLang: weights and pool, of what is free at start."),
    (("--cuda-graph-max-bs",), "N", "SGLang: the largest batch with a CUDA graph."),
    (("--disable-cuda-graph",), None, "SGLang: no CUDA graphs."),
    (("--page-size",), "TOKENS", "SGLang: tokens of a page."),
    (("--speculative-algorithm",), "NAME", "SGLang: NEXTN, EAGLE, EAGLE3, STANDALONE, NGRAM or DFLASH."),
    (("--speculative-draft-model-path",), "MODEL", "SGLang: the draft, where it has weights of its own."),
    (("--speculative-num-steps",), "N", "SGLang: tokens that the draft proposes."),
    (("--speculative-num-draft-tokens",), "N", "SGLang: tokens that are verified at once."),
    (("--num-shard",), "N", "TGI: GPUs that share each layer."),
    (("--max-input-tokens", "--max-input-length"), "TOKENS", "TGI: the longest prompt."),
    (("--max-total-tokens",), "TOKENS", "TGI: the longest sequence. SGLang: tokens of the pool at most."),
    (("--max-batch-prefill-tokens",), "TOKENS", "TGI: prompt tokens of a batch, which the warm-up prefills."),
    (("--max-concurrent-requests",), "N", "TGI: requests at once."),
    (("--cuda-memory-fraction",), "FRACTION", "TGI: share of the card, others' memory included."),
    (("--quantize",), "METHOD", "TGI: awq, gptq, fp8 ..."),
    (("--lora-adapters",), "LIST", "TGI: adapters, as LORA_ADAPTERS lists them."),
    (("--max-seq-len", "--max_seq_len"), "TOKENS", "TensorRT-LLM: the longest sequence."),
    (("--max-batch-size", "--max_batch_size"), "N", "TensorRT-LLM: requests in a batch at most."),
    (("--max-num-tokens", "--max_num_tokens"), "TOKENS", "TensorRT-LLM: tokens of a step at most."),
    (("--free-gpu-memory-fraction", "--kv_cache_free_gpu_memory_fraction"), "FRACTION",
     "TensorRT-LLM: the pool's share of what is free after weights and graphs."),
    (("--tokens-per-block",), "TOKENS", "TensorRT-LLM: tokens of a block."),
)  # fmt: skip
_NAMES = tuple(flags[0].lstrip("-").replace("-", "_") for flags, _, _ in (*_FLAGS, *_SERVER_FLAGS))


def with_own_options(function: Any) -> Any:
    """Every option above, in reading order, and --set."""
    help_text = "A Modelfile parameter or a variable of its environment: num_ctx=8192, OLLAMA_NUM_PARALLEL=4."
    function = option(_OLLAMA, "--set", "words", multiple=True, metavar="NAME=VALUE", help=help_text)(function)
    sections = [(_SERVERS, one) for one in _SERVER_FLAGS] + [(_LLAMA, one) for one in _FLAGS]
    for section, (flags, metavar, about) in reversed(sections):
        if metavar is None:
            function = option(section, *flags, is_flag=True, help=about)(function)
        else:
            function = option(section, *flags, metavar=metavar, help=about)(function)
    return function


def taken_own_options(options: dict[str, Any]) -> dict[str, Any]:
    """What was given of them, taken out of `options`. A usage error for a --set without a value."""
    found: dict[str, Any] = {}
    for name in _NAMES:
        value = options.pop(name)
        if value is not None and value is not False:
            found[name] = value
    for word in options.pop("words"):
        name, equals, value = word.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise click.BadParameter(f"{word[:60]!r} is not NAME=VALUE.", param_hint="--set")
        found[name.strip()] = value.strip()
    return found
