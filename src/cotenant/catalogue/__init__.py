"""Facts as data, each with its source and date, and the strict parsers that read them: cards, formats, models."""

VERSION = "2026.11"
"""When the facts were last brought up to date; every document names it."""
