"""What a record leaves open, as the launches that it may stand for: an interval must hold all of them.

A post that shows its flags left out what it left at the default. One that does not may have been started in any
usual way: as a server or from Python's `LLM` class, whose batches are larger (engine/arg_utils.py,
`_set_default_args`: 16,384 tokens on large cards, 8,192 on others); with a context cut short, since few posts of
a model of a million tokens serve them all; or with fewer sequences, where the sampler's rows cost gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]

# Tokens a step where a record names the method alone: one for the checkpoint's own layer.
DRAFT_TOKENS = {"mtp": 1, "eagle": 3, "eagle3": 3, "ngram": 3}
_SHORT = 32768  # a usual context where a long one is cut
_BATCHES = ((16384, 1024), (2048, 64))  # (tokens, sequences): the largest defaults, and a launch that saves memory


def unsaid(row: Row, longest: int) -> Iterator[Row]:
    """The same record as other launches that it may as well stand for; `longest` is the model's own context."""
    yield from _drafts(row)
    if _open(row) and row["max_model_len"] is None and longest > _SHORT:
        yield {**row, "max_model_len": _SHORT}


def unusual(row: Row) -> Iterator[Row]:
    """The ends of what the batch may have been: they widen intervals, and a verdict is of the usual launch."""
    if _open(row) and row["max_num_seqs"] is None and row["max_num_batched_tokens"] is None:
        for tokens, sequences in _BATCHES:
            yield {**row, "max_num_batched_tokens": tokens, "max_num_seqs": sequences}


def longest_prompt(row: Row) -> int | None:
    """TGI's max_input_tokens, for which the records have no field: who raises max_total_tokens raises it too, as
    far as a whole prompt may go (launcher/src/main.rs: below the total, and within one prefill)."""
    total, batch = row["max_model_len"], row["max_num_batched_tokens"]
    if row["engine"] != "text-generation-inference" or total is None:
        return None
    longest: int = total - 1 if batch is None else min(total - 1, batch)
    return longest


def _open(row: Row) -> bool:
    return row["engine"] == "vllm" and row.get("flags_shown") is not True


def _drafts(row: Row) -> Iterator[Row]:
    """The fewest tokens that a draft may propose, where the record does not say how many."""
    method = (row["speculative"] or "").lower()
    if method and " x" not in method and method not in DRAFT_TOKENS:
        yield {**row, "speculative": f"{method} x1"}
