"""How an engine gives its memory back without losing its place in a plan: what each can be told to do.

sleep-1   vLLM's sleep level 1: weights go to host memory, the cache is dropped; the process stays on the card with
          its CUDA context, graphs and workspaces
sleep-2   level 2: weights are dropped as well and read again to wake; the process stays
restart   the process is stopped, and started again; nothing stays

vLLM: docs.vllm.ai/en/latest/features/sleep_mode. The endpoints /sleep and /wake_up came with the 0.8 line
(VLLM_SERVER_DEV_MODE=1); what level 2 needs to wake over HTTP (reload_weights, reset_prefix_cache) with 0.11
(vLLM's blog on sleep mode, 2025-10-26). It does not reload LoRA weights. SGLang's release_memory_occupation and
the clocks of other engines are not driven: those are restarted.
"""

from __future__ import annotations

from cotenant.domain.engine import Version

SLEEP_1, SLEEP_2, RESTART = "sleep-1", "sleep-2", "restart"
_FROM = {SLEEP_1: (0, 8), SLEEP_2: (0, 11)}


def sleep_modes(engine: str, version: Version, *, adapters: bool = False) -> tuple[str, ...]:
    """The modes of an engine, the quickest to wake first."""
    if engine != "vllm":
        return (RESTART,)
    levels = [mode for mode, first in _FROM.items() if version.parts >= first]
    return (*(mode for mode in levels if not (adapters and mode == SLEEP_2)), RESTART)


def kept_bytes(mode: str, runtime_bytes: int) -> int:
    """What stays on a card while a model is away: the runtime of its process, unless that is stopped."""
    return 0 if mode == RESTART else runtime_bytes
