"""Predicted against measured memory of real llama-servers on a processor, over types of cache, slots and shapes.

Weights and cache by the server's own log, the total by the kernel (RssAnon + RssFile of its process) after a
prompt of two micro-batches in every slot. An error is a share of what was measured; the worst one counts, the
median is beside it. Calibrated: factors by model family from every other configuration, judged on the rest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median

from bench.live_case import free_port
from bench.live_models import write
from bench.table import CannotRunError, Row, measured
from cotenant.domain.calibration import Factor
from cotenant.domain.estimate import Estimate
from cotenant.domain.running import Launch
from cotenant.domain.verification import Ask
from cotenant.edge.engines import programs
from cotenant.edge.verifying.engine import LiveEngine
from cotenant.edge.verifying.load import HttpLoad
from cotenant.verification import terms
from cotenant.verification.fit import factor

BATCH = 64
_REACH = {"weights_error": "<= 1", "kv_error": "<= 1", "total_error": "<= 5", "total_error_calibrated": "<= 2"}
_PLAIN: dict[str, object] = {"ctx_size": 1024, "parallel": 1}
_OPTIONS: tuple[dict[str, object], ...] = (
    _PLAIN,
    _PLAIN | {"ctx_size": 4096},
    _PLAIN | {"cache_type_k": "q8_0", "cache_type_v": "q8_0"},
    _PLAIN | {"ctx_size": 2048, "parallel": 4},
    _PLAIN | {"ctx_size": 2048, "parallel": 4, "kv_unified": True},
)
_RANDOM: dict[str, tuple[dict[str, object], ...]] = {
    "qwen3": _OPTIONS[:2],
    "gemma3": (_OPTIONS[1], _OPTIONS[1] | {"swa_full": True}),
    "qwen35": (_OPTIONS[0], _OPTIONS[3]),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One configuration: bytes predicted and measured by term, runtime and total included."""

    name: str
    family: str
    predicted: Mapping[str, int]
    found: Mapping[str, int]

    def error(self, term: str, scaled: int | None = None) -> float:
        """Percent of what was measured."""
        expected = self.predicted[term] if scaled is None else scaled
        return 100 * abs(expected - self.found[term]) / self.found[term]


def rows(program: Path | None, models: str) -> list[Row]:
    """The four rows; without a server and its models the reason."""
    return [measured(name, "%", reach, partial(_row, name, program, models)) for name, reach in _REACH.items()]


def _row(name: str, program: Path | None, models: str) -> tuple[float, Mapping[str, object]]:
    found = measurements(program, models)
    if name == "total_error_calibrated":
        return calibrated(found)
    term = {"weights_error": "weights", "kv_error": "kv_cache", "total_error": "total"}[name]
    errors = {one.name: one.error(term) for one in found}
    worst = max(errors, key=lambda key: errors[key])
    return errors[worst], {
        "median": round(median(errors.values()), 3),
        "configurations": len(found),
        "worst": worst,
    }


def calibrated(found: Sequence[Measured]) -> tuple[float, Mapping[str, object]]:
    """Fitted on every other configuration of each family, judged on the others."""
    errors: dict[str, float] = {}
    fitted = 0
    for family in dict.fromkeys(one.family for one in found):
        mine = [one for one in found if one.family == family]
        learnt, judged = mine[::2], mine[1::2]
        fitted += len(learnt)
        by_term = {
            term: factor(term, [(float(one.found[term]), float(one.predicted[term])) for one in learnt])
            for term in ("runtime",)
        }
        errors |= {one.name: one.error("total", _scaled(one, by_term)) for one in judged}
    if not errors:
        raise CannotRunError("no family has two configurations")
    worst = max(errors, key=lambda key: errors[key])
    return errors[worst], {
        "median": round(median(errors.values()), 3), "fitted": fitted, "judged": len(errors), "worst": worst
    }  # fmt: skip


def _scaled(one: Measured, by_term: Mapping[str, Factor]) -> int:
    return sum(
        round(size * by_term[name].value) if name in by_term else size
        for name, size in one.predicted.items()
        if name != "total"
    )


@cache
def measurements(program: Path | None, models: str) -> tuple[Measured, ...]:
    """All configurations, each server started, asked once and stopped. Raises CannotRunError."""
    files = [Path(one) for one in models.split(",") if one]
    if program is None or not files:
        raise CannotRunError("needs --llama-server PROGRAM and --models A.gguf,B.gguf")
    programs.tell({"llama.cpp": str(program)})
    with tempfile.TemporaryDirectory() as folder:
        cases = [(file, options) for file in files for options in _OPTIONS]
        for kind, each in _RANDOM.items():
            path = write(Path(folder), kind)
            cases += [(path, options) for options in each]
        return tuple(_measure(file, options, Path(folder) / f"{n}.log") for n, (file, options) in enumerate(cases))


def _measure(file: Path, options: Mapping[str, object], log: Path) -> Measured:
    import cotenant

    told = {**options, "n_gpu_layers": 0, "ubatch_size": BATCH, "batch_size": BATCH}
    if kind := programs.kind("llama.cpp"):
        told["program"] = kind
    expected = cotenant.estimate(str(file), gpu="RTX-3090", engine="llama.cpp", options=told, calibration=False)
    launch = Launch(
        "one", "one", "llama.cpp", str(expected.engine_version), str(file), expected.settings, free_port(),
        measured=True,
    )  # fmt: skip
    engine = LiveEngine(launch, log=log, device_bytes=lambda _: None, start_s=180)
    try:
        engine.start()
        load = HttpLoad({"one": engine}, seed=1, vocabulary={"one": expected.model.vocab_size})
        loaded = engine.reading()
        slots = expected.settings.max_num_seqs or 1
        asked = [Ask("one", 2 * BATCH, 8)] * slots  # all at once: every slot is used
        replies, readings, _ = load.send(asked, concurrency={"one": slots}, stop=lambda *_: "")
        for reply in replies:
            if reply.error:
                raise CannotRunError(f"{file.name}: {reply.error}")
        peak = max((one for _, one in readings), key=lambda one: one.total_bytes)
        printed = terms.printed(engine.log())
    finally:
        engine.stop()
    found = {name: one.bytes for name, one in printed.items()}
    found["total"] = max(peak.total_bytes, loaded.total_bytes)
    found["runtime"] = found["total"] - sum(found[name] for name in ("weights", "kv_cache", "activations"))
    name = " ".join([file.stem, *(f"{key}={value}" for key, value in options.items())])
    return Measured(name, expected.model.family, _predicted(expected), found)


def _predicted(expected: Estimate) -> dict[str, int]:
    host = expected.host
    if host is None or host.runtime is None:
        raise CannotRunError("nothing of it would be in host memory")
    parts = {"weights": host.weights, "kv_cache": host.kv_cache, "activations": host.compute}
    parts["runtime"] = host.runtime.value
    return {**parts, "total": sum(parts.values())}
