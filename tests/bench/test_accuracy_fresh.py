"""The section on logs that the rules were not written from."""

from __future__ import annotations

from bench.accuracy import METRICS
from bench.accuracy_page import fresh_logs, page


def test_every_metric_of_gpu_engines_stands_in_each_table_at_first_sight_and_mended():
    found = fresh_logs()
    names = [metric.id for metric in METRICS if not metric.id.startswith("llama")]
    rows = [line for line in found.splitlines() if line.startswith("| ") and not line.startswith("| id")]
    found_names = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    found_names = [name for name in found_names if not name.startswith("llama")]
    assert found_names == names * found.count("| id |")
    assert {row.count("|") for row in rows} == {7}


def test_the_page_holds_it():
    assert fresh_logs() in page({}, [])
