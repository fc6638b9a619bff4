"""The modules that `make mutants` changes, each with the tests that must notice.

A mutant that no test can tell from the original is named here with the reason. Prefer a simpler
line of code that has no such mutant.
"""

from __future__ import annotations

from tests.mutants.runner import Target

TARGETS = (
    Target(
        "search/fusion",
        ("tests/search/test_fusion.py",),
        {
            (
                "least = min(scores.values(), default=0.0)",
                "least = min(scores.values(), default=1.0)",
            ): "a list without scores gives every candidate the same, whatever that is",
        },
    ),
    Target("search/adaptive", ("tests/search/test_adaptive.py",)),
    Target("search/agreement", ("tests/search/test_agreement.py",)),
    Target("search/boosts", ("tests/search/test_boosts.py",)),
    Target("search/rerank_blend", ("tests/search/test_rerank_blend.py",)),
    Target(
        "search/rerank",
        ("tests/search/test_rerank_stage.py",),
        {
            (
                "pace_ms = max(1e-6, (before_ms - after_ms) / (end - start))",
                f"pace_ms = max({other}, (before_ms - after_ms) / (end - start))",
            ): "any small number keeps from dividing by zero"
            for other in ("1.1e-06", "9e-07")
        },
    ),
    Target("search/rerank_colbert", ("tests/search/test_rerank_colbert.py",)),
    Target("search/rerank_cross", ("tests/search/test_rerank_stage.py",)),
    Target("search/reranked", ("tests/search/test_rerank_stage.py",)),
    Target(
        "search/rerankers",
        ("tests/search/test_rerankers.py",),
        {
            (
                '_OFF, _LACKING = "off", "lacking"',
                f"_OFF, _LACKING = {other}",
            ): "names that do not leave the module"
            for other in ("\"off\", 'lackingX'", "'offX', \"lacking\"")
        },
    ),
    Target("store/filters", ("tests/store/test_filters.py",)),
    Target("globs", ("tests/test_globs.py",), without="takes_long or all_ways_to_match"),
    Target("evaluation/metrics", ("tests/evaluation/test_metrics.py",)),
    Target("citations", ("tests/test_citations.py",)),
)
