"""The decision matrix of the second article, as rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.gpus import all_gpus, find_gpu
from cotenant.catalogue.quantization import all_formats
from cotenant.domain.engine import Version
from cotenant.domain.model import ModelSpec
from cotenant.domain.quantization import Advice, PrecisionChoice
from cotenant.errors import InputError
from cotenant.estimation.precision import candidates, decide


def model(name: str, *, quantization: str = "", dtype: str = "bf16") -> ModelSpec:
    return ModelSpec(name, "", "", (), (), 32, 4096, 14336, 128256, 131072, dtype=dtype, quantization=quantization)


EIGHT = model("meta-llama/Llama-3.1-8B-Instruct")
SEVENTY = model("meta-llama/Llama-3.1-70B-Instruct")
V = Version.parse("0.21")


def table(gpu: str, engine: str = "vllm", **given: object) -> dict[str, PrecisionChoice]:
    rows = decide(find_gpu(gpu), engine=engine, version=V if engine == "vllm" else None, **given)  # type: ignore[arg-type]
    assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) == len(all_formats())
    return {row.format: row for row in rows}


@pytest.mark.parametrize("gpu", ["L4", "L40S", "H100-80GB-SXM", "H200-SXM"])
def test_fp8_comes_first_where_the_card_has_it(gpu: str) -> None:
    rows = table(gpu, model=EIGHT)
    assert rows["fp8"].rank == 1
    assert rows["fp8"].advice is Advice.USE
    assert not rows["fp8"].memory_only


def test_fp8_saves_memory_only_on_ampere() -> None:
    row = table("A100-80GB-SXM", model=EIGHT)["fp8"]
    assert row.memory_only
    assert row.advice is Advice.POSSIBLE
    assert row.rank > table("A100-80GB-SXM", model=EIGHT)["bf16"].rank
    assert "memory only" in row.reason


def test_awq_next_where_the_task_is_not_code() -> None:
    known = {"awq-int4": "x/awq", "gptq-int4": "x/gptq"}
    chat = table("A100-80GB-SXM", model=SEVENTY, checkpoints=known)
    assert chat["awq-int4"].advice is Advice.USE
    assert chat["awq-int4"].checkpoint == "x/awq"
    code = table("A100-80GB-SXM", model=SEVENTY, checkpoints=known, task="code", max_loss_percent=5)
    assert code["awq-int4"].advice is Advice.REFUSED
    assert "HumanEval" in code["awq-int4"].reason


def test_gptq_where_no_awq_checkpoint_is_known() -> None:
    only = table("A100-80GB-SXM", model=SEVENTY, checkpoints={"gptq-int4": "x/gptq"})
    assert only["gptq-int4"].advice is Advice.USE
    assert only["gptq-int4"].rank < only["awq-int4"].rank
    both = table("A100-80GB-SXM", model=SEVENTY, checkpoints={"gptq-int4": "x/gptq", "awq-int4": "x/awq"})
    assert both["gptq-int4"].advice is Advice.POSSIBLE
    assert both["awq-int4"].rank < both["gptq-int4"].rank


def test_gguf_runs_on_llama_cpp_and_ollama_and_not_in_vllm() -> None:
    for engine in ("llama.cpp", "ollama"):
        rows = table("RTX 4090", engine, model=EIGHT)
        assert rows["gguf-q4_k_m"].advice is not Advice.REFUSED
        assert rows["awq-int4"].advice is Advice.REFUSED
    row = table("RTX 4090", model=EIGHT, wishes=["gguf-q4_k_m"])["gguf-q4_k_m"]
    assert row.advice is Advice.REFUSED
    assert "741" in row.reason


def test_one_repository_may_hold_every_gguf_mix() -> None:
    rows = table("RTX 4090", "ollama", model=EIGHT, checkpoints={"gguf": "x/GGUF"})
    assert rows["gguf-q4_k_m"].checkpoint == rows["gguf-q8_0"].checkpoint == "x/GGUF"
    assert rows["awq-int4"].checkpoint == ""


def test_nvfp4_on_blackwell_alone() -> None:
    assert table("B200", model=EIGHT, wishes=["nvfp4"])["nvfp4"].advice is Advice.USE
    assert "FP4" in table("H100-80GB-SXM", model=EIGHT, wishes=["nvfp4"])["nvfp4"].reason
    assert table("H100-80GB-SXM", model=EIGHT, wishes=["nvfp4"])["nvfp4"].advice is Advice.REFUSED


def test_mixed_precision_moves_up_where_memory_is_short() -> None:
    relaxed, short = table("H100-80GB-SXM", model=EIGHT), table("H100-80GB-SXM", model=EIGHT, memory_is_short=True)
    assert short["fp8"].rank < short["mixed-fp8-int4"].rank <= relaxed["mixed-fp8-int4"].rank
    assert "memory is short" in relaxed["mixed-fp8-int4"].reason
    assert "memory is short" not in short["mixed-fp8-int4"].reason
    assert not short["mixed-fp8-int4"].quality_known


def test_max_loss_is_held_against_the_models_own_worst_figure() -> None:
    """Llama-3.1-8B-Instruct in W4A16: Arena-Hard -6.98 %."""
    known = {"w4a16": "x/w4a16"}
    strict = table("A100-80GB-SXM", model=EIGHT, checkpoints=known)["w4a16"]
    assert strict.advice is Advice.REFUSED
    assert strict.quality is not None
    assert (strict.quality.metric, strict.quality.loss_percent) == ("Arena-Hard", 6.98)
    loose = table("A100-80GB-SXM", model=EIGHT, checkpoints=known, max_loss_percent=7)["w4a16"]
    assert loose.advice is Advice.USE
    assert loose.quality_known


def test_an_unknown_loss_is_not_zero() -> None:
    row = table("A100-80GB-SXM", model=EIGHT)["bnb-int8"]
    assert not row.quality_known
    assert row.advice is Advice.POSSIBLE
    assert "unknown" in row.reason


@pytest.mark.parametrize("task", ["vision", "vision-chat", "base"])
def test_tasks_without_figures_of_their_own_are_held_against_chat(task: str) -> None:
    row = table("L40S", model=SEVENTY, task=task)["fp8"]
    assert row.quality_known
    assert row.quality == table("L40S", model=SEVENTY, task="chat")["fp8"].quality


def test_perplexity_is_shown_and_not_compared() -> None:
    row = table("RTX 4090", "llama.cpp", model=EIGHT)["gguf-q4_k_m"]
    assert row.quality is not None
    assert "perplexity" in row.quality.metric
    assert not row.quality_known
    assert "may lose" not in table("RTX 4090", "llama.cpp", model=EIGHT)["gguf-q2_k"].reason


def test_a_wish_overrides_the_loss_with_a_warning_but_no_kernel() -> None:
    rows = table("A100-80GB-SXM", model=EIGHT, wishes=["w4a16", "fp8"], checkpoints={"w4a16": "x/w4a16"})
    assert rows["w4a16"].rank == 1
    assert rows["w4a16"].advice is Advice.USE
    assert "6.98%" in rows["w4a16"].warning
    assert rows["bf16"].advice is Advice.REFUSED
    assert table("V100-16GB-SXM", model=EIGHT, wishes=["awq-int4"])["awq-int4"].advice is Advice.REFUSED


def test_a_wish_without_a_checkpoint_says_how_to_name_one() -> None:
    row = table("A100-80GB-SXM", model=EIGHT, wishes=["awq-int4"])["awq-int4"]
    assert "{awq-int4: hub/id}" in row.warning
    with pytest.raises(InputError):
        table("A100-80GB-SXM", wishes=["awq-int5"])


def test_the_trio_gets_its_wishes_in_order() -> None:
    rows = decide(
        find_gpu("A100-80GB-SXM"), engine="vllm", version=V, model=SEVENTY, wishes=["fp8", "awq-int4"],
        checkpoints={"awq-int4": "x/awq"},
    )  # fmt: skip
    assert [row.format for row in candidates(rows)] == ["fp8", "awq-int4"]


def test_a_published_format_is_the_reference_of_its_model() -> None:
    rows = table("H100-80GB-SXM", model=model("deepseek-ai/DeepSeek-V3", quantization="fp8-block"))
    assert rows["fp8-block"].rank == 1
    assert rows["bf16"].advice is Advice.REFUSED


def test_fp16_stands_in_where_the_card_has_no_bf16() -> None:
    rows = table("T4", model=EIGHT)
    assert rows["fp16"].advice is Advice.USE
    assert rows["bf16"].advice is Advice.REFUSED


@given(
    st.integers(0, 34),
    st.sampled_from(["vllm", "sglang", "tgi", "tensorrt-llm", "llama.cpp", "ollama"]),
    st.sampled_from(["chat", "code", "math", "embed", "vision"]),
    st.floats(0, 20),
    st.floats(0, 20),
)
def test_a_looser_limit_never_refuses_more(card: int, engine: str, task: str, a: float, b: float) -> None:
    strict, loose = (
        {
            row.format
            for row in candidates(decide(all_gpus()[card], engine=engine, task=task, max_loss_percent=limit))
        }
        for limit in sorted((a, b))
    )
    assert strict <= loose


@given(st.integers(0, 34), st.sampled_from(["vllm", "llama.cpp", "tgi"]))
def test_every_row_says_why_and_every_candidate_has_a_kernel(card: int, engine: str) -> None:
    for row in decide(all_gpus()[card], engine=engine, model=EIGHT):
        assert row.reason
        assert row.advice is Advice.REFUSED or row.kernel is not None
