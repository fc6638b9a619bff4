"""`make mutants`, second half: the conformance tests notice every change to the rules of the seeds.

python -m tests.mutants.seeds [part of a rule ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from tests.mutants.runner import SURVIVED, Target, baseline, run_child
from tests.mutants.seed_changes import CHANGES, Change


def unnoticed(
    changes: Sequence[Change], on_result: Callable[[Change, bool], None] = lambda *_: None
) -> list[Change]:
    """The changes that their conformance test does not notice. `on_result` is called with each
    change and whether it was noticed."""
    survivors = []
    tests = tuple(dict.fromkeys(change.node for change in changes))
    limit_s = baseline(Target(changes[0].module, tests))
    for change in changes:
        target = Target(change.module, (change.node,))
        noticed = run_child(target, change.made(), limit_s) != SURVIVED
        on_result(change, noticed)
        if not noticed:
            survivors.append(change)
    return survivors


def main(words: Sequence[str]) -> int:
    chosen = [one for one in CHANGES if not words or any(word in one.rule for word in words)]
    lost = [one for one in chosen if not one.applies()]
    for change in lost:
        print(f"write again, its code is gone from {change.module}: {change.rule}")
    made = [one for one in chosen if one not in lost]
    survivors = unnoticed(made, _print_result)
    print(f"\n{len(made) - len(survivors)} of {len(chosen)} changes to the seeds' rules noticed")
    return 1 if survivors or lost else 0


def _print_result(change: Change, noticed: bool) -> None:
    told = "." if noticed else f"\nnot noticed: {change.rule} (by {change.node})\n"
    print(told, end="", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
