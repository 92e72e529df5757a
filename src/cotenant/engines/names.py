"""Several names for one process: vLLM's server answers to each that follows `--served-model-name`.

Since 0.3.2 (github.com/vllm-project/vllm/pull/2894); what SGLang and TGI take there is one name.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.errors import UnsupportedError

_FLAG = "--served-model-name"


def takes_several(engine: str) -> bool:
    """Whether a process of that engine can answer to several names."""
    return engine == "vllm"


def also_named(argv: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The argument vector with further names behind the first. Raises UnsupportedError where there is no first."""
    if not names:
        return tuple(argv)
    if _FLAG not in argv:
        raise UnsupportedError(f"{argv[0]} answers to one name, and is to serve {' and '.join(names)} too")
    at = tuple(argv).index(_FLAG) + 2
    return (*argv[:at], *names, *argv[at:])
