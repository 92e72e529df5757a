"""Single steps: `model,device,tp,input_len,batch,prefill_s,decode_step_s`, one measured configuration a line."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median

from bench.table import Row, measured
from cotenant.catalogue.gpus import find_gpu
from cotenant.catalogue.models import find_entry
from cotenant.errors import CotenantError
from cotenant.estimation.roofline import Roofline
from cotenant.estimation.step_time import roofline
from cotenant.readers.model_config import read_model_config

_CARDS = {"A100": "A100-80GB-SXM", "H100": "H100-SXM", "H20": "H20", "A10": "A10", "V100": "V100-SXM2-32GB"}
_MODELS = {
    "llama2_7b": "meta-llama/Llama-2-7b-chat-hf",
    "llama2_13b_chat": "meta-llama/Llama-2-13b-chat-hf",
    "llama3-8b": "meta-llama/Meta-Llama-3-8B-Instruct",
    "qwen2_5_7b": "Qwen/Qwen2.5-7B-Instruct",
    "qwen1.5-4b-chat": "Qwen/Qwen1.5-4B-Chat",
    "qwen1.5-7b-chat": "Qwen/Qwen1.5-7B-Chat",
    "qwen1.5-14b": "Qwen/Qwen1.5-14B-Chat",
    "qwen1.5-14b-chat": "Qwen/Qwen1.5-14B-Chat",
    "qwen1_5_14b_chat": "Qwen/Qwen1.5-14B-Chat",
    "qwen1_5_moe_a2_7b_chat": "Qwen/Qwen1.5-MoE-A2.7B-Chat",
    "qwen-1.8b-chat": "Qwen/Qwen1.5-1.8B-Chat",
    "internlm2_5_7b_chat": "internlm/internlm2_5-7b-chat",
    "baichuan2-7b-chat": "baichuan-inc/Baichuan2-7B-Chat",
    "baichuan2-13b-chat": "baichuan-inc/Baichuan2-13B-Chat",
    "baichuan2_13b_chat": "baichuan-inc/Baichuan2-13B-Chat",
    "yi1_5_6b_chat": "01-ai/Yi-1.5-6B-Chat",
    "yi1_5_9b_chat": "01-ai/Yi-1.5-9B-Chat",
    "yi-6b": "01-ai/Yi-1.5-6B-Chat",
}


@dataclass(frozen=True, slots=True)
class Steps:
    """Errors of decode steps and prefills, and lines left out by reason."""

    decode: list[float]
    prefill: list[float]
    left_out: Counter[str]


def step_rows(path: Path) -> list[Row]:
    """Median errors with the constants in the package; the file names no engine, so vLLM's overhead is taken."""
    found = read_steps(path)
    left = dict(found.left_out)
    return [
        measured(
            "decode_step_median", "", "", lambda: (median(found.decode), {"rows": len(found.decode), **left})
        ),
        measured("prefill_median", "", "", lambda: (median(found.prefill), {"rows": len(found.prefill)})),
    ]


def read_steps(path: Path) -> Steps:
    """|ours / measured - 1| of every line that can be answered."""
    found = Steps([], [], Counter())
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            times = _times(line["model"], line["device"], int(line["tp"]))
            if isinstance(times, str):
                found.left_out[times] += 1
                continue
            batch, tokens = int(line["batch"]), int(line["input_len"])
            prefill = times.prefill_s(batch * tokens, batch * tokens**2)
            found.prefill.append(abs(prefill / float(line["prefill_s"]) - 1))
            decode = times.decode_step_s(batch, batch * tokens)
            found.decode.append(abs(decode / float(line["decode_step_s"]) - 1))
    return found


@lru_cache(maxsize=256)
def _times(model: str, device: str, ranks: int) -> Roofline | str:
    """The roofline, or why there is none."""
    if device.endswith("(sim)"):
        return "simulated, not measured"
    entry = find_entry(_MODELS.get(model, model))
    if entry is None:
        return "model not in the catalogue"
    try:
        spec = read_model_config(entry.config, name=model, source=entry.config_source)
        return roofline(spec, find_gpu(_CARDS.get(device, device)), engine="vllm", tensor_parallel_size=ranks)
    except CotenantError:
        return "card not in the catalogue"
