from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.models import all_entries
from cotenant.domain.engine import AdapterSlots
from cotenant.domain.model import Role
from cotenant.domain.quantization import QuantizationFormat
from cotenant.domain.storage import Storage
from cotenant.engines.rules import ExpertPadding
from cotenant.estimation.elements import allocated_bytes, stored_bytes
from cotenant.estimation.stages import stage_layers
from cotenant.estimation.weights import checkpoint_bytes, rotary_bytes, weights_per_rank
from cotenant.readers.model_config import read_model_config
from cotenant.units import GIB, MIB
from tests.estimation.conftest import LLAMA_8B


def gib(term) -> float:
    return term.bytes.value / GIB


def test_llama_8b_is_what_vllm_prints(llama_8b, bf16):
    """14.9889 GiB printed by vLLM 0.11.0; the files hold 8,030,261,248 x 2 bytes."""
    assert checkpoint_bytes(llama_8b, bf16) == 8_030_261_248 * 2
    assert gib(weights_per_rank(llama_8b, bf16)[0]) == pytest.approx(14.9889, abs=2e-4)


def test_the_rotary_table_is_part_of_it(llama_8b):
    assert rotary_bytes(llama_8b) == 131072 * 128 * 2


@pytest.mark.parametrize(("ranks", "positions", "printed"), [(4, 131072, 15.4115), (8, 40960, 7.6871)])
def test_tensor_parallel_ranks_with_the_allocators_rounding(qwen3_32b, bf16, ranks, positions, printed):
    """Qwen3-32B on vLLM 0.10.0: 15.4115 GiB a rank of 4 (YaRN to 131,072 positions), 7.6871 of 8: more than a
    plain division gives."""
    model = replace(qwen3_32b, max_model_len=positions)
    terms = weights_per_rank(model, bf16, tensor_parallel_size=ranks)
    assert len(terms) == ranks
    assert gib(terms[0]) == pytest.approx(printed, rel=3e-4)
    assert gib(terms[0]) > checkpoint_bytes(model, bf16) / ranks / GIB


def test_awq_keeps_embedding_head_and_scales(llama_8b, awq):
    """5.74 GB: 6.98e9 quantised weights x (4 + 20/128) bits and 1.05e9 x 16 bits."""
    quantised = 32 * (4096 * (4096 * 2 + 1024 * 2) + 3 * 4096 * 14336)
    rest = 8_030_261_248 - quantised
    assert checkpoint_bytes(llama_8b, awq) == quantised * (4 + 20 / 128) / 8 + rest * 2


def test_stored_bytes_win_over_the_formula(llama_8b, bf16):
    stored = replace(llama_8b, stored_bytes=16_060_522_496 + 10**9)
    assert checkpoint_bytes(stored, bf16) == stored.stored_bytes
    more = weights_per_rank(stored, bf16)[0].bytes.value - weights_per_rank(llama_8b, bf16)[0].bytes.value
    assert more == pytest.approx(10**9, rel=0.05)


def test_pipeline_stages_hold_everything_once(llama_8b, bf16):
    stages = weights_per_rank(llama_8b, bf16, pipeline_parallel_size=3)
    whole = weights_per_rank(llama_8b, bf16)[0].bytes.value
    assert sum(term.bytes.value for term in stages) == pytest.approx(whole, rel=0.01)


def test_a_tied_head_is_stored_once_and_twice_over_a_pipeline(llama_8b, bf16):
    tied = read_model_config({**LLAMA_8B, "tie_word_embeddings": True}, name="tied", source="test")
    embedding = 128256 * 4096 * 2
    assert checkpoint_bytes(llama_8b, bf16) - checkpoint_bytes(tied, bf16) == embedding
    last = weights_per_rank(tied, bf16, pipeline_parallel_size=2)[1].bytes.value
    assert last == weights_per_rank(llama_8b, bf16, pipeline_parallel_size=2)[1].bytes.value


