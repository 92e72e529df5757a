"""How many requests are in service and for how long: Little's law as a fixed point over step times.

A request's service time is its prefill, its output tokens at the step time of the batch that it meets, and
the prefills of the others that its engine runs meanwhile:

    S(B) = P + O step(B, B c) + gamma (B - 1) P,        in service = rate x S,        B = 1 + in service

(TPOT = S's decode part / O = step + gamma (B - 1) P / O; gamma stands in `step_constants`. P, O: mean prefill
seconds and output tokens; c: mean context. A request meets the others plus itself, and the others are as many
as at a random moment.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from cotenant.domain.step_time import Scaled, Times
from cotenant.estimation.in_flight import Mixture
from cotenant.estimation.lengths import LengthModel
from cotenant.estimation.step_constants import FITTED, INTERFERENCE

MOST = 2.0**17  # requests in service beyond which no engine goes


@dataclass(frozen=True, slots=True)
class Service:
    """A replica in a steady state. `in_service` on average; `rate` requests/s (0 where unknown);
    `prefill_share` of a request's service time; `stall_s` one mean prefill per output token; `closed` where a
    fixed number is in flight."""

    in_service: float
    rate: float
    context_tokens: float
    prefill_s: float
    prefill_share: float
    stall_s: float
    closed: bool = False

    def tpot_s(self, batch: float, times: Times) -> float:
        """Seconds a token in a batch of `batch`, stalls by the others' prefills included."""
        return times.decode_step_s(batch, batch * self.context_tokens) + INTERFERENCE * (batch - 1) * self.stall_s

    def ttft_s(
        self, input_tokens: float, batch: float, times: Times, closed_queue: float = FITTED.closed_queue
    ) -> float:
        """Seconds to the first token of a prompt that arrives while `batch` - 1 others run.

        The step in progress ends, then the prompt is prefilled while other prefills take their share of time. In a
        closed loop those that end together come back together: `closed_queue` prefills of theirs go first.
        """
        others = (batch - 1) / batch if self.closed else 1.0  # in a closed loop one does not meet oneself
        busy = min(0.95, others * self.rate * self.prefill_s)
        step = times.decode_step_s(batch, batch * self.context_tokens)
        queue = closed_queue * others * self.prefill_s if self.closed else 0.0
        return times.first_token_s + (times.prefill_s(input_tokens) + step) / (1 - busy) + queue


@dataclass(frozen=True, slots=True)
class Steady:
    """A replica under a rate: its state, the most sequences at once, TTFT and TPOT at the percentile that was
    asked for, and whether steps at the slow end of their interval would be overloaded."""

    service: Service
    at_most: int
    ttft_s: float
    tpot_s: float
    doubted: bool


def open_service(
    rate: float, inputs: LengthModel, outputs: LengthModel, held: Mixture, times: Times
) -> Service | None:
    """The steady state under `rate` requests/s; None when requests would pile up without end."""
    return steady(rate, Work.of(inputs, outputs, held, times))


def steady(rate: float, work: Work) -> Service | None:
    """The same for work that is known."""
    most = _more_than_arrive(rate, work)
    if most is None:
        return None
    others = _fixed_point(rate, work, most)
    return work.state(rate * work.service_s(1 + others), rate, 1 + others)


def is_overloaded(rate: float, work: Work) -> bool:
    """Whether requests would pile up without end."""
    return _more_than_arrive(rate, work) is None


def _more_than_arrive(rate: float, work: Work) -> float | None:
    """A number in service, a power of two, that ends at least as many requests as arrive; None: there is none."""
    number = 1.0
    while rate * work.service_s(1 + number) > number:
        number *= 2
        if number > MOST:
            return None
    return number


def _fixed_point(rate: float, work: Work, high: float) -> float:
    """The x below `high` with rate x S(1 + x) = x, from above, to a millionth.

    False position with the Illinois rule: an end that stays put twice has its value halved, so that both ends
    close in, in about eight steps where bisection takes twenty-five.
    """
    low, below, above = 0.0, rate * work.service_s(1.0), rate * work.service_s(1 + high) - high
    side = 0
    while high - low > 1e-6 * high:
        # Inside both ends by a quarter of what is asked for, so that a step never falls back onto one.
        inner = 0.25e-6 * high
        middle = min(max(low + (high - low) * below / (below - above), low + inner), high - inner)
        found = rate * work.service_s(1 + middle) - middle
        if found > 0:
            low, below, above = middle, found, above / 2 if side > 0 else above
            side = 1
        else:
            high, above, below = middle, found, below / 2 if side < 0 else below
            side = -1
    return high


def closed_service(
    number: float, inputs: LengthModel, outputs: LengthModel | None, held: Mixture, times: Times
) -> Service:
    """The steady state of exactly `number` in flight; without `outputs` prefills are left out."""
    if outputs is None:
        return Service(float(number), 0.0, held.mean_by_output, 0.0, 0.0, 0.0)
    work = Work.of(inputs, outputs, held, times)
    return replace(work.state(float(number), number / work.service_s(number), number), closed=True)


def saturation(work: Work) -> float:
    """Requests/s that no batch size gets past."""
    batch, best = 1.0, 0.0
    while batch <= MOST:
        best = max(best, batch / work.service_s(batch))
        batch *= 2
    return best


@dataclass(frozen=True, slots=True)
class Work:
    """Mean work of one request: prefill seconds, output tokens, context while it decodes and prefills."""

    prefill_s: float
    output_tokens: float
    contexts: tuple[float, float]  # weighted by output, by input
    times: Times

    @classmethod
    def of(cls, inputs: LengthModel, outputs: LengthModel, held: Mixture, times: Times) -> Work:
        """Of requests of these lengths."""
        contexts = (held.mean_by_output, held.mean_by_input)
        return cls(_mean_prefill_s(inputs, times), outputs.mean, contexts, times)

    def decode_s(self, batch: float) -> float:
        """Seconds in which it decodes, in a batch of `batch`."""
        step = self.times.decode_step_s(batch, batch * self.contexts[0]) if self.output_tokens else 0.0
        return self.output_tokens * step

    def service_s(self, batch: float) -> float:
        """Seconds in service, in a batch of `batch`."""
        return self.decode_s(batch) + self.prefill_s * (1 + INTERFERENCE * (batch - 1))

    def state(self, in_service: float, rate: float, batch: float) -> Service:
        """The steady state with so many in service."""
        whole = self.service_s(batch)
        # The others' prefills lengthen decode as much as their own stay: they are met by output, not by input.
        share = self.prefill_s / whole if whole else 0.0
        context = self.contexts[0] + share * (self.contexts[1] - self.contexts[0])
        stall = self.prefill_s / self.output_tokens if self.output_tokens else 0.0
        return Service(in_service, rate, context, self.prefill_s, share, stall)


@lru_cache(maxsize=64)
def _mean_prefill_s(inputs: LengthModel, times: Times) -> float:
    if isinstance(times, Scaled):
        return times.factor * _mean_prefill_s(inputs, times.times)
    found = 0.0
    for tokens, p in inputs.cells():  # not `sum`, which rounds otherwise from Python 3.12 on
        found += p * times.prefill_s(tokens)
    return found
