"""One model on one offer in one precision: what all its sizes share, and how a size is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor as rounded_down

from cotenant.domain.demand import Demand
from cotenant.domain.fleet import GpuOffer, ModelRequest
from cotenant.engines.prompt_steps import splits_prompts
from cotenant.estimation.in_flight import Quick
from cotenant.estimation.lengths import length_model
from cotenant.estimation.roofline import Roofline
from cotenant.planning.problem import Floor, Refusal
from cotenant.planning.served import Served
from cotenant.planning.splits import Split
from cotenant.units import format_gib, format_seconds

MOST_REPLICAS = 64


@dataclass(frozen=True, slots=True)
class Case:
    """`number` and `offer_number` are places in the fleet; `pace` is how much slower than alone it is to run;
    `quick` does the sums of many demands; `step` the most tokens that one step reads (None: as the user says, else
    the engine); `visible` the share of a card that a smaller one must save."""

    number: int
    request: ModelRequest
    offer_number: int
    offer: GpuOffer
    headroom: float
    kv_overflow: float
    served: Served
    pace: float = 1.0
    quick: Quick | None = None
    step: int | None = None
    visible: float = 0.0

    @property
    def room_bytes(self) -> int:
        """What the headroom and others leave of one card."""
        return rounded_down(self.offer.gpu.cuda_bytes.value * (1 - self.headroom)) - self.offer.used_bytes

    @property
    def cards_at_most(self) -> int:
        """The most cards that one replica may have: those of a node. A process sees one slice only."""
        offer = self.offer
        if offer.is_cut:
            return 1
        return min(
            offer.node_size, *(each for each in (offer.count, offer.maximum, offer.node_size) if each is not None)
        )

    def replicas_at_most(self, split: Split) -> int:
        """How many replicas of that split the wish and the cards allow."""
        limits = [self.request.max_replicas or MOST_REPLICAS, MOST_REPLICAS]
        limits += [each // split.size for each in (self.offer.count, self.offer.maximum) if each is not None]
        return min(limits)

    def refusal(
        self, split: Split, reason: str, shortfall_bytes: int = 0, *, unsplittable: bool = False
    ) -> Refusal:
        """Why it cannot be served there in so many parts."""
        return Refusal(
            self.number, self.offer_number, self.served.choice.format, split.size, reason, shortfall_bytes,
            unsplittable=unsplittable, pipeline_parallel_size=split.pipeline,
        )  # fmt: skip

    def too_large(self, split: Split, verb: str, need: int) -> Refusal | None:
        """A refusal where `need` bytes a card overflow the room."""
        room = self.room_bytes
        if need <= room:
            return None
        return self.refusal(split, self._short(verb, need, room), need - room)

    def _short(self, verb: str, need: int, room: int) -> str:
        offer, share = self.offer, f"{self.headroom:.0%}"
        if room <= 0:
            held = f" beside what others hold ({format_gib(offer.used_bytes)})" if offer.used_bytes else ""
            return f"{verb} {format_gib(need)}, nothing of {offer.gpu.name} is left after {share} headroom{held}"
        return f"{verb} {format_gib(need)}, {format_gib(room)} of {offer.gpu.name} are left after {share} headroom"

    def unfit_step(self, asked: Demand) -> str:
        """Why a step as long as the user says does not do for that demand; "" where it does."""
        one, step = self.served, self.served.batched_tokens
        if step is None or self.step is not None:
            return ""
        drafted = one.speculation.tokens if one.speculation else 0
        if step < asked.max_num_seqs * (1 + drafted):
            return (
                f"a step of {step:,} tokens is shorter than one of each of {asked.max_num_seqs:,} requests at once"
            )
        if step < asked.max_model_len and not splits_prompts(one.engine.name, one.version, one.model, one.gpu):
            whole = f"{one.engine.title} {one.version} reads prompts whole"
            return f"{whole}: a step of {step:,} tokens is shorter than one of {asked.max_model_len:,}"
        return ""

    def is_hopeless(self, times: Roofline) -> bool:
        """Whether more replicas cannot help: one request alone breaks the SLO."""
        return any(floor.breaks(self.pace) for floor in _floors(times, self.request))

    def too_slow(self, split: Split, times: Roofline, asked: Demand) -> Refusal:
        """Which target breaks, and by how much; where one request alone is too slow, the floor of the card."""
        slo, name = self.request.slo, self.offer.gpu.name
        for floor in _floors(times, self.request):
            if floor.breaks():
                words = (
                    f"a {floor.target} of {format_seconds(floor.asked_s)} is below the floor of {name}: "
                    f"{floor.what} takes {format_seconds(floor.least_s)}"
                )
                return replace(self.refusal(split, words), too_slow=True, floor=floor)
        parts = []
        for target, found, wanted in (
            ("TTFT", asked.ttft_s, slo.ttft_s if slo else None),
            ("TPOT", asked.tpot_s, slo.tpot_s if slo else None),
        ):
            if found and wanted is not None and found[1] > wanted:
                parts.append(f"estimated {target} {format_seconds(found[1])} is above {format_seconds(wanted)}")
        return replace(self.refusal(split, "; ".join(parts) or "the SLO is not held"), too_slow=True)


def _floors(times: Roofline, request: ModelRequest) -> Iterator[Floor]:
    """The floors of the targets that were asked for."""
    slo, prompts = request.slo, request.traffic.input_tokens
    if slo is not None and slo.tpot_s is not None:
        yield Floor("TPOT", slo.tpot_s, "one step for one request alone", times.decode_step_s(1, 1))
    if slo is not None and slo.ttft_s is not None and prompts is not None:
        tokens = length_model(prompts, cap=request.model.max_model_len).quantile(slo.percentile / 100)
        what = f"a prompt of {round(tokens):,} tokens alone (p{slo.percentile:g})"
        yield Floor("TTFT", slo.ttft_s, what, times.first_token_s + times.prefill_s(tokens))
