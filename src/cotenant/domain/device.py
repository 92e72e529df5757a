"""A card, as a plan and its migration name it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SLICE = re.compile(r":[1-7]g\.[0-9]+gb\Z")


@dataclass(frozen=True, slots=True)
class Device:
    """One card of the plan: the `index`-th card of node `node`, of the fleet's offer number `offer`.

    Nodes are numbered through all offers, so (node, index) is unique.
    """

    type: str
    node: int
    index: int
    offer: int

    @property
    def label(self) -> str:
        """What people read: type, node and card, ``L4 #0.1``."""
        return f"{self.type} #{self.node}.{self.index}"

    @property
    def is_slice(self) -> bool:
        """Whether it is a MIG slice, which no index names to an engine (``A100-80GB-SXM:3g.40gb``)."""
        return _SLICE.search(self.type) is not None
