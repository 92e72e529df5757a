"""`cotenant plan` as a user runs it: a process of its own on a drawn fleet file, with what it took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from bench.drawn_requests import drawn_requests
from bench.table import CannotRunError


@dataclass(frozen=True, slots=True)
class Planned:
    """The whole command: seconds on the wall and of all its processes' processors, MiB of its largest process, and
    the plan that it wrote."""

    seconds: float
    cpu_s: float
    largest_mib: float
    plan: Mapping[str, Any]

    @property
    def words(self) -> dict[str, object]:
        """What a row tells beside its value."""
        cost, bound = self.plan["objective_value"], self.plan["lower_bound"]
        return {
            "cost": f"{cost:.2f} >= {bound:.2f}",
            "wall_s": round(self.seconds, 1),
            "cpu_s": round(self.cpu_s, 1),
            "largest_process_mib": round(self.largest_mib),
        }


@cache
def planned(models: int, types: int, seed: int) -> Planned:
    """Reading, sizing, packing, checking and writing of `drawn_requests`, without a replay."""
    with TemporaryDirectory() as folder:
        fleet, plan = Path(folder) / "fleet.json", Path(folder) / "plan.json"
        fleet.write_text(json.dumps(drawn_requests(models, types, seed)), encoding="utf-8")
        command = [sys.executable, "-m", "cotenant.cli", "plan", str(fleet), "--json", "-o", str(plan)]
        start = perf_counter()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = perf_counter() - start
        if process.returncode != 0:
            raise CannotRunError(f"planning {models} models ended with exit status {process.returncode}")
        found = json.loads(plan.read_text(encoding="utf-8"))
    return Planned(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, found)
