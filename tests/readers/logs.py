# ruff: noqa: E501 - log lines are long
"""What the tests of log readers share: the golden logs, an old vLLM's start, and short ways to read text."""

from __future__ import annotations

from pathlib import Path

from cotenant.domain.measurement import Measurement
from cotenant.readers.logs import LogReading, read_log

LOG_FOLDER = Path(__file__).parents[1] / "golden" / "logs"
LOG_FILES = sorted(LOG_FOLDER.glob("*.log"))

V0 = """\
INFO 01-23 02:05:25 llm_engine.py:234] Initializing an LLM engine (v0.6.6.post1) with config: model='meta-llama/X', max_seq_len=8192, tensor_parallel_size=1
INFO 01-23 02:05:31 model_runner.py:1099] Loading model weights took 14.9595 GB
INFO 01-23 02:05:34 worker.py:241] the current vLLM instance can use total_gpu_memory (39.50GiB) x gpu_memory_utilization (0.90) = 35.55GiB
INFO 01-23 02:05:34 worker.py:241] model weights take 14.96GiB; non_torch_memory takes 0.10GiB; PyTorch activation peak memory takes 9.37GiB; the rest of the memory reserved for KV Cache is 11.12GiB.
INFO 01-23 02:05:34 gpu_executor.py:76] # GPU blocks: 5691, # CPU blocks: 2048
INFO 01-23 02:05:34 gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 11.12x
"""


def read(text: str | bytes) -> LogReading:
    return read_log([text.encode() if isinstance(text, str) else text])


def one(text: str | bytes) -> Measurement:
    (found,) = read(text).measurements
    return found


def values(found: Measurement, *names: str) -> list[float | None]:
    return [found.value(name) for name in names]
