"""Adaptive weights: the weight of each retriever depends on the query [002 R4]. Pure.

    at most 3 words                      lexical + 0.5   names and terms match by their words
    more than 10 words                   dense + 0.5     a sentence expresses a meaning
    technical marks                      sparse + 0.5    in code and formulas, rare terms decide
    who, what, when, where, why, how     dense + 0.3     answers use other words than questions
      at the start

The weights of a profile (1 by default) are multiplied by 1 plus these increments, and then scaled
to a sum of 1 over the retrievers that ran.

A word is a stretch without spaces that contains a letter or a digit. In scripts without spaces, two
characters count as one word. In Chinese, Japanese and Korean, a question word counts anywhere in
the query, because it takes the place of the answer.

Technical marks are what people write in code and formulas but not in prose: see `MARKS`. Hyphens,
apostrophes, slashes, abbreviations (`e.g.`), plurals in brackets (`file(s)`), names such as
`iPhone` or `mRNA`, web addresses, square meters and charges of ions do not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import fsum
from unicodedata import category

from kb.text.normalize import unspaced_runs, without_unspaced_runs
from kb.values import Any, dataclass

FEW_WORDS, MANY_WORDS = 3, 10
_LETTERS_PER_WORD = 2  # in scripts without spaces


@dataclass(frozen=True, slots=True)
class QueryWeights:
    """The weights of the retrievers for a query, and the rules that changed them."""

    weights: Mapping[str, float]
    rules: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """The details that `--explain` shows."""
        return {"weights": dict(self.weights), **({"rules": "; ".join(self.rules)} if self.rules
                                                  else {})}  # fmt: skip


def adapt_weights(text: str, base: Mapping[str, float]) -> QueryWeights:
    """The weights for the query `text`. `base` has the profile's weights of the retrievers that
    ran; the result has a sum of 1."""
    rules = [rule for rule in _rules(text) if rule[0] in base]
    weights = {
        name: weight * (1.0 + fsum(rise for retriever, rise, _ in rules if retriever == name))
        for name, weight in base.items()
    }
    shown = tuple(f"{reason}: {retriever} +{rise:g}" for retriever, rise, reason in rules)
    return QueryWeights(_sum_to_one(weights), shown)


def _sum_to_one(weights: Mapping[str, float]) -> dict[str, float]:
    total = fsum(weights.values())
    if total <= 0.0:
        return {name: 1.0 / len(weights) for name in weights}
    return {name: weight / total for name, weight in weights.items()}


def _rules(text: str) -> list[tuple[str, float, str]]:
    """The rules that apply: retriever, increment and reason."""
    words = word_count(text)
    marks = technical_marks(text)
    question = question_word(text)
    rules = []
    if words <= FEW_WORDS:
        rules.append(("lexical", 0.5, f"at most {FEW_WORDS} words"))
    if words > MANY_WORDS:
        rules.append(("dense", 0.5, f"more than {MANY_WORDS} words"))
    if marks:
        rules.append(("sparse", 0.5, f"technical ({', '.join(marks)})"))
    if question is not None:
        rules.append(("dense", 0.3, f"a question ({question})"))
    return rules


def word_count(text: str) -> int:
    """The number of words; two characters of an unspaced script count as one."""
    spaced = sum(any(map(str.isalnum, word)) for word in without_unspaced_runs(text).split())
    letters = (len(run) for run in unspaced_runs(text))
    return spaced + sum(-(-count // _LETTERS_PER_WORD) for count in letters)


# --- questions ------------------------------------------------------------------------------------

# At the start, after any punctuation; `how-to` and `whatever` do not match.
_ENGLISH = r"\W*(who|what|when|where|why|how)(?:['’](?:s|re|d|ll|ve|m))?(?![\w'’-])"
# Anywhere, except where the same characters are part of another word (任何 any, 几何 geometry,
# いつも always, 왜곡 distortion).
_EASTERN = (
    "谁|誰|什么|什麼|甚麼|哪[里裡裏儿兒个個些位年天种種]|(?<=[在去到从從])哪(?!怕)|为何|為何|怎么|怎麼|怎样|怎樣|如何|多少"
    "|(?<![任几幾])何(?![况況必不])"
    "|だれ|なに|なぜ|どうして|どうやって|どのよう|どんな|(?<!ほ)どの|どれ|どこ(?!か(?!ら))|いつ(?!も|か(?!ら))"
    "|どうすれば|どうしたら|(?<![^はがを、。\\s])なんで(?![もすしあは])|いくら(?!か(?!か)|でも|も|丼)"
    "|누구(?!나)|누가|무엇|뭐|무슨|언제(?!나)|어디|어떻게|어떤|얼마|몇|어느(?!덧|새|\\s?날|\\s?정도)|(?<!\\S)왜요?(?![가-힣])"
)


def question_word(text: str) -> str | None:
    """The question word of the query; None if the query is not a question."""
    if match := _compile(_ENGLISH, re.IGNORECASE).match(text):
        return match[1].lower()
    if text.isascii():
        return None
    match = _compile(_EASTERN, 0).search(text)
    return None if match is None else match[0]


# --- technical marks ------------------------------------------------------------------------------

_NAME = r"[A-Za-z_]\w+"
# The patterns, by the name that `--explain` shows.
MARKS: Mapping[str, str] = {
    # f(x), open(), O(n); not file(s), not a(n), not a (remark)
    "call": r"[A-Za-z0-9_]\((?!(?:s|es|e|n|r)\))|(?<![A-Za-z0-9_])[B-Zb-z]\(",
    "brackets": r"[{}]|[A-Za-z0-9_]\[|\[(?!\d+(?:[,–-]\s?\d+)*\]|sic\]|…|\.\.\.)[^\[\]]*\]",
    "operator": r"::|->|=>|[=!:<>]=|&&|\|\||[+*/-]=|<<|>>|;\s*$|(?<!\w)[Ca-z]\+\+",  # C++, i++
    # In capitals, or with `*`: `select` and `from` also occur together in prose.
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
    """The kinds of technical marks in the query, by their names in `MARKS`."""
    kinds = [name for name, pattern in MARKS.items() if _compile(pattern, 0).search(text)]
    if not text.isascii() and any(map(_is_symbol, text)):
        kinds.append("symbol")
    return tuple(kinds)


# Symbols on keyboards, the charge of an ion, and the full-width symbols of Chinese text.
_EVERYDAY_SYMBOLS = "+<=>|~⁺⁻＋＜＝＞｜～￢￩￪￫￬"


def _is_symbol(char: str) -> bool:
    """Whether the character is a mathematical symbol that keyboards lack, such as ∑ and ≤."""
    return category(char) == "Sm" and char not in _EVERYDAY_SYMBOLS


@lru_cache(maxsize=32)
def _compile(pattern: str, flags: int) -> re.Pattern[str]:
    """Compile a pattern on first use, because most searches need none."""
    return re.compile(pattern, flags)
