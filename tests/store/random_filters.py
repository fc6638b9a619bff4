"""Random filters, and which documents pass them: evaluated here, without SQL."""

from __future__ import annotations

import random
from typing import Any

from kb.types import Filters
from tests.store.dense_vectors import NOW

LATER = "2026-06-28T20:26:40Z"
SHARES = {"p1": 0.001, "p5": 0.005, "p20": 0.02, "p100": 0.1, "p500": 0.5}
Facts = dict[str, Any]


def passes(facts: Facts, path: str, asked: Filters) -> bool:
    return (
        (facts["expires_at"] is None or facts["expires_at"] > NOW)
        and set(asked.tags) <= set(facts["tags"])
        and (not asked.tags_any or bool(set(asked.tags_any) & set(facts["tags"])))
        and (not asked.type or facts["type"] in asked.type)
        and (not asked.kind or facts["kind"] in asked.kind)
        and asked.lang in (None, facts["lang"])
        and (asked.trust_min is None or facts["trust"] in ("primary", "secondary"))
        and (asked.after is None or facts["date"] >= asked.after)
        and (asked.path_glob is None or path.startswith(asked.path_glob.removesuffix("*")))
    )


def random_filters(chance: random.Random) -> Filters:
    values: dict[str, Any] = {
        "tags": tuple(chance.sample(list(SHARES), chance.choice([1, 1, 1, 2]))),
        "tags_any": tuple(chance.sample(list(SHARES), 2)),
        "type": tuple(chance.sample(["note", "markdown", "code"], chance.choice([1, 2]))),
        "kind": (chance.choice(["decision", "lesson"]),),
        "lang": chance.choice(["en", "de"]),
        "trust_min": "secondary",
        "after": f"20{chance.randint(10, 26)}-01-01",
        "path_glob": f"d{chance.randrange(8)}/*",
    }
    return Filters(**{name: values[name] for name in chance.sample(list(values), chance.choice(
        [1, 1, 2, 3]))})  # fmt: skip
