"""`python -m cotenant.cli` is `cotenant`."""

from cotenant.cli import main

main()
