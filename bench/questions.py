"""`python -m bench.questions`: questions about documentation, and whether the answer comes first.

python -m bench.questions [profile ...]

`questions.toml` has 50 questions about the documentation of Django, SQLite, Git, dplyr and
data.table. The share of questions with a right passage among the first three hits is printed for
each profile, and the questions without one. The exit status is 1 if `default` has fewer than 45.

The documentation is not part of kb: KB_TREES names a folder with it, which `bench/trees.sh`
creates. It is ingested into `build/questions.sqlite`, or the store that KB_TREES_STORE names, which
takes several minutes the first time.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.timing import table
from kb import KnowledgeBase

QUESTIONS = Path(__file__).with_name("questions.toml")
FIRST = 3
REQUIRED = 45
DEPTH = 50  # how many hits are searched for a right passage
PROFILES = ("default", "lexical")


@dataclass(frozen=True, slots=True)
class Answer:
    """A passage that answers a question: its file, and a phrase that it contains."""

    path: str
    phrase: str

    def fits(self, path: str, text: str) -> bool:
        """Whether this passage is the answer. The first part of `path` is the name of the root."""
        if path.partition("/")[2] != self.path:
            return False
        return _plain(self.phrase) in _plain(text)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with all passages that answer it."""

    query: str
    answers: tuple[Answer, ...]


def read_questions(path: Path = QUESTIONS) -> tuple[Question, ...]:
    """Read the questions from a TOML file."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(
        Question(each["query"], tuple(Answer(*answer) for answer in each["answers"]))
        for each in data["question"]
    )


def rank(kb: KnowledgeBase, question: Question, profile: str) -> int | None:
    """The rank of the first right passage, from 1; None if it is not among the first 50."""
    hits = kb.search(question.query, profile=profile, top=DEPTH).hits
    for hit in hits:
        text = kb.get(hit.citation.uri, count=False).text
        headings = " ".join(hit.heading_path)
        if any(answer.fits(hit.doc_path, f"{headings} {text}") for answer in question.answers):
            return hit.rank
    return None


def main() -> int:
    folder = os.environ.get("KB_TREES")
    if not folder or not Path(folder).is_dir():
        print("no documentation trees: no questions asked (see bench/trees.sh, set KB_TREES)")
        return 0
    store = Path(os.environ.get("KB_TREES_STORE", "build/questions.sqlite"))
    store.parent.mkdir(parents=True, exist_ok=True)
    questions = read_questions()
    profiles = sys.argv[1:] or list(PROFILES)
    with KnowledgeBase(store) as kb:
        kb.ingest(folder)
        kb.embed()
        ranks = {name: [rank(kb, each, name) for each in questions] for name in profiles}
    header = (f"questions with a right passage among the first {FIRST}", "in the first 10")
    rows = [(name, _count(each, FIRST), _count(each, 10)) for name, each in ranks.items()]
    print(table(f"{len(questions)} questions about documentation", ("profile", *header), rows))
    for question, places in zip(questions, zip(*ranks.values(), strict=True), strict=True):
        if any(place is None or place > FIRST for place in places):
            shown = ", ".join(
                f"{name} {place or f'none in {DEPTH}'}"
                for name, place in zip(profiles, places, strict=True)
            )
            print(f"  {question.query}: {shown}")
    reached = _count(ranks.get("default", [1] * REQUIRED), FIRST)
    return 0 if reached >= REQUIRED else 1


def _count(ranks: Iterable[int | None], most: int) -> int:
    return sum(place is not None and place <= most for place in ranks)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


if __name__ == "__main__":
    sys.exit(main())
