"""Adaptive weights: what each retriever counts for this query (spec 6 [002 R4]). Pure.

    at most 3 words                      lexical + 0.5   names and terms are found by their words
    more than 10 words                   dense + 0.5     a whole sentence says what it means
    technical marks                      sparse + 0.5    code and formulas: rare terms decide
    who, what, when, where, why, how     dense + 0.3     the answer has other words than a question
      at the start

Each retriever starts at 1 (or at its weight in the profile, of which these are parts), then all are
scaled to sum up to 1 over those that answered.

A word is a stretch without spaces that holds a letter or a digit. In scripts without spaces, two
characters count as one. Chinese, Japanese and Korean put the question word where the answer would
stand, so there it counts anywhere in the query.

Technical marks are what people write in code and formulas and not in prose: see `MARKS`. A hyphen,
an apostrophe, a slash, an abbreviation (`e.g.`), a plural in brackets (`file(s)`), a name such as
`iPhone` or `mRNA`, the address of a site, a square metre and the charge of an ion are none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import fsum
from typing import Any
from unicodedata import category

from kb.text.normalize import unspaced_runs, without_unspaced_runs

FEW_WORDS, MANY_WORDS = 3, 10
_LETTERS_A_WORD = 2  # in scripts without spaces


@dataclass(frozen=True, slots=True)
class QueryWeights:
    """Weights, and the rules that made them what they are."""

    weights: Mapping[str, float]
    rules: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """As `--explain` shows them."""
        return {"weights": dict(self.weights), **({"rules": "; ".join(self.rules)} if self.rules
                                                  else {})}  # fmt: skip


def adapt_weights(text: str, base: Mapping[str, float]) -> QueryWeights:
    """The weights of those retrievers that answered, for the query `text`; they sum up to 1."""
    fired = [(retriever, rise, why) for retriever, rise, why in _rules(text) if retriever in base]
    weights = {
        name: weight * (1.0 + fsum(rise for retriever, rise, _ in fired if retriever == name))
        for name, weight in base.items()
    }
    rules = tuple(f"{why}: {retriever} +{rise:g}" for retriever, rise, why in fired)
    return QueryWeights(_sum_to_one(weights), rules)


def _sum_to_one(weights: Mapping[str, float]) -> dict[str, float]:
    total = fsum(weights.values())
    if total <= 0.0:
        return {name: 1.0 / len(weights) for name in weights}
    return {name: weight / total for name, weight in weights.items()}


def _rules(text: str) -> list[tuple[str, float, str]]:
    """Those that hold: retriever, rise, and why."""
    words = word_count(text)
    marks = technical_marks(text)
    asked = question_word(text)
    rules = []
    if words <= FEW_WORDS:
        rules.append(("lexical", 0.5, f"at most {FEW_WORDS} words"))
    if words > MANY_WORDS:
        rules.append(("dense", 0.5, f"more than {MANY_WORDS} words"))
    if marks:
        rules.append(("sparse", 0.5, f"technical ({', '.join(marks)})"))
    if asked is not None:
        rules.append(("dense", 0.3, f"a question ({asked})"))
    return rules


def word_count(text: str) -> int:
    """Words, with two characters of an unspaced script for one."""
    spaced = sum(any(map(str.isalnum, word)) for word in without_unspaced_runs(text).split())
    letters = (len(run) for run in unspaced_runs(text))
    return spaced + sum(-(-count // _LETTERS_A_WORD) for count in letters)


# --- questions ------------------------------------------------------------------------------------

# At the start, whatever punctuation status before; `how-to` and `whatever` are no questions.
_ENGLISH = r"\W*(who|what|when|where|why|how)(?:['’](?:s|re|d|ll|ve|m))?(?![\w'’-])"
# Anywhere; what looks the same inside of other words (任何 any, 几何 geometry, いつも always, 왜곡
# distortion) is left out.
_EASTERN = (
    "谁|誰|什么|什麼|甚麼|哪[里裡裏儿兒个個些位年天种種]|(?<=[在去到从從])哪(?!怕)|为何|為何|怎么|怎麼|怎样|怎樣|如何|多少"
    "|(?<![任几幾])何(?![况況必不])"
    "|だれ|なに|なぜ|どうして|どうやって|どのよう|どんな|(?<!ほ)どの|どれ|どこ(?!か(?!ら))|いつ(?!も|か(?!ら))"
    "|どうすれば|どうしたら|(?<![^はがを、。\\s])なんで(?![もすしあは])|いくら(?!か(?!か)|でも|も|丼)"
    "|누구(?!나)|누가|무엇|뭐|무슨|언제(?!나)|어디|어떻게|어떤|얼마|몇|어느(?!덧|새|\\s?날|\\s?정도)|(?<!\\S)왜요?(?![가-힣])"
)


def question_word(text: str) -> str | None:
    """The word that makes a question of the query; None where there is none."""
    if found := _compiled(_ENGLISH, re.IGNORECASE).match(text):
        return found[1].lower()
    if text.isascii():
        return None
    found = _compiled(_EASTERN, 0).search(text)
    return None if found is None else found[0]


# --- technical marks ------------------------------------------------------------------------------

_NAME = r"[A-Za-z_]\w+"
# What is looked for, under the name that `--explain` gives it.
MARKS: Mapping[str, str] = {
    # f(x), open(), O(n); not file(s), not a(n), not a (remark)
    "call": r"[A-Za-z0-9_]\((?!(?:s|es|e|n|r)\))|(?<![A-Za-z0-9_])[B-Zb-z]\(",
    "brackets": r"[{}]|[A-Za-z0-9_]\[|\[(?!\d+(?:[,–-]\s?\d+)*\]|sic\]|…|\.\.\.)[^\[\]]*\]",
    "operator": r"::|->|=>|[=!:<>]=|&&|\|\||[+*/-]=|<<|>>|;\s*$|(?<!\w)[Ca-z]\+\+",  # C++, i++
    # In capitals, or of everything: people do select one thing from another.
    "query": r"(?<!\w)(?:SELECT\s+(?:DISTINCT\s+)?(?:\*|\w+(?:\.\w+)?(?:\s*,\s*\w+(?:\.\w+)?)*)"
    r"\s+FROM|(?i:select\s+\*\s+from)|INSERT\s+INTO|DELETE\s+FROM|(?:CREATE|ALTER|DROP)\s+TABLE)(?!\w)",
    "snake_case": r"[A-Za-z0-9]_+[A-Za-z0-9]|(?<!\w)__\w",
    "camelCase": r"(?<![A-Za-z0-9])[a-z]{2,}[0-9]*(?:[A-Z][a-z0-9]+)+(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9])[a-z]{2,}[A-Z]{2,}[a-z]{2,}",
    "dotted.name": rf"(?<![\w.@/])(?!(?:Dr|Mr|Mrs|Ms|St|Fig|vs|etc)\.){_NAME}(?:\.{_NAME})+"
    r"(?<!\.com)(?<!\.org)(?<!\.net)(?<!\.edu)(?<!\.gov)(?!\.?[\w@])",
    "flag": r"(?<!\S)--[A-Za-z][\w-]*|(?<!\S)-[A-Za-z](?=\s|$)",
    "quoted code": r"(?<![\w`])`[^`\s][^`]*`|</?[A-Za-z][^<>]*>",
    "escape": r"\\[A-Za-z]+|\$[A-Za-z_({]|(?<!\w)0x[0-9A-Fa-f]+",  # \alpha, $HOME, 0x1f
    "formula": r"\w\s?=\s?[\w-]|\w\s?[<>]\s?-?\.?\d|[A-Za-z0-9)]\^[\w({-]|[A-Za-z0-9]\*[A-Za-z0-9]"
    r"|(?:\)|(?<![A-Za-z0-9/])[A-Za-ln-z])[⁰¹²³⁴-⁹ⁿ]+(?![⁺⁻⁰¹²³⁴-⁹])",  # x², not m², Ca²⁺
}


def technical_marks(text: str) -> tuple[str, ...]:
    """The kinds of technical marks that the query has, by their names in `MARKS`."""
    found = [name for name, pattern in MARKS.items() if _compiled(pattern, 0).search(text)]
    if not text.isascii() and any(map(_is_symbol, text)):
        found.append("symbol")
    return tuple(found)


# Those that keyboards have, the charge of an ion, and the wide ones of Chinese text.
_EVERYDAY_SYMBOLS = "+<=>|~⁺⁻＋＜＝＞｜～￢￩￪￫￬"


def _is_symbol(char: str) -> bool:
    """A mathematical one that no keyboard has: ∑ and ≤."""
    return category(char) == "Sm" and char not in _EVERYDAY_SYMBOLS


@lru_cache(maxsize=32)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    """When first used: most searches need none of them."""
    return re.compile(pattern, flags)
