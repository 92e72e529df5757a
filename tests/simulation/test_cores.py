"""The plain core does what the rules say; the fast one does what the plain one does, event for event."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import pytest

from bench.simulation_cases import Case, crowded_case, random_case
from cotenant.errors import InputError
from cotenant.policy import admission, ledger, preemption
from cotenant.simulation import core, core_steps, costs, fast, plain
from cotenant.simulation.costs import StepCosts
from cotenant.simulation.load import NEVER, Event, Limits, Outcome, Requests, Status

UNIT = 1_000_000  # fs: one nanosecond


def differences(one: Outcome, other: Outcome) -> list[str]:
    """The names of all that is not the same."""
    names = Outcome.__dataclass_fields__
    return [name for name in names if not np.array_equal(getattr(one, name), getattr(other, name))]


def both(case: Case) -> Outcome:
    """What both cores say; they must agree."""
    slow = plain.simulate(*case)
    assert differences(slow, fast.simulate(*case, log=True, with_numba=False)) == []
    return slow


def test_one_request_by_hand() -> None:
    """Prompt of 5 in chunks of 4 and 1, then two decode steps: 10 + 4 and 10 + 1, then 1 + the context, twice."""
    case = Requests.of([3], [5], [3]), Limits(2, 4, 4, 8, 64), StepCosts.plane(UNIT, 0, UNIT, 10 * UNIT, UNIT, 0)
    found = both(case)
    assert found.first_token_ns.tolist() == [3 + 14 + 11]
    assert found.finish_ns.tolist() == [28 + (1 + 6) + (1 + 7)]
    assert (found.steps, found.busy_ns, found.end_ns) == (4, 40, 43)
    assert found.kv_high_water_blocks == 2  # 7 tokens: the last one is never read back
    events = [(Event(event).name, ns) for _, ns, event, _ in found.log.tolist()]
    assert events == [("ADMIT", 3), ("FIRST_TOKEN", 28), ("FINISH", 43)]


def test_decoding_and_reading_share_a_step_and_read_the_weights_once() -> None:
    case = (
        Requests.of([0, 1], [2, 2], [3, 1]),
        Limits(4, 8, 4, 8, 64),
        StepCosts.plane(7 * UNIT, 0, 0, 5 * UNIT, UNIT, 0),
    )
    found = both(case)
    assert found.first_token_ns.tolist() == [7, 7 + 7 + 2]  # 5 + 2 alone; then max(7, 5) + 2 beside a decode
    assert found.finish_ns.tolist() == [16 + 7, 16]


def test_the_latest_gives_way_and_computes_again() -> None:
    """Two sequences of 4 blocks each in a pool of 5: the second is preempted, waits, and reads its answer too."""
    case = Requests.of([0, 0], [2, 2], [6, 6]), Limits(4, 8, 2, 5, 16), StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0)
    found = both(case)
    assert found.preemptions == 1
    preempted = [row for row in found.log.tolist() if row[2] == Event.PREEMPT]
    assert [row[3] for row in preempted] == [1]
    assert found.status.tolist() == [Status.FINISHED, Status.FINISHED]
    assert found.finish_ns[0] < found.finish_ns[1]
    assert found.first_token_ns.tolist() == [1, 1]  # told once, before the preemption


def test_priority_overtakes_in_the_queue() -> None:
    case = (
        Requests.of([0, 1, 2], [2, 2, 2], [4, 2, 2], [0, 0, 5]),
        Limits(1, 8, 2, 8, 16),
        StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0),
    )
    found = both(case)
    assert found.finish_ns[2] < found.finish_ns[1]


def test_who_gives_up_leaves_at_the_next_step() -> None:
    case = (
        Requests.of([0, 0], [2, 2], [9, 9], 0, [5, 4]),
        Limits(1, 8, 2, 8, 16),
        StepCosts.plane(3 * UNIT, 0, 0, 3 * UNIT, 0, 0),
    )
    found = both(case)
    assert found.status.tolist() == [Status.CANCELLED, Status.CANCELLED]
    assert found.finish_ns.tolist() == [6, 6]
    assert found.has_first.tolist() == [True, False]


def test_what_can_never_be_served_is_refused() -> None:
    case = (
        Requests.of([0, 0, 0], [3, 30, 9], [2, 1, 8]),
        Limits(4, 8, 2, 8, 20),
        StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0),
    )
    assert both(case).status.tolist() == [Status.FINISHED, Status.REFUSED, Status.FINISHED]


def test_nothing_in_nothing_out() -> None:
    empty = both((Requests.of([], [], []), Limits(1, 1, 1, 1, 1), StepCosts.plane(1, 1, 1, 1, 1, 1)))
    assert (empty.steps, len(empty.log)) == (0, 0)


@pytest.mark.parametrize("chunk", range(4))
def test_fast_equals_plain_in_ties(chunk: int) -> None:
    preempted = cancelled = 0
    for seed in range(chunk * 150, (chunk + 1) * 150):
        found = both(random_case(seed))
        preempted += found.preemptions
        cancelled += int((found.status == Status.CANCELLED).sum())
    assert preempted > 50
    assert cancelled > 20


@pytest.mark.parametrize("seed", range(4))
def test_fast_equals_plain_under_load(seed: int) -> None:
    found = both(crowded_case(seed))
    assert found.status.tolist() == [Status.FINISHED] * 300


def test_both_stop_where_time_is_up() -> None:
    cut = 0
    for seed in range(150):
        case = random_case(20_000 + seed)
        whole = fast.simulate(*case, with_numba=False)
        until = max(0, int(whole.finish_ns[seed % len(case[0])]) + seed % 3 - 1)  # at, before or after an end
        slow = plain.simulate(*case, until_ns=until)
        assert differences(slow, fast.simulate(*case, until_ns=until, log=True, with_numba=False)) == [], seed
        cut += int((slow.status == Status.UNFINISHED).any())
    assert cut > 80


def test_a_backlog_of_hours_keeps_its_clock() -> None:
    """Requests that came at once and are served for days: no sum leaves 64 bits, and none is lost."""
    count = 300
    case = (
        Requests.of([0] * count, [100] * count, [1000] * count),
        Limits(1, 512, 16, 100, 2048),
        StepCosts.plane(10**15, 0, 0, 10**15, 0, 0),
    )
    found = fast.simulate(*case, with_numba=False)
    assert found.finish_ns.tolist() == [(one + 1) * 1000 * 10**9 for one in range(count)]
    assert found.busy_ns == found.end_ns == count * 1000 * 10**9


def test_a_prompt_that_goes_on_sends_as_many_away_as_it_needs() -> None:
    """Blocks of a token; a prompt of 14 of higher priority reads 6 a step beside two that write. At its second
    step they hold 3 each and 2 are free: the later one leaves 5, so the other goes too."""
    case = (
        Requests.of([0, 0, 1], [1, 1, 14], [9, 9, 1], [0, 0, 5]),
        Limits(3, 8, 1, 14, 20),
        StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0),
    )
    gone = [(ns, request) for _, ns, event, request in both(case).log.tolist() if event == Event.PREEMPT]
    assert gone[:2] == [(2, 0), (2, 1)]


def test_no_jump_leaves_64_bits() -> None:
    """12,000 steps of a second in a row are more femtoseconds than 64 bits hold."""
    pytest.importorskip("numba")
    case = (
        Requests.of([0], [100], [12_000]),
        Limits(2, 512, 16, 1000, 16_000),
        StepCosts.plane(10**15, 0, 0, 10**15, 0, 0),
    )
    assert fast.simulate(*case).finish_ns.tolist() == [12_000 * 10**9]


def test_a_clock_that_starts_anew_keeps_parts_of_a_nanosecond() -> None:
    """Steps of a second and a third of a nanosecond, some 5,000 of them: the clock starts anew every 2,000."""
    part = UNIT // 3
    case = (
        Requests.of([0] * 5, [10] * 5, [999 + one for one in range(5)]),
        Limits(1, 512, 16, 100, 2048),
        StepCosts.plane(10**15 + part, 0, 0, 10**15 + part, 0, 0),
    )
    found = both(case)
    assert found.busy_ns == found.end_ns == found.steps * (10**15 + part) // UNIT


def test_who_gives_up_on_arrival_does_not_move_the_end() -> None:
    case = (
        Requests.of([0, 100, 200], [4, 4, 4], [2, 2, 2], 0, [NEVER, 100, 200]),
        Limits(2, 8, 4, 8, 16),
        StepCosts.plane(UNIT, 0, 0, UNIT, 0, 0),
    )
    assert both(case).end_ns == 2


def test_compiled_equals_plain() -> None:
    pytest.importorskip("numba")
    for seed in range(300):
        case = random_case(10_000 + seed)
        until = NEVER if seed % 2 else 30
        slow = plain.simulate(*case, until_ns=until)
        assert differences(slow, fast.simulate(*case, until_ns=until, log=True)) == [], seed
    case = crowded_case(99)
    assert differences(plain.simulate(*case), fast.simulate(*case, log=True)) == []


MUTANTS: list[tuple[FunctionType, Any]] = [
    (ledger.opened_at, lambda counts, step, size: counts[step % size]),
    (ledger.steps_within, lambda counts, step, wanted, sequences, free, size: wanted),
    (ledger.phase_of, lambda held, step, size: held % size),
    (preemption.victim, lambda ranks, running: 0),
    (preemption.must_preempt, lambda wanted, free: wanted >= free),
    (admission.may_join, lambda running, seqs, left, new, free, _: running < seqs and left > 0 and new <= free),
    (admission.can_serve, lambda given, written, longest, *_: given + written < longest),
    (core_steps.held, lambda inputs, outputs, slots, keys, sequences, bits, step, size: sequences),
    (core_steps.steps_until, lambda wanted, first, growth, most: max(1, wanted // first)),
    (costs.steps_along, lambda until, held, sequences, steps: steps),
    (costs.steps_along, lambda until, held, sequences, steps: min(steps, (until - held) // sequences + 2)),
    (costs.steps_along, lambda until, held, sequences, steps: min(steps, until - held + 1)),
]  # fmt: skip


def bounded(function: Any) -> Any:
    """`function`, which ends a core that a slip has made endless."""
    calls = 0

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 20_000:
            raise OverflowError
        return function(*arguments)

    return counted


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda pair: pair[0].__name__)
def test_a_slip_in_any_rule_of_the_fast_core_is_noticed(
    mutant: tuple[FunctionType, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, slip = mutant
    for place in (core, core_steps):
        monkeypatch.setattr(place, rule.__name__, slip, raising=False)
        monkeypatch.setattr(place, "note", bounded(core_steps.note))
    monkeypatch.setattr(core, "step_of", bounded(core.step_of))
    mutated = core.build(0)
    monkeypatch.setattr(fast, "compiled", lambda with_numba: mutated)
    for seed in range(400):
        case = random_case(seed)
        try:
            if differences(plain.simulate(*case), fast.simulate(*case, log=True, with_numba=False)):
                return
        except (IndexError, OverflowError, ZeroDivisionError):
            return
    pytest.fail(f"no case of 400 tells {rule.__name__} from its slip")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Requests.of([2, 1], [1, 1], [1, 1]), "must not go back"),
        (lambda: Requests.of([-1], [1], [1]), "must not be negative"),
        (lambda: Requests.of([0], [0], [1]), "0 input tokens"),
        (lambda: Requests.of([0], [1], [1, 1]), "one arrival, input and output each"),
        (lambda: Limits(8, 4, 16, 10, 100), "below max_num_seqs"),
        (lambda: Limits(8, 8, 16, 0, 100), "at least 1"),
        (lambda: Limits(8, 8, 16, 10, 10**9), "max_model_len"),
        (
            lambda: fast.simulate(
                Requests.of([0], [1], [1]), Limits(8, 8192, 16, 10, 2**22), StepCosts.plane(0, 0, 0, 0, 0, 10**12)
            ),
            "longer than the simulator can count",
        ),
    ],
)
def test_bad_input_is_refused(make: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()
