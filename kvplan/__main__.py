"""`python -m kvplan`: the same as the command."""

from kvplan.cli import main

main()
