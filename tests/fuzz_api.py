"""Hostile values for every method of `KnowledgeBase`.

    python -m tests.fuzz_api --count 1000000 --seed 1

Most calls are searches, with random queries, expressions and filters; the others are drawn from all
public methods. Whatever the values are, a call returns a result or raises one of kb's own errors. A
call that takes over ten seconds is a problem too.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kb import Filters, KnowledgeBase
from kb.config import Config, ModelsConfig
from kb.errors import KbError
from tests.models.weightless import Weightless

SLOW_S = 10.0
WORDS = (
    "radio buoy battery sleep window slot salt water 東京 首都 Привет naïve target_host targetHost "
    "foo.bar() C++ a b the of and AND OR NOT NEAR kb:// note:1 #tag 2026-05-28 ﷽ 𝔘𝔫𝔦 e\u0301"
).split()
PIECES = (
    '"', "'", "*", "(", ")", "^", ":", "-", "+", "{", "}", ",", "\\", "\0", "\n", "\t", "\x1b[31m",
    "\ud800", "\udcff", "\ufffe", "\u202e", "%", "_", "?", "[", "]", "!", "#L1-L2", "#page=3", "~",
    " OR ", " AND ", " NOT ", " NEAR(", ", 5)", "heading:", "text:", "parts :", "{text heading}:",
    "note:", "files/", "../", "/", "//", "C:\\", ".", "..", "\u0000", "\u2028", "\u0300" * 40,
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308,
    float("inf"), float("-inf"), float("nan"), "", " ", "\0", "\ud800", b"", b"\xff", (), [], {},
    [None], [[]], {"a": 1}, {1: 2}, object(), set(), frozenset({1}), range(3), Ellipsis, int,
    "x" * 70_000,
    1j, ["a", 1], ("\ud800",), {"\ud800": 1}, Path("x"), Filters(), 10**30, "9" * 5000,
)  # fmt: skip


class Values:
    """Random values, by a seed."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def text(self, most: int = 8) -> str:
        chance = self.chance
        parts = []
        for _ in range(chance.randint(0, most)):
            kind = chance.random()
            if kind < 0.5:
                parts.append(chance.choice(WORDS))
            elif kind < 0.8:
                parts.append(chance.choice(PIECES))
            elif kind < 0.9:
                parts.append(chr(chance.randrange(0x110000)))
            else:
                parts.append(chance.choice(WORDS) * chance.randint(1, 20))
        text = chance.choice(("", " ")).join(parts)
        return f"'{text}'" if chance.random() < 0.3 else text

    def name(self) -> str:
        known = (
            "files/a.md",
            "files/b.txt",
            "note:1",
            "note:2",
            "files/a.md#L1-L2",
            "files/",
            "a.md",
        )
        return self.chance.choice(known) if self.chance.random() < 0.5 else self.text(4)

    def any(self) -> Any:
        return self.chance.choice(ODD) if self.chance.random() < 0.8 else self.text()

    def texts(self) -> Any:
        if self.chance.random() < 0.1:
            return self.any()
        many = 2000 if self.chance.random() < 0.002 else 4
        return tuple(self.text(2) for _ in range(self.chance.randint(0, many)))

    def filters(self) -> Any:
        if self.chance.random() < 0.05:
            return self.any()
        said: dict[str, Any] = {}
        for name, make in _FILTERS.items():
            if self.chance.random() < 0.2:
                said[name] = make(self)
        return Filters(**said)

    def nested(self, depth: int) -> Any:
        value: Any = self.any()
        for _ in range(depth):
            value = {"a": value} if self.chance.random() < 0.5 else [value]
        return value

    def metadata(self) -> Any:
        kind = self.chance.random()
        if kind < 0.2:
            return self.any()
        if kind < 0.4:
            return {"deep": self.nested(self.chance.choice((3, 30, 900, 5000)))}
        return {self.text(2): self.nested(self.chance.randint(0, 3))}


def _choice(*values: Any) -> Callable[[Values], Any]:
    return lambda v: v.chance.choice(values) if v.chance.random() < 0.7 else v.any()


