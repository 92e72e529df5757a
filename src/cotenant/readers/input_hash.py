"""One hash for one question, however it was written down."""

from __future__ import annotations

import hashlib
import json


def input_hash(value: object) -> str:
    """sha256 of the canonical JSON of `value`: sorted keys, no spaces."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
