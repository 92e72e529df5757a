"""vLLM by version, 0.3 to 0.33, read from its released sources (files named beside each fact).

    budget      CUDA's total x gpu_memory_utilization              worker/worker.py, v1/worker/gpu_worker.py
    pool        budget - weights - profile run's peak - non-torch [- graph estimate]
                                                                   utils/mem_utils.py, memory_profiling
    pages       v1/kv_cache_interface.py, v1/core/kv_cache_utils.py; state pages: platforms/interface.py
    defaults    engine/arg_utils.py, config/cache.py, config.py (V0)
    sampler     v1/sample/ops/topk_topp_sampler.py; dummy rows: v1/worker/gpu_model_runner.py

V1 is taken from 0.8 on, where it became the default.
"""

from __future__ import annotations

from cotenant.engines.vllm.engine import VLLM, Vllm

__all__ = ["VLLM", "Vllm"]
