"""`make mutants`, second half: the conformance tests notice every change to what the seeds ask for.

python -m tests.mutants.seeds [part of a rule ...]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.mutants.runner import Target, baseline, run_child
from tests.mutants.seed_changes import CHANGES, Change


def unnoticed(changes: Sequence[Change]) -> list[Change]:
    """The changes that the conformance tests of their seeds let pass."""
    survivors = []
    timeouts: dict[tuple[str, ...], float] = {}
    for change in changes:
        tests = tuple(f"tests/conformance/test_seed_00{seed}.py" for seed in change.seeds.split())
        target = Target(change.module, tests)
        if tests not in timeouts:
            timeouts[tests] = baseline(target)
        source = target.path.read_text(encoding="utf-8").replace(change.old, change.new)
        noticed = run_child(target, source, timeouts[tests]) != 0
        print("." if noticed else f"\nnot noticed: {change.rule}", end="", flush=True)
        if not noticed:
            survivors.append(change)
    print()
    return survivors


def main(words: Sequence[str]) -> int:
    chosen = [one for one in CHANGES if not words or any(word in one.rule for word in words)]
    survivors = unnoticed(chosen)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} changes to the seeds' rules noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
