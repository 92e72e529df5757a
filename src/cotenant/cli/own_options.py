"""Options that belong to one engine, in that engine's own words: llama-server's flags, Ollama's parameters."""

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
)
_NAMES = tuple(flags[0].lstrip("-").replace("-", "_") for flags, _, _ in _FLAGS)


def with_own_options(function: Any) -> Any:
    """Every option above, in reading order, and --set."""
    help_text = "A Modelfile parameter or a variable of its environment: num_ctx=8192, OLLAMA_NUM_PARALLEL=4."
    function = option(_OLLAMA, "--set", "words", multiple=True, metavar="NAME=VALUE", help=help_text)(function)
    for flags, metavar, about in reversed(_FLAGS):
        if metavar is None:
            function = option(_LLAMA, *flags, is_flag=True, help=about)(function)
        else:
            function = option(_LLAMA, *flags, metavar=metavar, help=about)(function)
    return function


def taken_own_options(options: dict[str, Any]) -> dict[str, Any]:
    """What was given of them, taken out of `options`. A usage error for a --set without a value."""
    found: dict[str, Any] = {}
    for name in _NAMES:
        value = options.pop(name)
        if value not in (None, False):
            found[name] = value
    for word in options.pop("words"):
        name, equals, value = word.partition("=")
        if not (equals and name.strip() and value.strip()):
            raise click.BadParameter(f"{word[:60]!r} is not NAME=VALUE.", param_hint="--set")
        found[name.strip()] = value.strip()
    return found
