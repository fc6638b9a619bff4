"""`make mutants`: how many changes of the ranking code the tests notice.

    python -m tests.mutants [--sample N] [--seed S] [module ...]

Prints the mutants that no test noticed, then a table. The exit status is 1 where fewer than 95 % of
a module's mutants were noticed.
"""

from __future__ import annotations

import argparse
import sys

from tests.mutants.runner import Result, Target, chosen, run
from tests.mutants.targets import TARGETS

LEAST = 0.95


def main(arguments: list[str]) -> int:
    names = [target.module for target in TARGETS]
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("modules", nargs="*", metavar="module", help=", ".join(names))
    parser.add_argument("--sample", type=int, help="mutants of each module; all by default")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    options = parser.parse_args(arguments)
    if unknown := set(options.modules) - set(names):
        parser.error(f"no such module: {', '.join(sorted(unknown))}; modules: {', '.join(names)}")
    results = [
        _run(target, options.sample, options.seed)
        for target in TARGETS
        if target.module in (options.modules or names)
    ]
    print(table(results))
    return 0 if all(result.share >= LEAST for result in results) else 1


def _run(target: Target, sample: int | None, seed: int) -> Result:
    result = run(
        target,
        chosen(target, sample, seed),
        lambda mutant: print(f"{target.module}, {mutant}", flush=True),
    )
    print(_row(result), file=sys.stderr, flush=True)
    return result


def table(results: list[Result]) -> str:
    """A Markdown table: one row for each module, and their sum."""
    total = Result(Target("all", ()))
    for result in results:
        total.killed += result.killed
        total.timed_out += result.timed_out
        total.equivalent += result.equivalent
        total.survivors += result.survivors
        total.seconds += result.seconds
    header = "| module | mutants | killed | survived | timed out | equivalent | share | s |"
    return "\n".join([header, "|---" * 8 + "|", *map(_row, [*results, total])])


def _row(result: Result) -> str:
    survived = len(result.survivors)
    count = result.killed + result.timed_out + result.equivalent + survived
    cells = (result.target.module, count, result.killed, survived, result.timed_out,
             result.equivalent, f"{100 * result.share:.1f} %", f"{result.seconds:.0f}")  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
