# ruff: noqa: E501 - log lines are long
"""Engines told apart and refused, whatever stands around their lines."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.domain.measurement import Outcome
from cotenant.engines.logs import LOGS
from cotenant.engines.logs.line import without_optional
from cotenant.errors import CotenantError, FormatError, InputError
from cotenant.readers.logs.prefixes import entries
from tests.readers.logs import LOG_FOLDER, V0, one, read, values

PREFIXES = (
    "", "vllm-1  | ", "2026-04-19 12:09:31.717 | ", "2026-07-02T14:20:11.402013Z stdout F ",
    "Sep 18 21:40:02 gpu01 vllm-chat[5120]: ", "[pod/chat-6f7/vllm] ", "\x1b[1;36m(EngineCore_DP0 pid=271)\x1b[0;0m ",
    "vllm-1  | 2026-07-02T14:20:11Z \x1b[32m(EngineCore pid=271)\x1b[0m INFO 11-02 04:20:48 [gpu_worker.py:298] ",
)  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_prefixes_change_nothing(prefix: str, ending: str) -> None:
    lines = ("Model loading took 14.9889 GiB and 132.1 seconds", "Available KV cache memory: 4.75 GiB",
             "GPU KV cache size: 38,944 tokens")  # fmt: skip
    found = one("".join(prefix + line + ending for line in lines))
    assert values(found, "weights_gib", "available_kv_gib", "kv_cache_tokens") == [14.9889, 4.75, 38944]


@pytest.mark.parametrize("key", ["log", "message", "msg", "MESSAGE"])
def test_json_entries(key: str) -> None:
    lines = [json.dumps({key: f"\x1b[32mINFO\x1b[0m {line}\n", "stream": "stderr"}) for line in V0.splitlines()]
    found = one("\n".join(lines))
    assert values(found, "weights_gib", "available_kv_gib", "gpu_blocks") == [14.9595, 11.12, 5691]


def test_utf16_of_a_powershell_redirect() -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):  # with its mark, and without one
        assert one(V0.encode(encoding)).value("available_kv_gib") == 11.12


def test_containers_are_told_apart() -> None:
    mixed = []
    for a, b in zip(
        V0.splitlines(), V0.replace("14.9", "7.5").replace("11.12", "20.02").splitlines(), strict=True
    ):
        mixed += [f"chat-1   | {a}", f"embed-1  | {b}"]
    found = read("\n".join(mixed)).measurements
    assert [(m.source, m.value("available_kv_gib")) for m in found] == [("chat-1", 11.12), ("embed-1", 20.02)]


def test_processes_are_told_apart() -> None:
    """Two servers in one terminal: each worker belongs to the core that started last before it."""
    found = read(
        "(APIServer pid=100) INFO vLLM API server version 0.11.0\n"
        "(APIServer pid=200) INFO vLLM API server version 0.11.0\n"
        "(EngineCore_DP0 pid=110) INFO Initializing a V1 LLM engine (v0.11.0) with config: model='a/small'\n"
        "(EngineCore_DP0 pid=210) INFO Initializing a V1 LLM engine (v0.11.0) with config: model='a/large'\n"
        "(Worker_TP0 pid=220) INFO Model loading took 40.0 GiB and 3 seconds\n"
        "(Worker_TP0 pid=120) INFO Model loading took 1.0 GiB and 3 seconds\n"
        "(Worker_TP0 pid=120) INFO Available KV cache memory: 5.1 GiB\n"
        "(Worker_TP0 pid=220) INFO Available KV cache memory: 5.2 GiB\n"
    ).measurements
    assert [(m.model, m.value("weights_gib"), m.value("available_kv_gib")) for m in found] == [
        ("a/small", 1.0, 5.1), ("a/large", 40.0, 5.2),
    ]  # fmt: skip


def test_two_engines_that_nothing_tells_apart_are_refused() -> None:
    other = V0.replace("14.9595", "1.5").replace("14.96", "1.50").replace("11.12", "3.33")
    mixed = "\n".join(line for pair in zip(V0.splitlines(), other.splitlines(), strict=True) for line in pair)
    with pytest.raises(InputError, match="two vllm engines write into it") as refusal:
        read(mixed)
    assert "docker compose logs" in refusal.value.hint


def test_engines_of_two_kinds_are_both_reported() -> None:
    llama = (LOG_FOLDER / "llama-cpp.log").read_text("utf-8").splitlines()
    vllm = V0.splitlines()
    mixed = [line for pair in zip(llama, vllm, strict=False) for line in pair] + llama[len(vllm) :]
    found = {m.engine: m for m in read("\n".join(mixed)).measurements}
    assert found["vllm"].value("available_kv_gib") == 11.12
    assert sum(figure.value for figure in found["llama.cpp"].every("kv_buffer_mib", None)) == 256.0


def test_each_start_is_a_run_and_the_last_is_the_foremost() -> None:
    crash = V0.replace("11.12GiB", "0.40GiB") + "ERROR ValueError: No available memory for the cache blocks.\n"
    reading = read(crash + V0)
    assert [m.outcome for m in reading.measurements] == [Outcome.OOM, Outcome.FITS]
    assert reading.foremost.value("available_kv_gib") == 11.12
    assert reading.measurements[1].first_line == 8


def test_a_restarted_container_counts_its_processes_anew() -> None:
    start = (
        "(APIServer pid=1) INFO vLLM API server version 0.12.0\n"
        "(EngineCore_DP0 pid=215) INFO Initializing a V1 LLM engine (v0.12.0) with config: model='a/b'\n"
        "(Worker_TP0 pid=300) INFO Model loading took 7.6 GiB memory and 2 seconds\n"
    )
    end = "(Worker_TP0 pid=300) INFO Available KV cache memory: 60.1 GiB\n"
    killed, up = read(start + start.replace("7.6", "7.7") + end).measurements
    assert values(killed, "weights_gib", "available_kv_gib") == [7.6, None]
    assert values(up, "weights_gib", "available_kv_gib") == [7.7, 60.1]


def test_parts_of_lines_as_people_quote_them() -> None:
    """Without times and levels, the version after the figures: one run."""
    found = one("Model loading took 15.39 GiB memory and 1074.35 seconds\nAvailable KV cache memory: 5.24 GiB\n"
                "'gpu_memory_utilization': 0.88\nmax_seq_len=32768\ntensor_parallel_size=4\nLLM engine (v0.18.1)\n")  # fmt: skip
    assert found.engine_version == "0.18.1"
    assert dict(found.settings) == {
        "gpu_memory_utilization": 0.88, "max_model_len": 32768, "tensor_parallel_size": 4,
    }  # fmt: skip


def test_of_several_services_the_one_that_failed_is_the_foremost() -> None:
    bad = "ERROR ValueError: No available memory for the cache blocks.\n"
    text = "".join(f"bad-1  | {line}\n" for line in (V0 + bad).splitlines())
    text += "".join(f"good-1  | {line}\n" for line in V0.splitlines())
    assert read(text).foremost.source == "bad-1"


def test_what_users_wrote_is_no_log() -> None:
    said = "INFO Received request cmpl-1: prompt: 'Available KV cache memory: 1.00 GiB', params: SamplingParams(n=1)\n"
    assert one(said + V0).value("available_kv_gib") == 11.12


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", FormatError, "0 bytes without a line of an engine"),
        ("hello\nworld\n" * 50, FormatError, "without a line of an engine"),
        ("INFO uvicorn GET / 200\nFile \"/site-packages/vllm/v1/engine/core.py\"\n", InputError, "lines of vllm"),
        ("INFO 01-01 vLLM API server version 0.11.0\n", InputError, "lines of vllm, but none about memory"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", FormatError, "in which engine"),
    ],
)  # fmt: skip
def test_refusals(text: str, error: type[CotenantError], message: str) -> None:
    with pytest.raises(error, match=message) as refusal:
        read(text)
    assert refusal.value.hint


def test_binary_noise_is_refused_as_such() -> None:
    with pytest.raises(FormatError, match="binary data"):
        read(bytes(range(256)) * 4096)


def test_noise_around_lines_is_tolerated() -> None:
    noisy = b"\xff\xfe\x00\x01GARBAGE\x00\n".join(line.encode() + b"\n" for line in V0.splitlines())
    assert one(b"\x00\x80\n" + noisy).value("available_kv_gib") == 11.12


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_any_line_is_taken_apart(line: str) -> None:
    assert [entry.number for entry in entries(3, line)] in ([], *([3] * n for n in range(1, 301)))


def test_patterns_without_their_optional_parts() -> None:
    assert without_optional(r"a (?:b GiB)? c (d|e) f") == "a  c  f"
    assert without_optional(r"x (?P<y>[(\d]+ GiB) z") == r"x ?P<y>[(\d]+ GiB z"


@pytest.mark.parametrize("log", LOGS, ids=[log.engine or "torch" for log in LOGS])
def test_lines_are_sound(log: object) -> None:
    """Every pattern compiles, and what is searched for is never short enough to stand everywhere."""
    for line in log.lines:  # type: ignore[attr-defined]
        assert len(line.searched) >= 3, line
        assert isinstance(line.regex, re.Pattern)