def test_lora_slots_are_inside_the_weights(bf16):
    """Llama-3.2-3B at rank 64: 6.2473 GiB printed against 6.016 without (0.23 GiB)."""
    small = read_model_config(
        {**LLAMA_8B, "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 24,
         "num_hidden_layers": 28, "tie_word_embeddings": True}, name="Llama-3.2-3B", source="test",
    )  # fmt: skip
    plain = gib(weights_per_rank(small, bf16)[0])
    slots = gib(weights_per_rank(small, bf16, adapters=AdapterSlots(1, 64))[0])
    assert plain == pytest.approx(6.016, abs=1e-3)
    assert slots == pytest.approx(6.2473, abs=0.03)


def test_the_last_stages_layers_are_the_fewest():
    assert [len(stage) for stage in stage_layers(62, 4)] == [15, 16, 16, 15]
    assert [len(stage) for stage in stage_layers(80, 4)] == [20] * 4
    assert [len(stage) for stage in stage_layers(62, 4, rest_last=True)] == [15, 15, 15, 17]


@given(st.integers(1, 200), st.integers(1, 16))
def test_every_layer_is_on_one_stage(layers, stages):
    found = stage_layers(layers, stages)
    assert [layer for stage in found for layer in stage] == list(range(layers))


@given(st.integers(1, 10**10))
def test_the_allocator_never_takes_less(size):
    taken = allocated_bytes(size)
    assert size <= taken <= size + 1.05 * MIB


def test_large_tensors_are_not_split_by_newer_loaders():
    """53.5 MiB: half a MiB is kept of a split, 1.5 MiB of none."""
    size = int(52.5 * MIB)
    assert allocated_bytes(size) == size
    assert allocated_bytes(size, unsplit=True) == 54 * MIB
    assert allocated_bytes(int(53.5 * MIB)) == 54 * MIB


def test_gpt_oss_experts_with_their_padding(bf16):
    """gpt-oss-120b on one H100: 64.38 GiB printed; on paper 60.8. 20b through Marlin: 13.72."""
    expert = Storage(4, group_size=32, scale_bits=8)
    mxfp4 = QuantizationFormat("mxfp4", "MXFP4", {Role.EXPERT: expert}, "bf16")
    for layers, many, padding, printed in (
        (36, 128, ExpertPadding(inputs=256), 64.38),
        (24, 32, ExpertPadding(inner=128, hidden=256), 13.72),
    ):
        config = {
            "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "head_dim": 64,
            "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 201088,
            "num_hidden_layers": layers, "num_local_experts": many, "num_experts_per_tok": 4,
            "max_position_embeddings": 131072, "sliding_window": 128, "torch_dtype": "bfloat16",
            "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
        }  # fmt: skip
        model = read_model_config(config, name="gpt-oss", source="test")
        assert gib(weights_per_rank(model, mxfp4, padding=padding)[0]) == pytest.approx(printed, rel=0.005)


def test_scales_of_a_matrix():
    grouped = Storage(4, group_size=128, scale_bits=16, zero_bits=4, input_bits=32)
    assert stored_bytes((256, 512), grouped, "bf16") == 256 * 512 / 2 + 256 * 4 * 20 / 8 + 512 * 4
    block = Storage(8, scale_bits=32, block=(128, 128))
    assert stored_bytes((3, 200, 256), block, "bf16") == 3 * (200 * 256 + 2 * 2 * 4)
    assert stored_bytes((4096,), grouped, "bf16") == 8192


_SEEING = [entry for entry in all_entries() if "vision_config" in entry.config]


@pytest.mark.parametrize("entry", _SEEING, ids=lambda entry: entry.id.rpartition("/")[2])
def test_one_gpu_holds_no_less_than_the_checkpoint(entry, bf16):
    """Whatever a kernel merges: Qwen3-VL has four mergers of the same names, and two tensors of one shape each."""
    model = read_model_config(entry.config, name=entry.id, source="test", task=entry.task)
    own = tuple(replace(group, own_storage=None) for group in model.parameters if not group.host)
    plain = replace(model, quantization="", stored_bytes=None, parameters=own)
    assert weights_per_rank(plain, bf16)[0].bytes.value >= checkpoint_bytes(plain, bf16)