_FILTERS: dict[str, Callable[[Values], Any]] = {
    "tags": Values.texts,
    "tags_any": Values.texts,
    "type": _choice(("markdown",), ("note", "text"), ("nothing",)),
    "kind": _choice(("lesson",), ("fact",), ()),
    "scope": _choice("global", "project", "x"),
    "lang": _choice("en", "python", ""),
    "trust_min": _choice("primary", "secondary", "x"),
    "path_glob": _choice("**/*.md", "files/*", "[", "[a-", "**" * 20, "{a,b}", "\\", "*a*b*c"),
    "after": _choice("2026-01-01", "2026-01-01T00:00:00+14:00", "0001-01-01", "x", "9999-99-99"),
    "before": _choice("2026-01-01", "10000-01-01", "2026-02-30"),
}

_SEARCH: dict[str, Callable[[Values], Any]] = {
    "top": _choice(1, 5, 50, 1000),
    "profile": _choice("lexical", "notes", "research", "docs", "nothing"),
    "mode": _choice("lexical", "vector", "hybrid", "sparse"),
    "match": _choice("all", "any"),
    "filters": Values.filters,
    "threshold": _choice(0.0, 0.5, 1.0, -1),
    "rerank": _choice(True, False, "none", "colbert"),
    "budget_ms": _choice(1, 100, 0),
    "explain": _choice(True, False),
    "malformed": _choice("raise", "empty"),
    "settings": _choice({"k": 10}, {"weights": {"lexical": 2}}, {"x": 1}, {"k": float("nan")}),
}


def _options(v: Values, known: dict[str, Callable[[Values], Any]], share: float) -> dict[str, Any]:
    return {name: make(v) for name, make in known.items() if v.chance.random() < share}


def search(kb: KnowledgeBase, v: Values) -> object:
    query = v.any() if v.chance.random() < 0.02 else v.text()
    return kb.search(query, **_options(v, _SEARCH, 0.12))


def read(kb: KnowledgeBase, v: Values) -> object:
    given = v.any() if v.chance.random() < 0.1 else v.name()
    return v.chance.choice((
        lambda: kb.get(given), lambda: kb.get(given, count=False), lambda: kb.document(given),
        lambda: kb.chunks(given), lambda: kb.chunk(v.any()), lambda: kb.similar(given),
        lambda: kb.similar(v.any(), top=v.any(), filters=v.filters(), group=v.any()),
        lambda: kb.documents(v.filters(), limit=v.any(), offset=v.any(), expired=v.any()),
        lambda: kb.documents(v.filters()), lambda: kb.highlights(v.text(), v.text(30)),
        lambda: kb.highlights(v.any(), v.any()),
    ))()  # fmt: skip


def search_otherwise(kb: KnowledgeBase, v: Values) -> object:
    vector = v.chance.choice(([0.1] * 64, [0.0] * 64, [float("nan")] * 64, [1.0], v.any()))
    return v.chance.choice((
        lambda: kb.search_lexical(v.text(), limit=v.any()),
        lambda: kb.search_vector(v.text(), embedding=vector, limit=v.any()),
        lambda: kb.search_sparse(v.text(), limit=v.any()),
        lambda: kb.search_hybrid(v.text(), embedding=vector, k=v.any(), limit=v.any()),
        lambda: kb.compare(v.text(), top=v.any(), filters=v.filters()),
    ))()  # fmt: skip


def write(kb: KnowledgeBase, v: Values) -> object:
    given = v.any() if v.chance.random() < 0.1 else v.name()
    add = {
        "title": Values.text, "tags": Values.texts, "kind": _choice("lesson", "x"),
        "scope": _choice("global", "x"), "trust": _choice("primary", "x"), "lang": Values.text,
        "ttl": _choice("7d", "1h", "never", "-1d", "9" * 400 + "d", "1e9d"),
        "metadata": Values.metadata,
    }  # fmt: skip
    return v.chance.choice((
        lambda: kb.add(v.text(20), **_options(v, add, 0.3)),
        lambda: kb.add(v.any(), **_options(v, dict.fromkeys(add, Values.any), 0.3)),
        lambda: kb.tag(given, add=v.texts(), remove=v.texts()),
        lambda: kb.remove(given) if given not in ("files/", "files/a.md") else None,
        lambda: kb.embed(document=given, limit=v.any()),
        lambda: kb.embed(limit=v.any()),
        lambda: kb.gc(dry_run=v.any()),
        lambda: kb.ingest(v.any(), dry_run=True),
        lambda: kb.reindex(v.any(), grace_s=v.any()),
        lambda: kb.retry(),
    ))()  # fmt: skip


