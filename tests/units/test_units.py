"""Units: exact readings, refusals with a hint, round trips."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant import units
from cotenant.errors import InputError
from cotenant.units import GIB, KIB, MIB


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GB", 80 * 10**9),
        ("80GiB", 80 * 2**30),
        ("80 gib", 80 * 2**30),
        ("128KiB", 131_072),
        ("1.5GiB", 3 * 2**29),
        ("0GiB", 0),
        ("0", 0),
        (0, 0),
        ("14GB", 14_000_000_000),
        ("1TiB", 2**40),
        ("12B", 12),
    ],
)
def test_sizes_keep_gb_and_gib_apart(text: object, size: int) -> None:
    assert units.parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "share"), [("12%", 0.12), ("0%", 0.0), ("100%", 1.0), ("0.1%", 0.001), (" 5 % ", 0.05)]
)
def test_percentages(text: str, share: float) -> None:
    assert units.parse_percent(text) == pytest.approx(share)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2s", 2), ("80ms", 0.08), ("1.5h", 5400), ("5m", 300), ("7us", 7e-6), ("7µs", 7e-6), ("7μs", 7e-6)],
)
def test_times(text: str, seconds: float) -> None:
    assert units.parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "dollars"), [("$1.29/h", 1.29), (" $ 2 / hour", 2.0), ("$0/h", 0.0)])
def test_prices(text: str, dollars: float) -> None:
    assert units.parse_price(text) == dollars


@pytest.mark.parametrize(
    ("text", "count"),
    [("7B", 7 * 10**9), ("405b", 405 * 10**9), ("350M", 350 * 10**6), (42, 42), ("1.5T", 15 * 10**11)],
)
def test_counts(text: object, count: int) -> None:
    assert units.parse_count(text) == count


@pytest.mark.parametrize(
    "value", [80, 80.0, "80", "80 cows", "-80GB", "1e999GB", "", None, True, [80], "80GB80GB", "2EB"]
)
def test_a_size_without_its_unit_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        units.parse_bytes(value)


@pytest.mark.parametrize(("value", "hint"), [(0.12, "12%"), ("0.05", "5%"), (12, "12%"), ("12", "12%")])
def test_a_fraction_never_stands_for_a_percentage(value: object, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse_percent(value)
    assert f"did you mean {hint}?" in caught.value.hint


@pytest.mark.parametrize("value", [3, "3", 0.08, "3 parsecs", "-1s", "1e300d", "1e308d", None, False])
def test_a_time_without_its_unit_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        units.parse_seconds(value)


@pytest.mark.parametrize("value", [1.29, "1.29", "$1.29", "1.29/h", "€1/h", "$-1/h", "$" + "9" * 30 + "/h", None])
def test_a_bare_price_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        units.parse_price(value)


@pytest.mark.parametrize("value", [pytest.param(10**5000, id="huge"), "1" * 50, "1e18B", "seven", -1, None])
def test_an_absurd_count_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        units.parse_count(value)


@given(st.integers(0, 1000 * GIB - GIB))
def test_a_printed_size_reads_back_within_its_digits(size: int) -> None:
    again = units.parse_bytes(units.format_bytes(size).replace(",", ""))
    step = GIB if size >= GIB // 2 else MIB if size >= MIB else KIB if size >= KIB else 0
    assert abs(again - size) <= 0.005 * step + 1


@given(st.floats(0, 1, allow_subnormal=False))
def test_a_printed_percentage_reads_back(share: float) -> None:
    assert units.parse_percent(units.format_percent(share, digits=3)) == pytest.approx(share, abs=5.1e-6)


@given(st.floats(1e-5, 1e7))
def test_a_printed_time_reads_back(seconds: float) -> None:
    assert units.parse_seconds(units.format_seconds(seconds)) == pytest.approx(seconds, rel=0.006)


@given(st.floats(0, 900))
def test_a_printed_price_reads_back(dollars: float) -> None:
    assert units.parse_price(units.format_price(dollars)) == pytest.approx(dollars, abs=0.0051)


@given(st.integers(10**6, 10**15))
def test_a_printed_count_reads_back(count: int) -> None:
    assert units.parse_count(units.format_count(count)) == pytest.approx(count, rel=0.006)


@given(st.integers(0, 2**50), st.sampled_from(["B", "KiB", "MiB", "kb", "MB"]))
def test_whole_numbers_of_a_unit_are_exact(number: int, unit: str) -> None:
    factor = {"B": 1, "KiB": KIB, "MiB": MIB, "kb": 1000, "MB": 10**6}[unit]
    if number * factor <= 2**53:
        assert units.parse_bytes(f"{number}{unit}") == number * factor


_anything = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50) | st.lists(st.integers())
)


@given(_anything)
def test_no_value_breaks_a_reading(value: object) -> None:
    for parse in (
        units.parse_bytes, units.parse_percent, units.parse_seconds, units.parse_price, units.parse_count
    ):  # fmt: skip
        with suppress(InputError):
            assert parse(value) >= 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(999.4, "999 s"), (999.5, "1000 s"), (1330.0, "1330 s"), (1e8, "27778 h")]
)
def test_durations_are_never_powers_of_ten(seconds: float, text: str) -> None:
    assert units.format_seconds(seconds) == text
