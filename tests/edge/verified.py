"""Plans and engines for `verify` to measure."""

from __future__ import annotations

import json
from pathlib import Path

STUB = Path(__file__).with_name("stub_engine.py")


MIB = 2**20


def plan_of(tmp_path: Path, *, port: int, count: int = 1, device: str = "CPU", capacity: int = 2**31) -> Path:
    """A plan of one or two stubs on llama.cpp's words."""
    from bench.live_case import plan_document

    document = plan_document(dict.fromkeys(("chat", "code")[:count], 100 * MIB), capacity)
    checkpoint = tmp_path / "none.gguf"
    checkpoint.write_bytes(b"GGUF")
    document["replicas"][0]["port"] = port
    for replica in document["replicas"]:
        replica |= {"checkpoint": str(checkpoint), "model_id": str(checkpoint)}
        replica |= {"max_model_len": 64, "n_ctx": 128}
        replica["devices"][0] = {"type": device, "node": 0, "index": 0}
        if device != "CPU":
            replica["n_gpu_layers"] = 99
    document["gpus"][0]["type"] = device
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    return path


def port() -> int:
    from bench.live_case import free_port

    return free_port()


def running(script: Path) -> list[str]:
    """Processes of ours that are left."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes()
        except OSError:
            continue
        if str(STUB).encode() in words and str(script.parent).encode() in words:
            found.append(words.decode())
    return found


def engine_at(url: str, tmp_path: Path):
    from cotenant.domain.engine import EngineSettings
    from cotenant.domain.running import Launch
    from cotenant.edge.verifying.engine import LiveEngine

    launch = Launch("x", "x", "llama.cpp", "11549", "/m/x.gguf", EngineSettings(), 1, url=url)
    return LiveEngine(launch, log=None, device_bytes=lambda _: None)
