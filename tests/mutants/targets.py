"""The modules that `make mutants` changes, each with the tests that must notice.

A mutant that no test can tell from the original is named here with the reason. Prefer a simpler
line of code that has no such mutant.
"""

from __future__ import annotations

from tests.mutants.runner import Target

TARGETS = (
    Target(
        "search/ranking/fusion",
        ("tests/search/ranking/test_fusion.py",),
        {
            (
                "least = min(scores.values(), default=0.0)",
                "least = min(scores.values(), default=1.0)",
            ): "a list without scores gives every candidate the same, whatever that is",
        },
    ),
    Target("search/ranking/adaptive", ("tests/search/ranking/test_adaptive.py",)),
    Target("search/ranking/agreement", ("tests/search/ranking/test_agreement.py",)),
    Target("search/ranking/word_match", ("tests/search/ranking/test_word_match.py",)),
    Target("search/ranking/code", ("tests/search/ranking/test_code.py",)),
    Target("search/ranking/boosts", ("tests/search/ranking/test_boosts.py",)),
    Target("search/ranking/calibration", ("tests/search/ranking/test_fusion.py",)),
    Target(
        "search/rerank/blend",
        ("tests/search/rerank/test_blend.py", "tests/search/rerank/test_stage.py"),
    ),
    Target(
        "search/rerank/stage",
        ("tests/search/rerank/test_stage.py",),
        {
            (
                "pace_ms = max(1e-6, (before_ms - after_ms) / (end - start))",
                f"pace_ms = max({other}, (before_ms - after_ms) / (end - start))",
            ): "any small number keeps from dividing by zero"
            for other in ("1.1e-06", "9e-07")
        },
    ),
    Target("search/rerank/late_interaction", ("tests/search/rerank/test_late_interaction.py",)),
    Target("search/rerank/cross_encoder", ("tests/search/rerank/test_stage.py",)),
    Target(
        "search/rerank/selection",
        ("tests/search/rerank/test_selection.py",),
        {
            (
                '_OFF, _LACKING = "off", "lacking"',
                f"_OFF, _LACKING = {other}",
            ): "names that do not leave the module"
            for other in ("\"off\", 'lackingX'", "'offX', \"lacking\"")
        },
    ),
    Target("store/sqlite/filters", ("tests/store/test_filters.py",)),
    Target("text/globs", ("tests/text/test_globs.py",), without="takes_long or all_ways_to_match"),
    Target("evaluation/metrics", ("tests/evaluation/test_metrics.py",)),
    Target("text/citations", ("tests/text/test_citations.py",)),
)
