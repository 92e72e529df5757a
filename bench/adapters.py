"""Two adapters on one base, in one process and in two: `python -m bench.adapters [--check]`.

Writes docs/adapters.md from the plans of examples/adapters/.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.claim import GPU, L8B, planned, spec
from bench.markdown import equation, gib, main, table, whole
from cotenant.catalogue.quantization import find_format
from cotenant.domain.engine import AdapterSlots
from cotenant.domain.plan import GpuShare, Plan
from cotenant.estimation.adapters import adapter_bytes
from cotenant.estimation.weights import stage_weights
from cotenant.units import GIB

RANK, TOTAL_TOKENS, REQUESTS, PREFILL = 16, 4096, 8, 4096


def shares(plan: Plan) -> list[GpuShare]:
    """What each process takes of the card."""
    return [share for gpu in plan.gpus for share in gpu.shares]


def render() -> str:
    """The whole page."""
    engine = planned("adapters/vllm-shared").replicas[0].engine_version
    return f"""# Adapters: one process or several

<!-- Written by `python -m bench.adapters`; edit that file, not this page. -->

Two LoRA adapters (legal and medical, rank {RANK}) on Llama-3.1-8B in BF16, on one {GPU}. In one process the base
is held once, and the cache is one pool for the requests of both. In two processes the base and all that a process
needs are held twice: **two processes never share weights**, even those of one file on disk, since each copies the
file into device memory of its own. `cotenant plan` puts the adapters of one entry of `models` into one process,
and different entries into different ones.

## vLLM ({engine})

{_compared("vllm")}

Traffic: 8 requests in flight, p50 900 and p95 2,048 tokens, 4,096 at most, half for each adapter. The cache is
smaller together, because eight requests even out better than two times four. From
[vllm-shared.yaml](../examples/adapters/vllm-shared.yaml) and
[vllm-apart.yaml](../examples/adapters/vllm-apart.yaml); the commands are in the plans:

{_commands("vllm-shared")}

vLLM reserves a slot for each adapter: matrices of the largest rank on every linear layer and on the vocabulary,
whatever the adapter changes: {gib(_slot(on_vocabulary=True), 3)} here.

## Text Generation Inference ({planned("adapters/tgi-like-shared").replicas[0].engine_version})

{_compared("tgi-like")}

Every slot may hold `max_total_tokens`: {equation(*_pool())} bytes
of cache, together or apart; what the pool has above that covers the doubt of the other terms. What is saved is the
second base and the second warm-up. From
[tgi-like-shared.yaml](../examples/adapters/tgi-like-shared.yaml) and
[tgi-like-apart.yaml](../examples/adapters/tgi-like-apart.yaml):

{_commands("tgi-like-shared")}
{_commands("tgi-like-apart")}

- Both adapters in one process: `--lora-adapters` (`LORA_ADAPTERS`). Of each adapter it holds the matrices that its
  file has, in the model's type (`adapters/lora.py`): {equation(*_file())} bytes for all linear layers.
  vLLM's slots on the vocabulary are not there.
- Its pool is not sized from these arguments: after a warm-up it gives all that is free to the cache, up to
  `--cuda-memory-fraction` of the card less a tenth. Memory of other processes counts as its own, so that the
  second process needs the first one's bytes on top of its own: that is the larger fraction above.
- Versions before 3.0 compute the logits of all prompt tokens in the warm-up, in each process:
  {equation(*_logits())} bytes with {PREFILL:,} tokens, and once more for their log-softmax before 2.4.
"""


def _compared(kind: str) -> str:
    together, apart = (shares(planned(f"adapters/{kind}-{how}")) for how in ("shared", "apart"))
    rows = [
        [title, *(_cell(sum(pick(share) for share in each)) for each in (together, apart)),
         _cell(sum(map(pick, apart)) - sum(map(pick, together)))]
        for title, pick in (
            ("base", lambda share: _base()),
            ("adapters", lambda share: share.weights_bytes - _base()),
            ("KV cache", lambda share: share.kv_cache_bytes),
            ("activations", lambda share: share.activations_bytes),
            ("runtime", lambda share: share.runtime_bytes),
            ("**together**", lambda share: share.claimed_bytes),
        )
    ]  # fmt: skip
    return table(("bytes", "one process", "two processes", "saved by one process"), rows)


def _cell(size: int) -> str:
    return f"{whole(size)} ({size / GIB:.2f} GiB)"


def _base() -> int:
    """The base as a process holds it."""
    return stage_weights(spec(L8B), find_format("bf16"), 1, 1, "auto")[0].bytes


def _slot(*, on_vocabulary: bool) -> int:
    return adapter_bytes(spec(L8B), AdapterSlots(1, RANK), 1, 0, 1, on_vocabulary)


def _elements() -> int:
    return _slot(on_vocabulary=False) // (2 * RANK)


def _pool() -> tuple[str, int]:
    return f"{REQUESTS} x {TOTAL_TOKENS:,} x 131,072", REQUESTS * TOTAL_TOKENS * 131_072


def _file() -> tuple[str, int]:
    return f"{RANK} x {whole(_elements())} x 2", _slot(on_vocabulary=False)


def _logits() -> tuple[str, int]:
    return f"{PREFILL:,} x 128,256 x 2", PREFILL * 128_256 * 2


def _commands(name: str) -> str:

    return "\n".join(f"    {one.command_line}" for one in planned(f"adapters/{name}").replicas)


def run(argv: Sequence[str] | None = None) -> int:
    """Write or check the page."""
    return main("adapters.md", render, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(run())
