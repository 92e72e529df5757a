"""The last part of docs/accuracy.md: figures of records' raw lines that explain does not read, and why."""

from __future__ import annotations

from collections.abc import Iterable

from bench.explain import Checked

# What a record's lines do not let anyone read, one by one.
_CANNOT_FOLLOW = {
    "v55827-al-seq-ada": 'the sentence names no figure and no model: "sequential 10.82 / 6.50 GiB, both at once '
    '9.01 / −0.01 GiB"; that these are KV caches, of which engine and in which order, stands in a table that the '
    "record does not have",
    "v55827-asr-both-ada": "the same sentence",
    "lc-095": "what nvidia-smi said stands in the record's note alone, not in its lines",
}


def raw_lines(checked: Iterable[Checked]) -> str:
    """The section: how many fields were read to their last digit, and each that was not with its reason."""
    fields = list(checked)
    misses = [one for one in fields if one.reason]
    lines = [
        "",
        "## Figures of raw lines\n",
        f"`python -m bench.explain` reads the raw lines of the same records as `cotenant explain` does: "
        f"{len(fields) - len(misses):,} of {len(fields):,}\nmeasured fields come back to the last printed digit.",
    ]
    if misses:
        lines += ["", "| row | field | record | why it is not read |", "|---|---|---:|---|"]
        lines += [f"| {one.record} | {one.field} | {one.wanted} | {_why(one)} |" for one in misses]
    return "\n".join((*lines, ""))


def _why(one: Checked) -> str:
    return _CANNOT_FOLLOW.get(one.record, one.reason)
