"""`python -m kb`: the command line, also where its script is not on the PATH."""

from kb.cli import main

main()
