"""The lines of every engine's log, as data; `readers.logs` finds and reads them.

They stand apart from `engines/NAME.py` because they follow what was printed, not what is reserved: they change
with other releases, and reading a log must not load the rules of an engine.
"""

from __future__ import annotations

from cotenant.engines.logs.line import EngineLog, LogLine
from cotenant.engines.logs.llama_cpp import LLAMA_CPP
from cotenant.engines.logs.ollama import OLLAMA
from cotenant.engines.logs.sglang import SGLANG
from cotenant.engines.logs.tensorrt_llm import TENSORRT_LLM
from cotenant.engines.logs.tgi import TGI
from cotenant.engines.logs.torch import TORCH
from cotenant.engines.logs.vllm import VLLM

LOGS: tuple[EngineLog, ...] = (VLLM, SGLANG, TGI, TENSORRT_LLM, OLLAMA, LLAMA_CPP, TORCH)

__all__ = ["LOGS", "EngineLog", "LogLine"]
