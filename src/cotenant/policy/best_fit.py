"""Best fit with slack: the fullest replica that still keeps everybody's times (Aladdin, arXiv 2405.06856).

A request fits where (a) prompts queued there and its own are read within the TTFT target, (b) that reading does
not take from any running answer more time than it is ahead of its TPOT target, (c) a step with one sequence more
keeps that target, (d) at its fullest the cache holds everybody. Of several the fullest takes it, so that others
stay free.
"""

from __future__ import annotations

from cotenant.policy.kinds import Ints

_PART = 1000


def fits(
    read: int, ttft: int, stall: int, least_slack: int, step: int, tpot: int, peak_blocks: int, num_blocks: int
) -> bool:
    """Whether a request fits; times in one unit, targets of nothing being very large numbers."""
    return read <= ttft and stall <= least_slack and step <= tpot and peak_blocks <= num_blocks


def slack(written: int, tpot: int, since_first: int) -> int:
    """How far an answer of `written` tokens is ahead of its target, `since_first` after its first token."""
    return written * tpot - since_first


def fullness(sequences: int, max_num_seqs: int, tokens: int, pool_tokens: int) -> int:
    """The square of the length of (batch, context), each as a share of what there is."""
    batch, context = _PART * sequences // max_num_seqs, _PART * tokens // pool_tokens
    return batch * batch + context * context


def fullest(fitting: Ints, fullnesses: Ints, replicas: int) -> int:
    """The fullest of those that fit (1, not 0), of equals the first; `replicas` where it fits nowhere."""
    found = replicas
    for index in range(replicas):
        if fitting[index] and (found == replicas or fullnesses[index] > fullnesses[found]):
            found = index
    return found
