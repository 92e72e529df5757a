"""How each program is asked, in the mode of its own that comes nearest to the question, and how it is read.

No program is changed. hf-mem and kvfit read the hub only: their command runs with the one function that fetches
replaced by one that reads a folder. ridgepoint reads a hub's local cache. aiconfigurator takes a folder. llmfit
answers from the list of models built into it, and is asked by name.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peer_files import write_hub_cache, write_model
from bench.peer_process import Run, find, interpreter, run, version
from bench.peer_tasks import LENGTH, SEQUENCES, Kind, Task
from bench.table import CannotRunError
from cotenant.units import GIB

Answer = tuple[float, Run]  # bytes

_HF_MEM = """
import json, os, struct, sys
from pathlib import Path
from hf_mem.cli import main
run = sys.modules["hf_mem.run"]
folder = Path(os.environ["PEER_FILES"])
async def get_json_file(client, url, headers=None):
    if "/tree/" in url:
        return [{"type": "file", "path": path.name} for path in folder.iterdir()]
    return json.loads((folder / url.rsplit("/", 1)[1]).read_text())
async def fetch_safetensors_metadata(client, url, headers=None):
    data = (folder / url.rsplit("/", 1)[1]).read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
run.get_json_file, run.fetch_safetensors_metadata = get_json_file, fetch_safetensors_metadata
main()
"""

_KVFIT = """
import json, os, struct, sys
from pathlib import Path
from kvfit import cli, hf
folder = Path(os.environ["PEER_FILES"])
def fetch(url, **_):
    if "/api/models/" not in url:
        return json.loads((folder / url.rsplit("/", 1)[1]).read_text())
    data = (folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    ends = [one["data_offsets"][1] for one in json.loads(data[8:8 + length]).values()]
    return {"siblings": [{"rfilename": "model.safetensors", "size": 8 + length + max(ends)}]}
hf._fetch_json = fetch
sys.exit(cli.main(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """One program: `ask` answers a task given its command and a folder to write into. `how` says what was asked,
    `more` what it does that we do not."""

    name: str
    ask: Callable[[Path, Task, Path], Answer]
    how: str
    more: str

    def locate(self, peers: Path | None) -> Path:
        """Its command, or CannotRunError."""
        return find(self.name, peers)

    def version(self, command: Path) -> str:
        """Which release."""
        return version(command, self.name)


def ask_cotenant(command: Path, task: Task, folder: Path) -> Answer:
    """Ours, as a process of its own like the others. `command` is a Python; a model too large for the card is
    still answered (exit status 3). Weights are asked of a release that holds tensors as a checkpoint does: vLLM's
    own allocator settings round them up since 0.21."""
    engine = ["--engine", "vllm@0.20.0"] if task.kind is Kind.WEIGHTS else []
    done = run(
        [command, "-m", "cotenant.cli", "estimate", task.model, "--gpu", "B200", "--max-model-len", LENGTH_TEXT,
         "--max-num-seqs", str(SEQUENCES), "--quantization", task.form, *engine, "--json"], accept=(0, 3),
    )  # fmt: skip
    told = json.loads(done.printed)
    if task.kind is Kind.WEIGHTS:
        return told["per_gpu"][0]["weights_bytes"], done
    cache = told["kv_cache"]
    return cache["bytes_per_token"] * SEQUENCES * LENGTH + cache["bytes_per_sequence"] * SEQUENCES, done


def _hf_mem(command: Path, task: Task, folder: Path) -> Answer:
    words: list[str | Path] = [interpreter(command), "-c", _HF_MEM, "--model-id", task.checkpoint or task.model]
    if task.kind is Kind.KV:
        words += ["--experimental", "--max-model-len", LENGTH_TEXT, "--batch-size", str(SEQUENCES)]
        words += ["--kv-cache-dtype", "bfloat16"]
    done = run([*words, "--json-output"], {"PEER_FILES": str(write_model(task, folder))})
    told = _document(done)
    return _number(told["memory" if task.kind is Kind.WEIGHTS else "kv_cache"]), done


def _kvfit(command: Path, task: Task, folder: Path) -> Answer:
    done = run(
        [interpreter(command), "-c", _KVFIT, task.checkpoint or task.model, "--hardware", "custom:2000",
         "--context", LENGTH_TEXT, "--concurrent-users", str(SEQUENCES), "--kv-dtype", "bf16", "--json"],
        {"PEER_FILES": str(write_model(task, folder))},
    )  # fmt: skip
    told = _document(done)
    if task.kind is Kind.WEIGHTS:
        return _number(told["weights"]["gib"]) * GIB, done
    return _number(told["cache"]["bytes_per_sequence"]) * SEQUENCES, done


def _llmfit(command: Path, task: Task, folder: Path) -> Answer:
    model = task.checkpoint or task.model
    if task.kind is Kind.WEIGHTS:
        done = run([command, "plan", model, "--context", LENGTH_TEXT, "--json"])
        return _number(_document(done)["disk_size_gb"]) * 1e9, done
    done = run([command, "concurrency", model, "--context", LENGTH_TEXT, "--json"])
    told = _document(done)["estimate"]
    sequence = _number(told["ladder"][0]["per_session_kv_gb"]) + _number(told["per_session_recurrent_gb"])
    return sequence * GIB * SEQUENCES, done


def _ridgepoint(command: Path, task: Task, folder: Path) -> Answer:
    home = write_hub_cache(task, folder)
    done = run(
        [command, "fit", task.model, "--gpu", "h200-141gb:8", "--ctx", LENGTH_TEXT, "--kv-cache-dtype", "bf16",
         "--dtype", "awq" if task.kind is Kind.WEIGHTS else "fp16", "--json"],
        {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
    )  # fmt: skip
    told = _document(done)
    if task.kind is Kind.WEIGHTS:
        return _number(told["memory"]["weights_bytes"]["best"]), done
    return _number(told["capacity"]["bytes_per_seq"]) * SEQUENCES, done


def _aiconfigurator(command: Path, task: Task, folder: Path) -> Answer:
    words: list[str | Path] = [
        command, "cli", "estimate", "--model-path", write_model(task, folder, quantized=False),
        "--system", "h200_sxm", "--backend", "vllm", "--estimate-mode", "static",
        "--batch-size", str(SEQUENCES), "--isl", str(LENGTH - 2), "--osl", "2",
        "--kvcache-quant-mode", "bfloat16", "--detail", "memory", "--no-color", "--log-level", "ERROR",
    ]  # fmt: skip
    if "DeepSeek" in task.model:  # it asks how experts are spread; this cache is whole on every rank
        words += ["--tp", "8", "--ep", "8"]
    if task.kind is Kind.WEIGHTS:  # 4-bit layers are not in its measured data: its own mode for such
        words += ["--gemm-quant-mode", "int4_wo", "--database-mode", "HYBRID"]
    done = run(words)
    name = "weights" if task.kind is Kind.WEIGHTS else "kvcache"
    found = re.search(rf"^\s*{name}\s+([0-9.]+) GiB", done.printed, re.MULTILINE)
    if found is None:
        raise CannotRunError(f"it printed no {name}")
    return float(found.group(1)) * GIB, done


def _document(done: Run) -> Any:
    start = done.printed.find("{")
    if start < 0:
        raise CannotRunError("it printed no JSON")
    return json.loads(done.printed[start:])


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CannotRunError("it gives no figure for this")
    return float(value)


LENGTH_TEXT = str(LENGTH)
OURS = "cotenant"
PYTHON = Path(sys.executable)

PROGRAMS = (
    Program(
        "hf-mem", _hf_mem, "`--experimental --max-model-len 8192 --batch-size 16`, reading a local folder",
        "sums the headers of diffusion models and of any other repository on the hub, whatever its architecture",
    ),
    Program(
        "kvfit", _kvfit, "`--context 8192 --concurrent-users 16 --kv-dtype bf16`, reading a local folder",
        "searches DGX systems by number of users, asks an installed vLLM or"
        " SGLang whether it can run a checkpoint, and calibrates against a running server",
    ),
    Program(
        "llmfit", _llmfit, "`concurrency --context 8192` and `plan`, by name from its built-in list",
        "detects this machine (Apple, AMD and NVIDIA), ranks hundreds of models for it, downloads and starts them,"
        " in a full-screen interface",
    ),
    Program(
        "ridgepoint", _ridgepoint, "`fit --ctx 8192`, reading a hub's local cache; `--dtype awq` for the weights",
        "prints speed with every fit, and says which figures are calibrated and what is not modelled",
    ),
    Program(
        "aiconfigurator", _aiconfigurator,
        "`cli estimate --estimate-mode static`, 8,190 tokens in and 2 out, on vLLM; `--gemm-quant-mode int4_wo`"
        " for the weights",
        "holds measured kernels of many cards, searches disaggregated prefill and decode, and writes deployment"
        " files for Dynamo and llm-d",
    ),
)  # fmt: skip