def files(kb: KnowledgeBase, v: Values) -> object:
    lines = b"\n".join(v.text().encode("utf-8", "surrogatepass") for _ in range(3))
    return v.chance.choice((
        lambda: kb.backup(v.any()), lambda: kb.export(v.any()), lambda: kb.import_(v.any()),
        lambda: kb.import_(io.BytesIO(lines)), lambda: kb.status(), lambda: kb.jobs(),
        lambda: kb.tags(), lambda: kb.roots(), lambda: kb.profiles(), lambda: kb.index_version(),
        lambda: kb.pending(),
    ))()  # fmt: skip


CALLS = (search, read, search_otherwise, write, files)
WEIGHTS = (70, 20, 4, 4, 2)


class Fuzzer:
    """Calls methods with random values, and collects problems. `folder` is the current folder, so
    that values that happen to be file names write there."""

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder = folder
        self._seed = seed
        self._stores = 0
        self.problems: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()

    def run(self, count: int, *, each_store: int = 5000) -> None:
        for start in range(0, count, each_store):
            with self._store() as kb:
                for number in range(start, min(start + each_store, count)):
                    self._call(kb, number)

    def _store(self) -> KnowledgeBase:
        """A small store, created again from time to time, because the calls change it."""
        self._stores += 1
        files = self._folder / "files"
        files.mkdir(exist_ok=True)
        (files / "a.md").write_text(
            "---\ntags: [sea]\n---\n# Radio\n\nA buoy.\n\n## Two\n\nSalt.\n"
        )
        (files / "b.txt").write_text("salt water battery\n")
        kb = KnowledgeBase(
            self._folder / f"{self._stores}.sqlite",
            encoder=Weightless(),
            config=Config(models=ModelsConfig(exam=False)),
        )
        kb.ingest(files)
        kb.add("radio battery targetHost 東京", tags=["mine"])
        kb.add("a window that closes", ttl="1h")
        kb.embed()
        return kb

    def _call(self, kb: KnowledgeBase, number: int) -> None:
        values = Values(random.Random(f"{self._seed}-{number}"))
        (call,) = values.chance.choices(CALLS, WEIGHTS)
        started = time.monotonic()
        try:
            call(kb, values)
            self.outcomes["answered"] += 1
        except KbError as error:
            self.outcomes[error.code] += 1
            if error.code == "store_unusable":
                self.problems[f"{self._seed}-{number} {call.__name__}: {error.message}"] += 1
        except Exception as error:  # noqa: BLE001  # that is what is looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {str(error)[:80]!r} ({place.filename}:{place.lineno})"
            self.problems[f"{call.__name__}: {what}"] += 1
        if time.monotonic() - started > SLOW_S:
            self.problems[f"{self._seed}-{number} {call.__name__}: took over {SLOW_S:.0f} s"] += 1


def main() -> int:
    import os

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=10_000)
    arguments.add_argument("--seed", default="0")
    said = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        started = time.monotonic()
        fuzzer = Fuzzer(Path(folder), said.seed)
        fuzzer.run(said.count)
        seconds = time.monotonic() - started
        os.chdir("/")
    for problem, count in fuzzer.problems.most_common():
        sys.stdout.write(f"{count} {problem}\n")
    told = ", ".join(f"{count} {name}" for name, count in fuzzer.outcomes.most_common())
    sys.stdout.write(f"{said.count} calls in {seconds:.0f} s: {told}\n")
    return 1 if fuzzer.problems else 0


if __name__ == "__main__":
    sys.exit(main())
