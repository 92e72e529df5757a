"""`python -m cotenant` is `cotenant`."""

from cotenant.cli import main

main()
