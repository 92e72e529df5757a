"""Launches that a record may stand for beside the one it tells."""

from bench.accuracy_unsaid import unsaid, unusual

FIELDS = ("engine", "flags_shown", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "speculative")


def row(**given) -> dict:
    return {**dict.fromkeys(FIELDS), "engine": "vllm", **given}


def test_a_post_that_shows_its_flags_leaves_nothing_open():
    told = row(flags_shown=True)
    assert list(unsaid(told, 1_048_576)) == []
    assert list(unusual(told)) == []


def test_a_long_context_that_nobody_told_may_have_been_cut():
    assert [one["max_model_len"] for one in unsaid(row(), 1_048_576)] == [32768]
    assert list(unsaid(row(), 8192)) == []
    assert list(unsaid(row(max_model_len=65536), 1_048_576)) == []


def test_a_batch_that_nobody_told_lies_between_small_and_the_largest_default():
    found = [(one["max_num_batched_tokens"], one["max_num_seqs"]) for one in unusual(row())]
    assert found == [(16384, 1024), (2048, 64)]
    assert list(unusual(row(max_num_seqs=16))) == []
    assert list(unusual(row(engine="sglang"))) == []


def test_a_draft_that_proposes_an_unsaid_number_may_propose_one():
    assert [one["speculative"] for one in unsaid(row(speculative="DFlash", flags_shown=True), 1)] == ["dflash x1"]
    assert list(unsaid(row(speculative="dflash x3", flags_shown=True), 1)) == []
    assert list(unsaid(row(speculative="mtp", flags_shown=True), 1)) == []
