"""The ways to share cards that can be replayed, and which of them can be replayed of what: known before any is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from cotenant.domain.conditions import USUAL, Conditions
from cotenant.domain.fleet import ModelRequest
from cotenant.domain.plan import Plan
from cotenant.errors import CotenantError, InputError, InputErrors, UnsupportedError
from cotenant.simulation.disaggregated import DISAGGREGATED, check_split
from cotenant.simulation.hosting import Hosting
from cotenant.simulation.together import TOGETHER
from cotenant.simulation.tokenwise import TOKENWISE, check_pool
from cotenant.simulation.turns import SWAPS

AS_PLANNED = (*TOGETHER, DISAGGREGATED)
"""Policies that run a plan as it stands; the others plan each model as if alone."""
POLICIES = (*AS_PLANNED, *SWAPS, *TOKENWISE)
_ANY = f"one of {', '.join(POLICIES)}"


def check_policies(policies: Sequence[str], conditions: Conditions = USUAL) -> None:
    """Raises every refusal at once: policies that there are not, that are named twice, that do not go with the
    `conditions`. Before anything is planned for any of them."""
    faults = list(_faults(policies, conditions))
    if not policies:
        faults.append(InputError("no policy is named", hint=_ANY))
    if faults:
        raise faults[0] if len(faults) == 1 else InputErrors(faults)


def _faults(policies: Sequence[str], conditions: Conditions) -> Iterator[CotenantError]:
    for place, policy in enumerate(policies):
        if policy not in POLICIES:
            close = get_close_matches(policy.lower()[:60], POLICIES, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            yield InputError(f"no policy {policy[:60]!r}", hint=f"{meant}{_ANY}")
        elif policy in policies[:place]:
            yield InputError(f"{policy} is compared with itself", hint="name each policy once")
        else:
            try:
                check_conditions(conditions, policy, turns=False)
            except UnsupportedError as error:
                yield _of(policy, error)


def check_planned(
    policy: str, plan: Plan, requests: Sequence[ModelRequest], hostings: Sequence[Hosting], conditions: Conditions,
    cards: int = 0,
) -> None:  # fmt: skip
    """Raises UnsupportedError, which names the policy, where it cannot run this plan, of whose types there are
    `cards`: before any policy is replayed."""
    try:
        check_conditions(conditions, policy, bool(plan.turns))
        if policy == DISAGGREGATED:
            check_split(requests, hostings)
        if policy in TOKENWISE and hostings:
            closed = any(one.traffic.concurrent is not None for one in requests)
            check_pool(policy, plan, hostings, closed, cards)
    except UnsupportedError as error:
        raise _of(policy, error) from None


def _of(policy: str, error: UnsupportedError) -> UnsupportedError:
    """The refusal with the policy's name before it, where it does not begin with that."""
    named = error.message.startswith(policy)
    return error if named else UnsupportedError(f"{policy}: {error.message}", hint=error.hint)


def check_conditions(conditions: Conditions, policy: str, turns: bool) -> None:
    """Raises UnsupportedError for what the policy's scheduler does not know."""
    asked = conditions.timeout_s is not None or conditions.fails
    asked = asked or (conditions.dispatch, conditions.preempt) != (USUAL.dispatch, USUAL.preempt)
    asked = asked or conditions.swap_bytes is not None
    if policy in TOKENWISE and asked:
        raise UnsupportedError(
            f"{policy} has a scheduler of its own: no timeouts, failures, dispatch or preemption to choose",
            hint="take static, elastic or spatial",
        )
    plain = conditions.dispatch != "best-fit" and conditions.preempt == USUAL.preempt
    if policy == DISAGGREGATED and (turns or conditions.fails or conditions.swap_bytes is not None or not plain):
        raise UnsupportedError(
            "prefill and decode apart know no turns, failures, best fit or other preemption",
            hint="take static, elastic or spatial",
        )
    if conditions.fails and (turns or policy not in TOGETHER):
        raise UnsupportedError(
            "replicas that take turns in a card's memory cannot fail here",
            hint="take static, elastic or spatial, and a plan without turns",
        )
