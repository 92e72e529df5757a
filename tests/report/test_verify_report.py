"""A verification as text, JSON and a page: the same verdicts in each, nothing that a name could inject."""

from __future__ import annotations

import io
import json

from rich.console import Console

from cotenant.domain.calibration import CalibrationProfile, Factor
from cotenant.domain.interval import Interval
from cotenant.domain.verification import Finding, Held, Point, Reading, ReplicaVerified, Term, Verification
from cotenant.report.verify_document import verify_document
from cotenant.report.verify_html import verify_html
from cotenant.report.verify_text import headline, print_verification

MIB = 2**20


def point(count: int, size: int, ttft: float) -> Point:
    return Point(
        "<b>chat", count, size, 16, count, 0, (ttft, 2 * ttft), (0.02, 0.03), Reading(1.0, 60 * MIB, 100 * MIB),
        0.5, 0,
    )  # fmt: skip


def verification(**more: object) -> Verification:
    terms = (
        Term("weights", Interval.exact(100 * MIB), 100 * MIB, Held.YES, "its log"),
        Term("kv_cache", Interval.exact(20 * MIB), 25 * MIB, Held.NO, "its log"),
        Term("activations", Interval.exact(4 * MIB), None, Held.UNKNOWN, "nothing tells it apart"),
        Term("runtime", Interval(10 * MIB, 20 * MIB, 40 * MIB), 30 * MIB, Held.YES, "the kernel"),
        Term("total", Interval(130 * MIB, 144 * MIB, 170 * MIB), 160 * MIB, Held.YES, "the kernel"),
    )
    points = (point(1, 64, 0.1), point(2, 64, 0.2), point(4, 64, 0.3), point(4, 1008, 1.0), point(4, 1008, 2.0))
    one = ReplicaVerified(
        "<b>chat", "chat", "llama.cpp", "b11549", "CPU", "llama", terms, points, {"loaded": Reading(0.0, 1, 2)},
        limit_concurrency=4, limit_tokens=1024,
    )  # fmt: skip
    findings = (
        Finding("weights loaded once", "<b>chat", Held.YES, "mapped"),
        Finding("kv_cache", "<b>chat", Held.NO, "predicted 20 MiB, measured 25 MiB"),
        Finding("no model starves another", "", Held.UNKNOWN, "they take turns"),
    )
    profile = CalibrationProfile(
        "llama.cpp", "b11549", "CPU", "llama", {"runtime": Factor(1.5, 0.9, 1.1, 2)}, "here"
    )
    series = {"<b>chat": tuple(Reading(float(at), at * MIB, 100 * MIB) for at in range(20))}
    return Verification(
        (one,), findings, series, {"<b>chat": ((0.0, 5), (3.0, 9))}, (profile,), warnings=("<i>mind",), **more
    )


def test_text_tells_every_line() -> None:
    out = io.StringIO()
    print_verification(verification(), Console(file=out, width=80))
    text = out.getvalue()
    assert text.startswith("The plan does not hold: 1 holds, 1 does not, 1 could not be told")
    for words in (
        "KV cache",
        "20.00 MiB",
        "25.00 MiB",
        "+25.0%",
        "off",
        "weights loaded once",
        "high tide",
        "x 1.500",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 80 or "warning" in text


def test_headline_says_why_it_stopped() -> None:
    assert headline(verification(stopped="peak: its pool is 95% full")).startswith(
        "Stopped (peak: its pool is 95% full)"
    )


def test_document_is_json_with_every_figure() -> None:
    document = json.loads(json.dumps(verify_document(verification(), catalogue="1")))
    assert document["schema"] == "cotenant/verify/1"
    assert document["holds"] is False
    (replica,) = document["replicas"]
    assert replica["terms"]["kv_cache"] == {
        "predicted_bytes": 20 * MIB,
        "interval": [20 * MIB, 20 * MIB],
        "measured_bytes": 25 * MIB,
        "verdict": "off",
        "source": "its log",
    }
    assert [point["concurrency"] for point in replica["points"]] == [1, 2, 4, 4, 4]
    assert document["calibrations"][0]["factors"]["runtime"]["value"] == 1.5


def test_page_escapes_names_and_draws() -> None:
    text = verify_html(verification(), title="<script>x")
    assert "<script>" not in text
    assert "<b>" not in text
    assert "<i>" not in text
    for words in (
        "The four terms",
        "Memory over time",
        "More at once",
        "beyond the terms",
        "Alone and all at once",
    ):
        assert words in text
    assert text.count("<figure>") == 5
