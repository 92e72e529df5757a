"""The catalogue of cards: real figures, names as people write them, and strict rows."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.catalogue.gpus import KEYS, all_gpus, find_gpu, gpus_from
from cotenant.errors import CotenantError, InputErrors, UnknownGpuError
from cotenant.units import GIB, MIB


def test_at_least_35_cards_with_every_key_written_out() -> None:
    rows = json.loads(files("cotenant.catalogue").joinpath("gpus.json").read_text(encoding="utf-8"))
    assert len(all_gpus()) == len(rows) >= 35
    for row in rows:
        assert set(row) == set(KEYS), row["name"]
        assert row["sources"].get("spec"), row["name"]
        assert row["price"] is None or (row["price"]["date"] and row["price"]["source"])


def test_names_and_aliases_are_found_and_lead_to_one_card_each() -> None:
    for gpu in all_gpus():
        assert find_gpu(gpu.name) is gpu
        for alias in gpu.aliases:
            assert find_gpu(alias) is gpu, alias


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("a100-80gb-sxm", "A100-80GB-SXM"),
        ("a100_sxm_80gb", "A100-80GB-SXM"),
        ("RTX 4090", "RTX-4090"),
        ("rtx4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("Tesla T4", "T4"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"),
        ("NVIDIA H100 PCIe", "H100-80GB-PCIe"),
        ("l40s", "L40S"),
        ("AMD Instinct MI300X", "MI300X"),
        ("Gaudi 2", "Gaudi-2"),
    ],
)
def test_names_as_drivers_and_people_write_them(written: str, name: str) -> None:
    assert find_gpu(written).name == name


def test_an_ambiguous_name_lists_what_it_could_be() -> None:
    with pytest.raises(UnknownGpuError) as caught:
        find_gpu("A100")
    assert "A100-80GB-SXM" in caught.value.hint
    assert "A100-40GB-PCIe" in caught.value.hint


@pytest.mark.parametrize(("written", "hint"), [("RTX 4009", "RTX-4090"), ("MI300", "MI300X"), ("banana", "gpus")])
def test_an_unknown_name_hints_at_the_nearest(written: str, hint: str) -> None:
    with pytest.raises(UnknownGpuError) as caught:
        find_gpu(written)
    assert hint in caught.value.hint


def test_a100_80gb_has_both_capacities_as_public_logs_print_them() -> None:
    gpu = find_gpu("A100-80GB-SXM")
    assert gpu.driver_bytes.value == 81920 * MIB
    assert gpu.driver_bytes.is_exact
    assert gpu.cuda_measured
    assert 79.1 * GIB < gpu.cuda_bytes.low < 79.2 * GIB < gpu.cuda_bytes.high < 79.3 * GIB
    assert gpu.compute_capability == (8, 0)
    assert not gpu.has_native("fp8")
    assert gpu.memory_bandwidth == 2.039e12
    assert gpu.peak_flops["bf16"] == 312e12


@pytest.mark.parametrize(
    ("name", "native"), [("L4", True), ("H100-80GB-SXM", True), ("A10", False), ("T4", False)]
)
def test_fp8_is_native_from_ada_on(name: str, native: bool) -> None:
    assert find_gpu(name).has_native("fp8") is native


def test_fp4_is_native_on_blackwell_alone_among_nvidia_cards() -> None:
    cards = {gpu.architecture for gpu in all_gpus() if gpu.vendor == "NVIDIA" and gpu.has_native("fp4")}
    assert cards <= {"Blackwell", "Blackwell Ultra"}
    assert cards


def test_cuda_never_reports_more_than_the_driver_beyond_rounding() -> None:
    for gpu in all_gpus():
        assert gpu.cuda_bytes.low > 0, gpu.name
        assert gpu.cuda_bytes.low <= gpu.driver_bytes.high + 16 * MIB, gpu.name
        assert gpu.driver_bytes.value > 0.85 * gpu.cuda_bytes.value, gpu.name


def test_an_unmeasured_card_gets_the_gaps_of_its_like() -> None:
    """An H800 is a Hopper of 80 GB: the gap of its measured like is 438 to 1,103 MiB."""
    h800, h100 = find_gpu("H800-80GB-SXM"), find_gpu("H100-80GB-SXM")
    assert not h800.cuda_measured
    assert h800.cuda_bytes.low < h100.cuda_bytes.value < h800.cuda_bytes.high
    assert h800.cuda_bytes.high < h800.driver_bytes.value


def test_every_interval_of_an_estimated_card_is_wider_than_rounding() -> None:
    for gpu in all_gpus():
        if not gpu.cuda_measured and gpu.vendor == "NVIDIA":
            assert gpu.cuda_bytes.high - gpu.cuda_bytes.low > 50 * MIB, gpu.name


def test_a_user_sets_a_price_and_adds_a_card() -> None:
    mine = gpus_from(
        {
            "gpus": [
                {"name": "A100-80GB-SXM", "price": "$0.99/h"},
                {
                    "name": "Z9", "vendor": "NVIDIA", "architecture": "Hopper", "marketed_gb": 80,
                    "memory_bandwidth_gbs": 3000, "compute_capability": "9.0", "dense_tflops": {"bf16": 900},
                },
            ]
        }
    )  # fmt: skip
    assert find_gpu("a100 80gb sxm", mine).price_per_hour == 0.99
    assert find_gpu("a100 80gb sxm").price_per_hour != 0.99
    assert find_gpu("a100 80gb sxm", mine).cuda_bytes == find_gpu("a100 80gb sxm").cuda_bytes
    assert find_gpu("z-9", mine).peak_flops == {"bf16": 900e12}
    assert find_gpu("z-9", mine).cuda_bytes.low < find_gpu("z-9", mine).cuda_bytes.high <= 80 * GIB


def test_every_fault_of_a_users_file_has_its_path() -> None:
    rows = [
        {"name": "X", "driver_mib": -1, "memory_bandwidth_gbs": "fast", "priec": 1},
        {
            "name": "Y",
            "driver_mib": 1000,
            "memory_bandwidth_gbs": 10,
            "compute_capability": "eight",
            "price": 1.29,
        },
        {"name": "y", "memory_bandwidth_gbs": 10, "cuda_gib": {"low": 3, "high": 2, "measured": True}},
        7,
    ]
    with pytest.raises(InputErrors) as caught:
        gpus_from(rows)
    paths = {fault.path for fault in caught.value.faults()}
    assert {
        "$[0].driver_mib", "$[0].memory_bandwidth_gbs", "$[0].priec", "$[1].compute_capability", "$[1].price",
        "$[2].cuda_gib.high", "$[2].name", "$[3]",
    } <= paths  # fmt: skip


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner)
    ),
    max_leaves=12,
)


@given(_json)
def test_no_row_breaks_the_reader(value: object) -> None:
    with suppress(CotenantError):
        gpus_from(value)


@given(st.text(max_size=40))
def test_no_name_breaks_the_search(name: str) -> None:
    with suppress(UnknownGpuError):
        assert find_gpu(name) in all_gpus()


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("8xH100-80GB-SXM", "H100-80GB-SXM"),
        ("2x RTX 3090", "RTX-3090"),
        ("L20 48GB", "L20"),
        ("H20-3e 141GB", "H20-141GB"),
        ("H20 96GB", "H20-96GB"),
        ("RTX 5070", "RTX-5070"),
        ("RTX 4090 48GB", "RTX-4090-48GB"),
        ("B300 288GB", "B300-SXM"),
    ],
)
def test_a_count_and_a_size_are_read_and_another_variant_is_never_meant(written: str, name: str) -> None:
    assert find_gpu(written).name == name


def test_a_size_that_no_such_card_has_is_refused() -> None:
    with pytest.raises(UnknownGpuError):
        find_gpu("L4 80GB")
