"""Every figure of the two articles beside ours: `python -m bench.claims [--check]`.

Writes docs/claims.md; with --check compares instead.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from bench import claims_first, claims_placement, claims_second
from bench.claim import GPU, L8B, Claim, Verdict, replica
from bench.markdown import main, table


def render() -> str:
    """The whole page."""
    first, second = claims_first.claims(), [*claims_second.claims(), *claims_placement.claims()]
    counts = Counter(claim.verdict for claim in (*first, *second))
    tally = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
    found = replica(L8B, "bf16")
    return f"""# What two articles claim

<!-- Written by `python -m bench.claims`; edit bench/claims_*.py, not this page. -->

Cotenant began with two articles: one on the memory budget of several models on Text Generation Inference, one on
why most teams buy three times the GPUs that they need. Here is every figure and rule of both, in our words, beside
what the program computes (vLLM {found.engine_version}, {GPU}, 8 sequences of 2,048 tokens unless said otherwise):
{tally}.

*Confirmed*: it stands, by arithmetic or by its own published source. *Corrected*: it is wrong, or holds only as
far as the second column says. *Not verifiable*: nothing at hand shows or refutes it. GB is 10^9 bytes, GiB 2^30;
the articles write GB for both.

## The first article: a budget for several models on TGI

{_listed(first, 1)}

## The second article: why three times too much is provisioned

{_listed(second, len(first) + 1)}
"""


def _listed(claims: Sequence[Claim], start: int) -> str:
    rows = [
        (str(number), claim.says, claim.ours, claim.why, f"**{claim.verdict}**")
        for number, claim in enumerate(claims, start)
    ]
    return table(("", "the article", "ours", "arithmetic or source", ""), rows, left=5)


def run(argv: Sequence[str] | None = None) -> int:
    """Write or check the page."""
    return main("claims.md", render, __doc__ or "", argv)


if __name__ == "__main__":
    sys.exit(run())
