# ruff: noqa: E501 - log lines are long
"""One setting, however a launch spells it: in the config line, among the arguments, on the command line."""

from __future__ import annotations

import pytest

from cotenant.readers.logs import read_log

CONFIG = "(EngineCore pid=2) INFO 05-14 10:00:10 [core.py:97] Initializing a V1 LLM engine (v0.20.1) with config: model='x/y', max_seq_len=32768, {}"
POOL = "(Worker_TP0 pid=3) INFO 05-14 10:05:10 [gpu_worker.py:298] Available KV cache memory: 20.00 GiB"


@pytest.mark.parametrize(
    "line",
    [
        CONFIG.format("tensor_parallel_size=8, decode_context_parallel_size=4, quantization=None"),
        "(APIServer pid=1) INFO 05-14 10:00:00 [utils.py:233] non-default args: {'model': 'x/y', 'tensor_parallel_size': 8, 'decode_context_parallel_size': 4}",
        "INFO 05-14 10:00:00 [api_server.py:1044] args: Namespace(model='x/y', tensor_parallel_size=8, decode_context_parallel_size=4)",
        "vllm serve x/y --tensor-parallel-size 8 --decode-context-parallel-size 4",
        "vllm serve x/y --tensor-parallel-size=8 --decode-context-parallel-size=4",
        "vllm serve x/y -tp 8 -dcp 4",
    ],
)
def test_shared_out_caches_are_read_in_every_spelling(line):
    (found,) = read_log([f"{line}\n{POOL}\n".encode()]).measurements
    assert found.settings["tensor_parallel_size"] == 8
    assert found.settings["decode_context_parallel_size"] == 4
