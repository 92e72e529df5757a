"""Measurements that the user keeps: one JSON file each in `measurements/` of the data folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from cotenant.domain.measurement import Measurement
from cotenant.edge.logs import measurement_name
from cotenant.edge.store import data_dir, write_json
from cotenant.report.document import header
from cotenant.report.explain_document import measurement_document


def measurements_dir() -> Path:
    """``$XDG_DATA_HOME/cotenant/measurements``. The folder need not exist."""
    return data_dir() / "measurements"


def save_measurement(found: Measurement) -> Path:
    """Keep `found`; the same measurement again replaces itself. Raises InputError when that fails."""
    from cotenant.catalogue import VERSION

    measured = measurement_document(found)
    digest = hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()
    path = measurements_dir() / measurement_name(found.model, found.engine, digest)
    write_json(path, {**header("measurement", catalogue=VERSION, input_hash=digest[:16]), "measured": measured})
    return path
