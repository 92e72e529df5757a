"""Whether replicas fit a card while they load, one after another: the one place of that rule for the search.

Replica i holds claim c_i for good and c_i + o_i while it loads, o_i >= 0 its overshoot (a checkpoint read before
it is quantised, a tensor on its way). Of M bytes, in some order of starts, k fits where

    sum of c_j over those before k  +  c_k + o_k  <=  M

The order of falling overshoot is as good as any. Let a start right before b, H held before both, o_a < o_b, and
let both fit: H + c_a + c_b + o_b <= M. With b first, b needs H + c_b + o_b, which is less; then a needs H + c_b +
c_a + o_a, which is less too; nobody else sees a difference. So swaps of neighbours turn any order that fits into
the sorted one. Among equal overshoots the last one holds the most. Hence a set fits in some order if and only if

    sum of c_j over all j with o_j >= o_k  +  o_k  <=  M            for each k

which names no order, is linear in who is present (`packing`), and stays true when somebody leaves. Overshoots do
not depend on the card, so one order serves all cards of a fleet (`start_key`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def may_join(claims: Any, overshoots: Any, count: int, claim: int, overshoot: int, most: int) -> bool:
    """Whether one more fits beside the first `count`, which fit, in some order of starts within `most` bytes.

    Runs on lists and, compiled, on arrays (`pattern_core`).
    """
    held = claim + overshoot
    for one in range(count):
        if overshoots[one] >= overshoot:
            held += claims[one]
    if held > most:
        return False
    for one in range(count):
        if overshoots[one] > overshoot:
            continue  # starts before the new one and does not see it
        held = claim + overshoots[one]
        for other in range(count):
            if overshoots[other] >= overshoots[one]:
                held += claims[other]
        if held > most:
            return False
    return True


def may_load(claims: Sequence[int], overshoots: Sequence[int], most: int) -> bool:
    """Whether all of them fit in some order of starts within `most` bytes."""
    pairs = enumerate(zip(claims, overshoots, strict=True))
    return all(may_join(claims, overshoots, place, *pair, most) for place, pair in pairs)


def start_key(claim_bytes: int, load_peak_bytes: int) -> tuple[int, int]:
    """Sorts by falling overshoot, then the larger first."""
    return claim_bytes - load_peak_bytes, -claim_bytes
