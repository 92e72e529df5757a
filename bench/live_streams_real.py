"""Short streams on two real llama-servers that are killed, stopped in their tracks (hung) or slowed meanwhile."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from pathlib import Path

from bench.live_case import MIB, Gateway, plan_document
from bench.live_real import needed
from bench.live_swaps import on_one_thread
from bench.live_troubled import Case, through

NAMES = ("alpha", "beta")
_PER_S = 4.0  # requests a second: a small model on a shared processor answers about so many short ones


def fail(one: Gateway, rng: random.Random) -> None:
    """A real engine is killed, hangs (SIGSTOP), or is slow (stopped half of the time for two seconds)."""
    pids = one.engines()
    if not pids:
        return
    pid, how = rng.choice(pids), rng.choice(("kill", "hang", "slow"))
    if how == "slow":
        for _ in range(4):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.25)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.25)
        return
    os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)


def on_servers(count: int, program: Path | None, models: str, seed: int = 0) -> dict[str, object]:
    """Streams on real engines, a budget for one of two models. Raises CannotRunError where none are given."""
    found, files = needed(program, models)
    with tempfile.TemporaryDirectory() as folder:
        document = plan_document(dict.fromkeys(NAMES, 400 * MIB), 500 * MIB, slots=4)
        for row, file in zip(document["replicas"], files, strict=False):
            place = (
                Path(folder) / f"{row['model']}.gguf"
            )  # a path of this run: so its engines are told from others
            place.symlink_to(file.resolve())
            row["checkpoint"] = str(place)
        server = on_one_thread(Path(folder), found)
        words = (
            "--engine-binary",
            f"llama.cpp={server}",
            "--residency",
            "2s",
            "--patience",
            "4s",
            "--drain",
            "5s",
        )
        one = Gateway(Path(folder), document, *words, "--quiet")
        case = Case(
            NAMES, deadline_s=60.0, per_s=_PER_S, most_tokens=6, gaps_s=(4.0, 12.0), fail=fail,
            restarts=1 if count >= 100 else 0, content="Hi",
        )  # fmt: skip
        return through(one, case, count, seed)[1]
