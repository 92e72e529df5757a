"""A replay as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from cotenant.domain.replay import Percentiles, Replay, Timeline
from cotenant.report.document import Document, header


def replay_document(replay: Replay, *, catalogue: str) -> Document:
    """`cotenant/simulate/1`: models and replicas with their figures; seconds, shares 0..1."""
    return {
        **header("simulate", catalogue=catalogue, input_hash=replay.input_hash, calibration=replay.calibration),
        "seed": replay.seed,
        "policy": replay.policy,
        "duration_s": replay.duration_s,
        "end_s": replay.end_s,
        "slo_held": replay.slo_held,
        "models": [
            {
                **{
                    name: value
                    for name, value in asdict(model).items()
                    if name not in ("ttft_s", "tpot_s", "e2e_s", "at_percentile")
                },
                "ttft_s": _seconds(model.ttft_s),
                "tpot_s": _seconds(model.tpot_s),
                "e2e_s": _seconds(model.e2e_s),
                "at_percentile": None
                if model.at_percentile is None
                else {
                    "ttft_s": model.at_percentile[0],
                    "tpot_s": model.at_percentile[1],
                },
            }
            for model in replay.models
        ],
        "replicas": [{**asdict(replica), "cards": list(replica.cards)} for replica in replay.replicas],
        "timeline": None if replay.timeline is None else _timeline(replay.timeline),
        "warnings": list(replay.warnings),
    }


def _timeline(timeline: Timeline) -> Document:
    """Equal parts of `part_s` seconds: means by model, bytes by replica; who had the cards meanwhile."""
    return {
        "part_s": timeline.part_s,
        "capacity_bytes": dict(timeline.capacity_bytes),
        "models": [asdict(one) for one in timeline.models],
        "memory": [asdict(one) for one in timeline.memory],
        "starved": [asdict(one) for one in timeline.starved],
    }


def comparison_document(replays: Sequence[Replay], *, catalogue: str) -> Document:
    """Several policies on the same requests: `policies[]`, each as `replay_document` has it."""
    return {
        **header("simulate", catalogue=catalogue, input_hash=replays[0].input_hash),
        "policies": [replay_document(replay, catalogue=catalogue) for replay in replays],
    }


def _seconds(found: Percentiles | None) -> Document | None:
    return None if found is None else asdict(found)
