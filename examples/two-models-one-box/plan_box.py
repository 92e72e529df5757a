"""Two small models on a processor as a plan: what each takes, byte by byte, and a budget for one at a time.

python plan_box.py plan.json smollm=FILE.gguf gemma=FILE.gguf
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from pathlib import Path

import cotenant
from cotenant.catalogue import VERSION
from cotenant.domain.device import Device
from cotenant.domain.estimate import Estimate
from cotenant.domain.plan import GpuPlan, GpuShare, Plan, ReplicaPlan
from cotenant.report.document import plan_document
from cotenant.units import MIB, format_bytes

ENGINE = "llama.cpp"
OPTIONS = {"ctx_size": 2048, "parallel": 2, "n_gpu_layers": 0, "program": "wheel"}
BOX = Device(type="CPU", node=0, index=0, offer=0)
CARD = "RTX-3090"  # an estimate is asked beside a card; with no layer on it, all is in host memory


def replica(name: str, model: str, port: int) -> tuple[ReplicaPlan, GpuShare]:
    """A server on that port, and what it takes of this machine's memory."""
    found: Estimate = cotenant.estimate(model, gpu=CARD, engine=ENGINE, options=OPTIONS)
    host = found.host
    if host is None or host.runtime is None:
        raise SystemExit(f"{model}: nothing of it would be in host memory")
    one = ReplicaPlan(
        id=name, model=name, model_id=model, checkpoint=model, quantization="", engine=found.engine,
        engine_version=str(found.engine_version), settings=found.settings, devices=(BOX,), port=port, adapters=(),
        sharing="alone", start_order=0, command=(), environment={}, why="", runner_up="", kv_needed_bytes=0,
        kv_worst_case_bytes=host.kv_cache,
    )  # fmt: skip
    beside = host.runtime  # interpreter, libraries and vocabulary of one server, beside its buffers
    total = host.bytes + beside.high
    share = GpuShare(name, 0, total, host.weights, host.kv_cache, host.compute, beside.value, total)
    return one, share


def free_port(wanted: int) -> int:
    """That one, or any that is free where another program has it."""
    for port in (wanted, 0):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return int(one.getsockname()[1])
    raise SystemExit("no port of this machine is free")


def main(place: str, *models: str) -> None:
    """Write the plan; the budget holds the larger model, not both."""
    pairs = [text.partition("=") for text in models]
    made = [replica(name, file, free_port(18091 + number)) for number, (name, _, file) in enumerate(pairs)]
    shares = tuple(share for _, share in made)
    budget = max(share.claimed_bytes for share in shares) + 16 * MIB
    plan = Plan(
        feasible=True, replicas=tuple(one for one, _ in made), gpus=(GpuPlan(BOX, budget, 0, shares, None),),
        cost_per_hour=None, objective_value=1.0, lower_bound=1.0, gap=0.0, deterministic=True, headroom=0.0,
        naive=None,
    )  # fmt: skip
    Path(place).write_text(json.dumps(plan_document(plan, catalogue=VERSION), indent=1), encoding="utf-8")
    for share in shares:
        print(f"{share.replica}: {format_bytes(share.claimed_bytes)}")
    print(f"budget: {format_bytes(budget)}, for one of them at a time")


if __name__ == "__main__":
    main(*sys.argv[1:])
