"""Benchmarks: each prints a table, or with `--json` a list of rows. `python -m bench.NAME`."""
