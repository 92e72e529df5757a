"""Which build of llama.cpp a record may come from: as it says, else by its date or by the style of its lines."""

from __future__ import annotations

import re
from dataclasses import replace

from bench.accuracy_rows import Row
from cotenant.domain.engine import Version
from cotenant.engines.llama_cpp.builds import BuildRules, build_rules
from cotenant.engines.ollama_releases import SERVER_SINCE, Release, build_number, own_build

# The build of a month: releases of PyPI's wheels and tags that changes are dated by.
_MONTHS = {
    (2023, 6): 700, (2023, 12): 1650, (2024, 1): 1800, (2024, 3): 2500, (2024, 12): 4350, (2025, 1): 4500,
    (2025, 2): 4700, (2025, 3): 4900, (2025, 4): 5100, (2025, 5): 5350, (2025, 6): 5600, (2025, 7): 5850,
    (2025, 8): 6150, (2025, 9): 6450, (2025, 10): 6750, (2025, 11): 7000, (2025, 12): 7400, (2026, 1): 7700,
    (2026, 2): 7950, (2026, 3): 8250, (2026, 4): 8650, (2026, 5): 9100, (2026, 6): 9500, (2026, 7): 9900,
    (2026, 8): 10350, (2026, 9): 10800, (2026, 10): 11400,
}  # fmt: skip
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# A line that only some builds print, and a build among them; the first that matches counts.
_UNIFIED = 6000
_STYLES = (
    ("n_outputs_max", 10229), ("n_seq_max             =", 10229), ("n_ctx                 =", 10229),
    ("sched_reserve", 9000), ("attn_rot", 9000), ("n_rs_seq", 9000), ("rs_seq)", 9000),
    ("llama_memory_breakdown", 7200), ("llama_kv_cache:", 7200), ("n_ctx_seq", 7200),
    ("llama_kv_cache_unified", _UNIFIED), ("llama_context:", 5200), ("input buffer size", 2300),
    ("llama_init_from_model", 4600), ("llama_kv_cache_init", 4500),
    ("llama_new_context_with_model", 2500),
)  # fmt: skip
# The first build whose architectures hold the model: a record cannot be older.
_SINCE = (("qwen35", 8000), ("gemma4", 8650), ("glm-dsa", 8000), ("qwen3next", 7200), ("mistral3", 7250))
# Builds that keep states to roll drafts back (pull 22673, May 2026), one for each way to reserve: as before, with
# the f16 mask, and with capped rows (builds.py). Without a number the one in the middle stands.
_ROLLBACK = (9230, 9400, 9460)


def builds_beside(row: Row) -> list[BuildRules]:
    """Other builds that print the record's lines, where it names none: those at which graphs changed."""
    if row["engine"] != "llama.cpp" or _said(row) is not None or not row["n_rs_seq"]:
        return []
    return [build_rules(Version((number,))) for number in _ROLLBACK]


def another_graph(row: Row) -> bool:
    """Whether what ran builds graphs of its own: a fork of llama.cpp."""
    return row["engine"] not in ("llama.cpp", "ollama")


def build_of(row: Row) -> BuildRules:
    """The build whose rules answer the record."""
    build = _numbered(row)
    if row["mla_mode"] is not None:
        build = replace(build, latent=row["mla_mode"] != "mha", latent_values=row["mla_mode"] == "kv")
    backend = (row["backend"] or "").lower()
    build = replace(build, vulkan=backend == "vulkan", cuda=backend in ("cuda", "rocm", "hip"))
    if is_own_engine(row):
        return own_build(build, release_of(row))
    if (row["engine"] == "ollama" and not _is_server(row)) or _LIBRARY.search((row["version"] or "").lower()):
        # Ollama's runner until 0.30, and what else is no server of llama.cpp's, asks for rows without a cap.
        build = replace(build, capped_outputs=False)
    return build


_LIBRARY = re.compile(r"python|library|completion|bench|sharp|wasi|\bios\b|android|node")


def release_of(row: Row) -> Release:
    """Ollama's release as the record says it, with 11 for what it leaves open ("0.11.x"); the newest that had an
    engine of its own where it says none."""
    match = re.search(r"(?<!\d)(\d+)\.(\d+)(?:\.(\d+|x))?", row["version"] or "")
    if match is None:
        return (0, 20, 0)
    return (int(match[1]), int(match[2]), int(match[3]) if (match[3] or "x") != "x" else 11)


def is_own_engine(row: Row) -> bool:
    """Whether the record says that Ollama's own engine ran, not llama.cpp's runner."""
    return row["engine"] == "ollama" and "ollama engine" in (row["version"] or "").lower()


def _is_server(row: Row) -> bool:
    """Whether a release of Ollama is named that starts upstream's server."""
    return _has_release(row) and release_of(row) >= SERVER_SINCE


def _has_release(row: Row) -> bool:
    return row["engine"] == "ollama" and re.search(r"(?<!\d)0\.\d+", row["version"] or "") is not None


def _said(row: Row) -> int | None:
    """The build number that the record names."""
    match = _NUMBER.search((row["version"] or "").lower())
    return int(next(filter(None, match.groups()))) if match else None


# b7522, "build: 4589 (abc)", or the number alone; a year behind "build" is none.
_NUMBER = re.compile(r"\bb(\d{3,5})\b|\bbuild:? (?!20[23]\d\b)(\d{3,5})\b|^(?!20[12]\d$)(\d{4,5})$")


def _numbered(row: Row) -> BuildRules:
    text, said = (row["version"] or "").lower(), _said(row)
    if said is not None:
        return build_rules(Version((said,)))
    if row["engine"] == "llama.cpp" and row["n_rs_seq"] and _dated(text) is None:
        return build_rules(Version((_ROLLBACK[1],)))
    if _has_release(row) and ((release_of(row) >= SERVER_SINCE) or not row.get("raw")):
        return build_rules(Version((build_number(release_of(row)),)))
    lines = "\n".join(row.get("raw") or ())
    styled = next((number for mark, number in _STYLES if mark in lines), 9000)
    if styled == _UNIFIED:  # streams came in July 2025, with "1/1 seqs"; rows were stored by index soon after
        styled = 6300 if re.search(r"\d/ ?\d+ seqs", lines) else 5700 if " seqs)" in lines else styled
    if row["engine"] == "ollama" and styled < 9000:  # it carried one build through the first half of 2026
        return build_rules(Version((min(_dated(text) or styled, 7437),)))
    since = next((number for mark, number in _SINCE if row["arch"] == mark), 0)
    return build_rules(Version((max(_dated(text) or styled, since),)))


def _dated(text: str) -> int | None:
    year = re.search(r"20\d\d", text)
    if year is None:
        return None
    month = next((n + 1 for n, name in enumerate(_NAMES) if name in text), None)
    digits = re.search(r"20\d\d-(\d\d)", text)
    if digits:
        month = int(digits.group(1))
    return _MONTHS.get((int(year.group()), month)) if month else None
