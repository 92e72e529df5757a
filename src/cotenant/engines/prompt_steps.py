"""Which engines read a prompt in several steps, and so may be told another most tokens a step than their own.

vLLM        --max-num-batched-tokens; its V1 engine always splits prompts, but not an encoder's
            (vllm/config/scheduler.py, enable_chunked_prefill); V0 by itself for long contexts alone
SGLang      --chunked-prefill-size (server_args.py), from 0.2.7 on
TGI         --max-batch-prefill-tokens, from 3.0 on (server: utils/prefill_chunking.py); before, a prompt that is
            longer is refused
llama.cpp   --ubatch-size: a batch is computed in such parts (src/llama-batch.cpp)
TensorRT-LLM
            refuses prompts above max_num_tokens unless enable_chunked_prefill is on, which it is not by itself
            (llmapi/llm_args.py)
Ollama      takes it from a model file, not from its server's settings

An engine that is told fewer than it has slots does not start (vLLM, SchedulerConfig) or never fills them. An
image that is not split must fit a step, or vLLM does not start (v1/core/encoder_cache_manager.py,
disable_chunked_mm_input); states of recurrent layers are kept at the ends of long blocks, which a step must reach.
Models that have either are left with the engine's own number.
"""

from __future__ import annotations

from cotenant.domain.engine import Version
from cotenant.domain.gpu import GpuSpec
from cotenant.domain.model import AttentionKind, ModelSpec
from cotenant.engines.vllm.releases import release_of

_SINCE = {"vllm": (0, 8), "sglang": (0, 2, 7), "tgi": (3, 0), "llama.cpp": (0,)}
_FEWEST = 512  # tokens a step: below, a step reads weights rather than multiplies
_MOST = {"llama.cpp": 2048}  # its n_batch, of which a micro-batch is a part
_MOST_ELSEWHERE = 16_384  # the largest default of any engine here (vLLM 0.28 on 160 GiB and more)
_APART = 4  # each value that is looked at over the next: halves differ by too little to be told apart


def keeps_own_step(model: ModelSpec) -> bool:
    """Whether a step's length has more to hold than tokens: images, and the ends of blocks."""
    if set(model.modalities) - {"text"}:
        return True
    return any(group.kind is AttentionKind.RECURRENT for group in model.layer_groups)


def splits_prompts(engine: str, version: Version, model: ModelSpec, gpu: GpuSpec) -> bool:
    """Whether a prompt may be longer than a step, and the server can be told how long a step is."""
    since = _SINCE.get(engine)
    if since is None or model.encoder_only:
        return False
    return (release_of(version, gpu) if engine == "vllm" else version.parts) >= since


def other_steps(engine: str, own: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(smaller, larger) tokens a step that are worth a look beside the engine's `own`, the nearest first."""
    most = _MOST.get(engine, _MOST_ELSEWHERE)
    smaller = tuple(own // _APART**power for power in (1, 2) if own // _APART**power >= _FEWEST)
    larger = tuple(own * _APART**power for power in (1, 2) if own * _APART**power <= most)
    return smaller, larger
