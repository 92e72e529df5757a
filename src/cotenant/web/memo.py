"""Answers to whole questions, kept by value: what was planned once is not planned again for the next who asks.

Plans and replays follow from the question alone (seeds are part of it), from the release, and from what the user's
own folders hold: cards, prices, models, calibrations. The key holds all of these that can change while we run.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from cotenant.web.stamp import own_stamp


class Memo:
    """The newest answers, of `most_bytes` together."""

    def __init__(self, most_bytes: int = 64 * 2**20) -> None:
        self._most_bytes, self._size = most_bytes, 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def find(self, key: str | None) -> bytes | None:
        """The answer to the question of that key, where it is kept."""
        if key is None or key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def keep(self, key: str | None, answer: bytes) -> None:
        """Remember an answer, and let go of the oldest ones."""
        if key is None or key in self._kept:
            return
        self._kept[key] = answer
        self._size += len(answer)
        while self._size > self._most_bytes:
            self._size -= len(self._kept.popitem(last=False)[1])


def question_key(kind: str, asked: Mapping[str, Any]) -> str | None:
    """The same for the same question asked on the same day of the user's folders; None where the answer depends on
    more: a search that is stopped by the clock."""
    if asked.get("time_limit") is not None:
        return None
    said = {name: value for name, value in asked.items() if value is not None}
    return sha256(json.dumps([kind, said, own_stamp()], sort_keys=True).encode()).hexdigest()
