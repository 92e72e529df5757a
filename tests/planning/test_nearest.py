"""What is offered where nothing fits: the largest change that does, and nothing larger."""

from dataclasses import replace
from pathlib import Path

from cotenant import load_fleet, plan

EXAMPLE = Path(__file__).parents[2] / "examples" / "does-not-fit.yaml"


def test_the_concurrency_offered_is_the_largest_that_fits() -> None:
    fleet = load_fleet(EXAMPLE)
    remedies = plan(fleet).shortfalls[0].remedies
    assert "reason with concurrent: 3 instead of 10" in remedies
    for concurrent, fits in ((3, True), (4, False)):
        reason, chat = fleet.models
        traffic = replace(reason.traffic, concurrent=concurrent)
        assert plan(replace(fleet, models=(replace(reason, traffic=traffic), chat))).feasible is fits


def test_a_rate_is_offered_to_a_twentieth() -> None:
    fleet = load_fleet(EXAMPLE)
    reason, chat = fleet.models
    traffic = replace(
        reason.traffic, concurrent=None, requests_per_second=2.0, context_tokens=None,
        input_tokens=reason.traffic.context_tokens, output_tokens=chat.traffic.context_tokens,
    )  # fmt: skip
    answer = plan(replace(fleet, models=(replace(reason, traffic=traffic), chat)))
    offered = [remedy for remedy in answer.shortfalls[0].remedies if "requests/s" in remedy]
    for remedy in offered:
        rate = float(remedy.split(" at ")[1].split()[0])
        assert round(rate / 2.0 * 20, 6) == int(round(rate / 2.0 * 20, 6))
        milder = replace(reason, traffic=replace(traffic, requests_per_second=rate))
        assert plan(replace(fleet, models=(milder, chat))).feasible
