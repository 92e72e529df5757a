"""The Python face, given what no type checker would let pass: a refusal in our own words, and nothing shared."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import cotenant
from cotenant.api.asked import Asked
from cotenant.errors import CotenantError

MODEL, CARD = "meta-llama/Llama-3.1-8B-Instruct", "A100-80GB-SXM"
WRONG = [5, -1, 1.5, True, b"x", "", [], {}, object(), float("nan"), "x" * 10_000, 10**400, "\ud800", "\0"]
OPTIONS = sorted({*Asked.__annotations__, "calibration", "aiconfigurator"})
_FUNCTIONS = (cotenant.load_model, cotenant.load_fleet, cotenant.plan, cotenant.explain)


def _refused_or_answered(call: Callable[[], object]) -> None:
    with suppress(CotenantError):
        call()


@pytest.mark.parametrize("function", _FUNCTIONS, ids=lambda function: str(function.__name__))
@pytest.mark.parametrize("value", [None, *WRONG], ids=lambda value: repr(value)[:20])
def test_sources_of_a_wrong_type(function: Callable[[Any], object], value: Any) -> None:
    with pytest.raises(CotenantError):
        function(value)


@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:20])
def test_options_of_a_wrong_type(value: Any) -> None:
    for name in OPTIONS:
        given: dict[str, Any] = {name: value}
        _refused_or_answered(lambda given=given: cotenant.estimate(MODEL, gpu=CARD, **given))
    _refused_or_answered(lambda: cotenant.estimate(MODEL, gpu=value))


@pytest.mark.parametrize("value", [None, *WRONG], ids=lambda value: repr(value)[:20])
def test_adapters_of_a_wrong_type(value: Any) -> None:
    good = {"name": "a", "rank": 8}
    for entries in (
        value,
        [value],
        *([{**good, key: value}] for key in ("name", "rank", "share", "target_modules")),
    ):
        _refused_or_answered(lambda entries=entries: cotenant.estimate(MODEL, gpu=CARD, adapters=entries))


def test_what_a_caller_changes_is_their_own() -> None:
    found = cotenant.load_model(MODEL)
    assert isinstance(found.checkpoints, dict)
    found.checkpoints["fp8"] = "mine/only"
    assert cotenant.load_model(MODEL).checkpoints.get("fp8") != "mine/only"


def test_answers_can_be_copied_and_sent() -> None:
    answer = cotenant.estimate(MODEL, gpu=CARD, max_model_len=8192)
    assert copy.deepcopy(answer) == answer
    assert pickle.loads(pickle.dumps(answer)) == answer


def test_a_word_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(TypeError, match="'max_model_length'; did you mean 'max_model_len'"):
        cotenant.estimate(MODEL, gpu=CARD, max_model_length=8192)  # type: ignore[call-arg]
