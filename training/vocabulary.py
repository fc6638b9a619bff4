"""A tokenizer that also reads other languages: kb-mini's English word pieces, and new ones.

    python -m training.vocabulary WORK

reads `tokenizer.json` and the texts of WORK, and writes `tokenizer-extended.json`. English words
get the same tokens as before: a new piece that would change one of them is left out. Accents are
removed from Latin letters only: in other scripts the marks belong to the word (the decomposed form
of a kana or a Hangul syllable is another letter). Runs of kana, Hangul and Thai are split from what
they touch, so that `Pythonで` contains the word `python`; each Han character is a separate token.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

NEW_PIECES = 54_000
LINES_EACH = 40_000  # lines of a language that the pieces are learned from
MARKS = r"(?<=\p{Latin})\p{Mn}+"
RUNS = r"[\p{Katakana}ー]+|\p{Hiragana}+|\p{Hangul}+|\p{Thai}{1,32}"


def parallel_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """English text, language and translation of each line. An empty English field means the
    previous text."""
    english = ""
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            first, language, text = line.rstrip("\n").split("\t")
            english = first or english
            yield english, language, text


def normalizer() -> normalizers.Normalizer:
    return normalizers.Sequence(
        [
            normalizers.NFD(),
            normalizers.Replace(Regex(MARKS), ""),
            normalizers.NFC(),
            normalizers.BertNormalizer(strip_accents=False, lowercase=True),
        ]
    )


def pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.BertPreTokenizer(),
            pre_tokenizers.Split(Regex(RUNS), behavior="isolated"),
        ]
    )


def learned_pieces(lines: list[str]) -> list[str]:
    """Pieces of the other languages, the most useful ones first."""
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer, learner.pre_tokenizer = normalizer(), pre_tokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=2 * NEW_PIECES,
        limit_alphabet=9_500,
        special_tokens=["[UNK]"],
        show_progress=False,
    )
    learner.train_from_iterator(lines, trainer)
    return [piece for piece, _ in sorted(learner.get_vocab().items(), key=lambda item: item[1])]


def common_han() -> list[str]:
    """The Han characters of the national standards, in case the texts lack some of them."""
    rows = [(0xB0, 0xF8, 0xA1, 0xFF, "gb2312"), (0xA4, 0xC7, 0x40, 0xFF, "big5")]
    rows.append((0xB0, 0xD0, 0xA1, 0xFF, "euc_jp"))
    codes = {
        bytes((first, second)).decode(encoding, "ignore")
        for low, high, start, end, encoding in rows
        for first in range(low, high)
        for second in range(start, end)
    }
    return sorted(c for c in codes if len(c) == 1 and "\u4e00" <= c <= "\u9fff")


def pieces_of(word: str, known: Container[str]) -> list[str]:
    """WordPiece: repeatedly the longest known piece; nothing if a remainder is unknown."""
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in known:
                break
        else:
            return []
        pieces.append(piece)
        start = end
    return pieces


def without_harm(fresh: list[str], known: dict[str, int], words: list[str]) -> list[str]:
    """`fresh` without the pieces that would change the tokens of `words`."""
    kept = set(fresh)
    while True:
        both = known.keys() | kept
        harmful = {piece for word in words for piece in pieces_of(word, both) if piece in kept}
        if not harmful:
            return [piece for piece in fresh if piece in kept]
        kept -= harmful


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def main() -> None:
    work = Path(sys.argv[1])
    tokenizer = json.loads((work / "tokenizer.json").read_text(encoding="utf-8"))
    known = tokenizer["model"]["vocab"]
    english: Counter[str] = Counter()
    foreign: Counter[str] = Counter()
    by_language: dict[str, list[str]] = defaultdict(list)
    for first, language, text in parallel_rows(work / "parallel.tsv.xz"):
        by_language[language].append(text)
        if len(by_language[language]) % 4 == 0:
            english.update(words_of(first))
            foreign.update(words_of(text))
    for name in ("english", "pairs"):
        with gzip.open(work / f"{name}.jsonl.gz", "rt", encoding="utf-8") as stream:
            for row in map(json.loads, stream):
                english.update(words_of(row["query"] + " " + row["positive"]))
    with gzip.open(work / "retrieval.jsonl.gz", "rt", encoding="utf-8") as stream:
        for row in map(json.loads, stream):
            if not row["source"].endswith("-unclear"):
                by_language[row["lang"][-2:]].append(row["positive"])
    lines = []
    for texts in by_language.values():
        lines += texts[:: max(1, len(texts) // LINES_EACH)]
    fresh = dict.fromkeys(common_han()) | dict.fromkeys(learned_pieces(lines))
    new = [piece for piece in fresh if piece not in known]
    held = [word for word, n in english.items() if foreign[word] <= 5 * n and len(word) < 100]
    new = without_harm(new, known, held)[:NEW_PIECES]
    tokenizer["model"]["vocab"] = known | {p: len(known) + n for n, p in enumerate(new)}
    extended = Tokenizer.from_str(json.dumps(tokenizer))
    extended.normalizer, extended.pre_tokenizer = normalizer(), pre_tokenizer()
    out = work / "tokenizer-extended.json"
    out.write_text(extended.to_str(pretty=False), encoding="utf-8")
    print(f"{len(new)} new pieces from {len(lines)} lines, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
