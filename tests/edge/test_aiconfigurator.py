"""AIConfigurator: how it is asked, over recorded answers; and the package itself, where it is installed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

import pytest

import cotenant
from cotenant.catalogue.gpus import find_gpu
from cotenant.domain.step_time import StepQuestion
from cotenant.edge import aiconfigurator
from cotenant.edge.aiconfigurator import ask, config_of, consulted, is_installed
from cotenant.edge.known import known
from cotenant.edge.models import open_model
from cotenant.estimation.second_source import second_source_in_force
from cotenant.estimation.step_time import roofline

# Answers of release 0.12.0 in milliseconds, Qwen3-32B in BF16 on two H200 under vLLM 0.24 (recorded 2026-11-29).
DECODE_MS = {1: 10.68, 4: 10.9, 16: 12.37, 64: 16.08, 256: 33.68}
PREFILL_MS = {512: 33.1, 1024: 55.0, 2048: 103.04, 4096: 221.0, 8192: 473.8}


class Recorded:
    """Stands where the package's engine stands, and remembers how it was asked."""

    asked: ClassVar[list[tuple[str, str, dict[str, Any]]]] = []
    refuses: tuple[str, ...] = ()

    @classmethod
    def compile(cls, folder: str, system: str, backend: str, **words: Any) -> Recorded:
        cls.asked.append((system, backend, words))
        if words.get("gemm_quant_mode") in cls.refuses:
            raise RuntimeError("perf database error: GEMM perf data missing")
        return cls()

    def predict_decode_latency(self, batch: int, context: int, output: int) -> float:
        assert output == 2
        return DECODE_MS[batch]

    def predict_prefill_latency(self, batch: int, tokens: int) -> float:
        assert batch == 1
        return PREFILL_MS[tokens]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> type[Recorded]:
    """A package of that name which answers what was recorded."""
    names = ("aiconfigurator_core", "aiconfigurator_core.sdk", "aiconfigurator_core.sdk.engine",
             "aiconfigurator_core.sdk.perf_database")  # fmt: skip
    made = {name: ModuleType(name) for name in names}
    made["aiconfigurator_core.sdk.engine"].EngineHandle = Recorded  # type: ignore[attr-defined]
    made["aiconfigurator_core.sdk.perf_database"].get_latest_database_version = (  # type: ignore[attr-defined]
        lambda system, backend: "0.24.0"
    )
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(aiconfigurator, "_version", lambda: "0.12.0")
    monkeypatch.setattr(aiconfigurator, "is_installed", lambda: True)
    monkeypatch.setattr(aiconfigurator, "_ANSWERS", {})
    monkeypatch.setattr(Recorded, "asked", [])
    monkeypatch.setattr(Recorded, "refuses", ())
    return Recorded


def question(**other: Any) -> StepQuestion:
    told = {"gpu": "H200-SXM", "engine": "vllm", "format": "bf16", "ranks": 2, "kv_cache_dtype": "auto"} | other
    return StepQuestion(open_model(told.pop("model", "Qwen/Qwen3-32B")).spec, **told)


def test_a_recorded_answer_in_seconds_with_its_source(package: type[Recorded]) -> None:
    found = ask(question())
    assert found is not None
    assert found.source == "AIConfigurator 0.12.0 (vllm 0.24.0 on h200_sxm)"
    assert found.error == 0.18
    assert dict(found.prefill)[2048] == pytest.approx(0.10304)
    assert [seconds for batch, _, seconds in found.decode if batch == 64] == [pytest.approx(0.01608)] * 3
    assert package.asked == [
        ("h200_sxm", "vllm", {"tp_size": 2, "gemm_quant_mode": None, "fmha_quant_mode": None})
    ]


def test_equal_questions_are_asked_once(package: type[Recorded]) -> None:
    assert ask(question()) is ask(question())
    assert len(package.asked) == 1


def test_a_mixture_says_how_its_experts_are_cut(package: type[Recorded]) -> None:
    ask(question(model="deepseek-ai/DeepSeek-V3", format="fp8-block", ranks=8, kv_cache_dtype="fp8"))
    _, _, words = package.asked[0]
    assert words == {
        "tp_size": 8, "kvcache_quant_mode": "fp8", "moe_tp_size": 8, "moe_ep_size": 1, "gemm_quant_mode": None,
        "fmha_quant_mode": None, "moe_quant_mode": None,
    }  # fmt: skip


def test_a_precision_that_its_tables_lack_is_asked_for_as_its_neighbour(package: type[Recorded]) -> None:
    package.refuses = ("fp8",)
    assert ask(question(format="fp8")) is not None
    assert package.asked[-1][2]["gemm_quant_mode"] == "fp8_block"


