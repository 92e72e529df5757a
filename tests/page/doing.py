# ruff: noqa: E501 - log lines are long
"""What tests of the page do again and again, as a person would."""

from __future__ import annotations

import base64
from typing import Any

CRASH = """(APIServer pid=1) INFO vLLM API server version 0.11.0
(APIServer pid=1) INFO non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', 'gpu_memory_utilization': 0.9}
(EngineCore_DP0 pid=9) INFO Initializing a V1 LLM engine (v0.11.0) with config: model='meta-llama/Llama-3.1-8B-Instruct', \
dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1, \
enforce_eager=False, kv_cache_dtype=auto
(EngineCore_DP0 pid=9) INFO Model loading took 14.9889 GiB and 3.0 seconds
(EngineCore_DP0 pid=9) INFO Available KV cache memory: 5.10 GiB
(EngineCore_DP0 pid=9) ERROR ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB \
KV cache is needed, which is larger than the available KV cache memory (5.10 GiB).
"""
"""A vLLM that ended at start."""


def add_card(page: Any, name: str) -> None:
    """Choose a card by its name in the search box."""
    page.fill("#add-card", name)
    page.wait_for_selector("[role=option]")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"[data-card^='{name}']")


def drop(page: Any, onto: str, name: str, data: bytes, *, padded_to: int = 0) -> None:
    """Drop a file on an element, as a file manager does; with zeros behind its bytes where it is to be larger."""
    page.evaluate(
        """([onto, name, text, size]) => {
            const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
            const data = new DataTransfer();
            data.items.add(new File([bytes, new Uint8Array(Math.max(0, size - bytes.length))], name));
            const how = { dataTransfer: data, bubbles: true, cancelable: true };
            for (const kind of ['dragover', 'drop']) document.querySelector(onto).dispatchEvent(new DragEvent(kind, how));
        }""",
        [onto, name, base64.b64encode(data).decode(), padded_to],
    )
