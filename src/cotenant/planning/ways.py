"""What was found for one model: ways to serve it, what was refused, and what another way beats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cotenant.planning.problem import Candidate, Refusal


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that another one beats or equals in every respect."""

    candidate: Candidate
    by: Candidate


@dataclass(frozen=True, slots=True)
class Ways:
    """What was found for one model: the candidates, what was refused, with reasons, and what another one beats."""

    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]
    dropped: tuple[Dropped, ...] = ()

    def of(self, number: int) -> Ways:
        """The same for another model that asks for the same."""
        return Ways(
            candidates=tuple(replace(one, request=number) for one in self.candidates),
            refusals=tuple(replace(one, request=number) for one in self.refusals),
            dropped=tuple(
                Dropped(replace(one.candidate, request=number), replace(one.by, request=number))
                for one in self.dropped
            ),
        )


def sifted(found: Sequence[Candidate], refused: Sequence[Refusal]) -> Ways:
    """Ways without those that another beats, which are kept apart with the one that does."""
    kept = undominated(found)
    return Ways(kept, tuple(refused), tuple(_dropped(found, kept)))


def joined(parts: Sequence[Ways]) -> Ways:
    """What was found in several places, in their order."""
    return Ways(
        tuple(candidate for part in parts for candidate in part.candidates),
        tuple(refusal for part in parts for refusal in part.refusals),
        tuple(dropped for part in parts for dropped in part.dropped),
    )


def _dropped(found: Sequence[Candidate], kept: Sequence[Candidate]) -> Iterator[Dropped]:
    staying = set(map(id, kept))
    for one in found:
        if id(one) not in staying:
            yield Dropped(one, next(other for other in kept if _dominates(other, one)))


def undominated(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Without those that another beats or equals in every respect; of equals the first stays."""
    kept: list[Candidate] = []
    for one in candidates:
        if any(_dominates(other, one) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(one, other)]
        kept.append(one)
    return tuple(kept)


def _dominates(one: Candidate, other: Candidate) -> bool:
    """Whether `one` can take the place of `other` in any plan and leave it no worse.

    The same cards and group size at most as many groups, each no larger, no busier and no less patient, in a
    precision at least as good. One that reads fewer tokens a step never stands for one that reads more: where only
    the context is known nothing here times its prompts.
    """
    return (
        one.offer == other.offer
        and one.tensor_parallel_size == other.tensor_parallel_size
        and one.replicas <= other.replicas
        and one.claim_bytes <= other.claim_bytes
        and one.load_peak_bytes <= other.load_peak_bytes
        and one.busy <= other.busy
        and one.slack >= other.slack
        and one.quality_rank <= other.quality_rank
        and one.step_share >= other.step_share
    )
