"""Programs that place and run models rather than size one: what each is for, beside ours. For `bench.peers_page`.

They answer other questions than a calculator, so no figure of theirs stands here that ours could be measured
against; where there is one, its bench says so (`bench.melange`).
"""

from __future__ import annotations

from bench.markdown import table

_PROGRAMS = (
    (
        "GPUStack 2",
        "runs a cluster: workers, engines, users, keys, quotas, recovery, a catalogue to deploy from",
        "an estimate before it schedules: of GGUF files by its parser, of other models weights x 1.2 and a"
        " constant for the engine, which its own pages call a lower bound; then a worker with room",
        "all of running a cluster; it watches real machines, ours plans for cards that need not exist yet",
    ),
    (
        "llama-swap",
        "one binary before any server that speaks OpenAI's API: starts what is asked for, stops what is in its"
        " way",
        "groups, or a matrix of what may run together, written by hand; a time after which the idle go",
        "speech, images and rerankers, any command line, one file to install; `cotenant deploy --to llama-swap`"
        " writes its configuration from a plan's bytes, matrix included",
    ),
    (
        "Mélange",
        "which mix of card types serves one model cheapest under a TPOT target",
        "measured throughput by request size on each type, and an integer program over slices of the load",
        "its figures are measured, ours estimated with intervals; ours places several models, with memory,"
        " precision and shared cards. On its published example ours proves the same 6.70 $/h, and 4.68 $/h where a"
        " load may be cut finer (`python -m bench.plan`, melange_cost)",
    ),
)


def beyond() -> tuple[str, ...]:
    """The lines of the page."""
    head = ["program", "is for", "decides by", "beside ours"]
    return (
        "Programs that place and run models, which no calculator's table fits (as their documentation had it in"
        " November 2026):",
        "",
        table(head, [list(one) for one in _PROGRAMS], left=4),
        "",
    )