def test_a_checkpoint_whose_recipe_is_not_known_is_asked_by_its_format(package: type[Recorded]) -> None:
    assert ask(question(model="Qwen/Qwen3-32B-FP8", format="fp8")) is not None
    assert [words["gemm_quant_mode"] for _, _, words in package.asked] == ["fp8"]


def test_what_it_does_not_know_is_no_answer(package: type[Recorded]) -> None:
    assert ask(question(gpu="RTX-4090")) is None
    assert ask(question(engine="llama.cpp")) is None
    assert ask(question(format="bnb-nf4")) is None
    assert not package.asked
    package.refuses = ("fp8", "fp8_block")
    assert ask(question(format="fp8")) is None


def test_a_fault_in_its_compiled_part_is_no_answer(
    package: type[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicError(BaseException):
        pass

    def panics(*_: object, **__: object) -> None:
        raise PanicError

    monkeypatch.setattr(package, "compile", panics)
    assert ask(question()) is None

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(package, "compile", stopped)
    with pytest.raises(KeyboardInterrupt):
        ask(question(ranks=4))


def test_estimates_name_both_sources_and_may_leave_it_out(package: type[Recorded]) -> None:
    asked = {"gpu": "H200-SXM", "concurrent": 8, "context_tokens": {"p50": 2000, "p95": 4000}}
    both = cotenant.estimate("Qwen/Qwen3-32B", **asked)  # type: ignore[arg-type]
    ours = cotenant.estimate("Qwen/Qwen3-32B", aiconfigurator=False, **asked)  # type: ignore[arg-type]
    assert both.demand is not None
    assert ours.demand is not None
    assert both.demand.tpot_s != ours.demand.tpot_s
    assert len(package.asked) == 1
    assert "AIConfigurator 0.12.0" in both.demand.times_from
    assert ours.demand.times_from == "roofline of H200-SXM x1, bf16, vllm"


def test_it_is_asked_where_it_is_wanted_and_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiconfigurator, "is_installed", lambda: True)
    with known():
        assert second_source_in_force() is ask
    with known(aiconfigurator=False):
        assert second_source_in_force() is None
    monkeypatch.setattr(aiconfigurator, "is_installed", lambda: False)
    with consulted():
        assert second_source_in_force() is None


def test_the_config_is_the_users_file_or_the_catalogues(tmp_path: Any) -> None:
    spec = open_model("Qwen/Qwen3-32B").spec
    found = config_of(spec)
    assert found is not None
    assert found["architectures"] == ["Qwen3ForCausalLM"]
    (tmp_path / "config.json").write_text(json.dumps(dict(found) | {"vocab_size": 1000}))
    mine = config_of(open_model(str(tmp_path)).spec)
    assert mine is not None
    assert mine["vocab_size"] == 1000
    assert config_of(replace(spec, name="nobody/knows")) is None


needs_it = pytest.mark.skipif(
    not is_installed(), reason="aiconfigurator is not installed: pip install aiconfigurator"
)


@needs_it
@pytest.mark.parametrize(
    ("model", "gpu", "engine", "format", "ranks"),
    [
        ("Qwen/Qwen3-32B", "H200-SXM", "vllm", "bf16", 2),
        ("Qwen/Qwen3-32B", "H100-SXM", "tensorrt-llm", "fp8", 4),
        ("deepseek-ai/DeepSeek-V3", "H200-SXM", "sglang", "fp8-block", 8),
        ("MiniMaxAI/MiniMax-M2.5", "B200-SXM", "vllm", "nvfp4", 4),
        ("meta-llama/Llama-3.1-8B-Instruct", "L40S", "vllm", "bf16", 1),
    ],
)
def test_the_package_itself_answers_in_the_same_unit(
    model: str,
    gpu: str,
    engine: str,
    format: str,  # noqa: A002
    ranks: int,
) -> None:
    card = find_gpu(gpu)
    found = ask(question(model=model, gpu=card.name, engine=engine, format=format, ranks=ranks))
    assert found is not None
    assert found.source.startswith("AIConfigurator 0.")
    from cotenant.catalogue.quantization import find_format

    exact = roofline(
        open_model(model).spec, card, engine=engine, format=find_format(format), tensor_parallel_size=ranks
    )
    held = [load for load in found.decode if exact.held_bytes(load[0], load[0] * load[1]) <= card.cuda_bytes.value]
    assert len(held) > len(found.decode) / 2
    for batch, context, seconds in held:
        assert 1 / 3 < seconds / exact.decode_step_s(batch, batch * context) < 3


@needs_it
def test_the_package_does_not_know_this_architecture() -> None:
    assert ask(question(model="google/gemma-3-27b-it", ranks=1)) is None
