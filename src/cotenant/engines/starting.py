"""What an engine does between its process and its first answer, beside reading weights.

vLLM      imports, compiles since its V1 engine (0.8: `torch.compile` is on at -O3, `-O2` since), captures graphs
SGLang, TGI, TensorRT-LLM
          import and capture; none compiles unless told to (SGLang's `enable_torch_compile`, TensorRT-LLM's
          `torch_compile_config`, both off)
llama.cpp, Ollama
          programs of their own: nothing is imported, compiled or captured before they listen
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.domain.engine import Version

_NATIVE = ("llama.cpp", "ollama")
_COMPILES_FROM = (0, 8)


@dataclass(frozen=True, slots=True)
class Starting:
    """`imports`: Python and its libraries; `compiles`: the model's graph (`torch.compile`); `captures`: CUDA
    graphs."""

    imports: bool
    compiles: bool
    captures: bool


def starting(engine: str, version: Version, *, enforce_eager: bool = False) -> Starting:
    """What that engine does; with `enforce_eager` it neither compiles nor captures."""
    if engine in _NATIVE:
        return Starting(imports=False, compiles=False, captures=False)
    compiles = engine == "vllm" and version.parts >= _COMPILES_FROM
    return Starting(imports=True, compiles=compiles and not enforce_eager, captures=not enforce_eager)
