"""A verification as its JSON document (`cotenant/verify/1`)."""

from __future__ import annotations

from dataclasses import asdict

from cotenant.domain.calibration import CalibrationProfile
from cotenant.domain.verification import Point, Reading, ReplicaVerified, Term, Verification
from cotenant.report.document import Document, header


def verify_document(found: Verification, *, catalogue: str, calibration: str | None = None) -> Document:
    """Everything but the readings over time, of which the tides are given."""
    return {
        **header("verify", catalogue=catalogue, input_hash=found.input_hash, calibration=calibration),
        "holds": found.holds,
        "seed": found.seed,
        "stopped": found.stopped or None,
        "findings": [
            {"check": one.check, "replica": one.replica or None, "verdict": str(one.held), "text": one.text}
            for one in found.findings
        ],
        "replicas": [_replica(one) for one in found.replicas],
        "tides": {
            name: {"low": {"at_s": low[0], "bytes": low[1]}, "high": {"at_s": high[0], "bytes": high[1]}}
            for name, (low, high) in found.tides.items()
        },
        "calibrations": [profile_document(one) for one in found.profiles],
        "warnings": list(found.warnings),
    }


def profile_document(profile: CalibrationProfile) -> Document:
    """What was fitted: factors on what is estimated without, each with its interval."""
    return {
        "engine": f"{profile.engine}@{profile.version}",
        "gpu": profile.gpu,
        "family": profile.family,
        "provenance": profile.provenance,
        "factors": {name: asdict(one) for name, one in sorted(profile.factors.items())},
    }


def _replica(one: ReplicaVerified) -> Document:
    return {
        "id": one.id,
        "model": one.model,
        "engine": f"{one.engine}@{one.version}",
        "gpu": one.gpu,
        "family": one.family,
        "limits": {"concurrency": one.limit_concurrency, "tokens": one.limit_tokens},
        "terms": {term.name: _term(term) for term in one.terms},
        "ttft_s": None if one.ttft_s is None else list(one.ttft_s),
        "tpot_s": None if one.tpot_s is None else list(one.tpot_s),
        "memory": {name: _reading(reading) for name, reading in one.readings.items()},
        "points": [_point(point) for point in one.points],
    }


def _term(term: Term) -> Document:
    expected = term.predicted
    return {
        "predicted_bytes": None if expected is None else expected.value,
        "interval": None if expected is None else [expected.low, expected.high],
        "measured_bytes": term.measured,
        "verdict": str(term.held),
        "source": term.source,
    }


def _reading(reading: Reading) -> Document:
    return {
        "total_bytes": reading.total_bytes,
        "anonymous_bytes": reading.anonymous_bytes,
        "file_bytes": reading.file_bytes,
        "model_file_bytes": reading.model_file_bytes,
        "model_shared_bytes": reading.model_shared_bytes,
        "device_bytes": reading.device_bytes,
    }


def _point(point: Point) -> Document:
    return {
        "concurrency": point.concurrency,
        "input_tokens": point.input_tokens,
        "output_tokens": point.output_tokens,
        "answered": point.answered,
        "errors": point.errors,
        "first_error": point.first_error or None,
        "ttft_s": None if point.ttft_s is None else list(point.ttft_s),
        "tpot_s": None if point.tpot_s is None else list(point.tpot_s),
        "total_bytes": None if point.peak is None else point.peak.total_bytes,
        "kv_used": point.kv_used,
        "preemptions": point.preemptions,
        "stopped": point.stopped or None,
    }
