"""Token-level scheduling of many models on few cards (Aegaeon, SOSP '25): groups that read, turns that decode."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.policy.kinds import Ints


def group_to_join(models: Ints, tokens: Ints, groups: int, model: int, wanted: int, limit: int) -> int:
    """The first group of that model that `wanted` more tokens fit into; `groups` where there is none."""
    for index in range(groups):
        if models[index] == model and tokens[index] + wanted <= limit:
            return index
    return groups


def turn_seconds(steps_s: Sequence[float], switches_s: float, target_s: float, longest_s: float) -> list[float]:
    """How long each batch decodes in its turn of a round, so that all fall behind their target equally little.

    With n = target / step, what a batch gains on its readers while it decodes, a round of turns q costs each
    reader sum(q) + `switches_s` seconds and gives n q / target tokens; alpha = max(switches / (min n x longest) +
    sum 1/n, 1/2) is what is lacking, and q = switches / (n (alpha - sum 1/n)).
    """
    ahead = [target_s / step for step in steps_s]
    needed = sum(1 / one for one in ahead)
    alpha = max(switches_s / min(ahead) / longest_s + needed, 0.5)
    return [switches_s / (one * (alpha - needed)) for one in ahead]


def urgency(due: int, now: int, lost: int) -> int:
    """When a token counts as due that was due at `due`: one that is late already counts as due `lost` from now,
    and the longer the later, so that requests which cannot be saved do not take others down with them."""
    return due if due >= now else now + lost + (now - due)


def most_urgent(due: Ints, batches: int) -> int:
    """The batch whose next token is due first; of equals the first."""
    found = 0
    for index in range(1, batches):
        if due[index] < due[found]:
            found = index
    return found


def may_yield(due: int, other_due: int, now: int, other_switch: int, ran: int, least: int) -> bool:
    """Whether a batch gives its card to another one: it has run for `least`, the other is due sooner than itself,
    and no later than when it could have been switched in."""
    return ran >= least and other_due < due and other_due <= now + other_switch
