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


def _small(name: str, **more: object) -> dict[str, object]:
    lengths = {"input_tokens": {"p50": 500, "p95": 1000}, "output_tokens": {"p50": 100, "p95": 200}}
    model = "meta-llama/Llama-3.1-8B-Instruct"
    return {"name": name, "model": model, "traffic": {"requests_per_second": 30, **lengths}, **more}


L4, HIRED = {"type": "L4", "count": 1}, {"type": "H100-80GB-SXM", "price": "$3/h"}


def test_a_pinned_model_is_told_of_the_cards_that_its_pin_allows() -> None:
    (short,) = plan({"gpus": [L4, HIRED], "models": [_small("a", pin={"gpus": [0]})]}).shortfalls
    assert short.reason.startswith("pinned to 0: fp8 on L4: 30 requests/s overload one replica")
    assert "H100" not in short.reason


def test_replicas_on_different_nodes_are_counted_by_type_of_card() -> None:
    """One node of each of two types: two replicas of one model find no second node of their type."""
    pool = [{"type": card, "count": 2, "node": {"size": 2}} for card in ("L4", "L40S")]
    model = _small("tiny", model="Qwen/Qwen2.5-1.5B-Instruct", replicas={"min": 2}, spread="node")
    (short,) = plan({"gpus": pool, "models": [model]}).shortfalls
    assert "2 nodes: 1 node of L" in short.reason
    assert short.reason.endswith("replicas of one model are all on one type of card")


def test_no_wish_to_give_up_breaks_another_in_silence() -> None:
    """Two models on one base, pinned to two cards: as one process they would stand on neither."""
    pool = [L4, {"type": "A10G", "count": 1}, HIRED]
    models = [_small(f"a{number}", pin={"gpus": [number]}) for number in (0, 1)]
    answer = plan({"gpus": pool, "models": models})
    assert not answer.feasible
    assert all("processes of their own" not in wish for relaxed in answer.relaxations for wish in relaxed.wishes)
