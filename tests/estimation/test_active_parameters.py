"""What a token is multiplied with, against the active parameters that publishers state."""

import pytest

from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.step_time import roofline
from cotenant.readers.model_config import read_model_config

# Billions, as the model cards say; some count the embedding table (a look-up, no product), hence 10 %.
PUBLISHED = {
    "openai/gpt-oss-120b": 5.1,
    "openai/gpt-oss-20b": 3.6,
    "mistralai/Mixtral-8x7B-Instruct-v0.1": 12.9,
    "deepseek-ai/DeepSeek-V3": 37,
    "moonshotai/Kimi-K2-Instruct": 32,
    "Qwen/Qwen3-30B-A3B": 3.3,
    "Qwen/Qwen3-235B-A22B": 22,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 17,
    "zai-org/GLM-4.5": 32,
    "zai-org/GLM-4.5-Air": 12,
}


def _exact(name: str) -> Roofline:
    entry = find_entry(name)
    assert entry is not None, name
    model = read_model_config(entry.config, name=entry.id, source="catalogue")
    return roofline(model, find_gpu("H100-SXM"), engine="vllm")


@pytest.mark.parametrize("name", PUBLISHED)
def test_active_parameters_of_mixtures(name: str) -> None:
    assert _exact(name).flops_per_token / 2 == pytest.approx(PUBLISHED[name] * 1e9, rel=0.1)


def test_dense_models_use_all_but_the_table() -> None:
    """Llama-3.1-8B: 8,030,261,248 parameters less the 128,256 x 4,096 table and the norms."""
    assert (
        _exact("meta-llama/Llama-3.1-8B-Instruct").flops_per_token / 2
        == 8_030_261_248 - 128_256 * 4096 - 65 * 4096
    )
