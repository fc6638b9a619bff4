"""`python -m kb`: the command line, even if its script is not on the PATH."""

from kb.cli import main

main()
