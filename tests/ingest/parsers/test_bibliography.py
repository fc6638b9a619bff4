"""References: an entry is a passage, and its heading has names, year and title."""

from __future__ import annotations

import pytest

from kb.ingest.parse import Parsers
from kb.ingest.parsers.bibliography import BibliographyParser, plain_text
from kb.ports import Source
from kb.types import Block
from tests.ingest.parsers.mutations import check_parsed

BIB = r"""% My references

@string{ams = "American Mathematical Society"}

@article{noether1918,
  author  = {Noether, Emmy and Felix Klein},
  title   = {{Invariante} Variations\-probleme},
  year    = 1918,
  note    = {a {nested} brace},
}
@book{goedel,
  title = "On the {\"U}ber-problem
    of two lines",
  author = "Kurt G{\"o}del",
  date = {1931-02}
}

@misc{one, author={Erd\H{o}s, Paul and \v{C}ech, E.}, title={All on one line}, year={1935}}
@article{broken,
  title = {Never closed,
@article{next, title = {After it}}
"""
CSL = """[
  {
    "id": "noether1918",
    "type": "article-journal",
    "title": "Invariante Variationsprobleme",
    "author": [{"family": "Noether", "given": "Emmy"}, {"literal": "Royal Society"}],
    "issued": {"date-parts": [[1918, 7]]}
  },
  {"id": "b", "type": "book", "title": "Second", "issued": {"raw": "2001"}}, {"id": "c"}
]
"""
RIS = """TY  - JOUR
AU  - Lovelace, Ada
AU  - Babbage, Charles
PY  - 1843/10/01
TI  - Notes on the engine
ER  -

TY  - BOOK
T1  - Without an end
"""


def blocks(name: str, text: str) -> list[Block]:
    return list(BibliographyParser().parse(Source(name, text.encode())).blocks)


def test_bibtex() -> None:
    found = blocks("refs.bib", BIB)
    entries = [(block.heading_path, block.span.start, block.span.end) for block in found]
    assert entries == [
        ((), 1, 1),
        ((), 3, 3),
        (("Noether, Klein 1918: Invariante Variationsprobleme",), 5, 10),
        (("Gödel 1931: On the Über-problem of two lines",), 11, 16),
        (("Erdős, Čech 1935: All on one line",), 18, 18),
        (("Never closed,",), 19, 20),
        (("After it",), 21, 21),
    ]
    lines = BIB.split("\n")
    for block in found:
        assert block.span.start is not None
        assert block.text == "\n".join(lines[block.span.start - 1 : block.span.end])


def test_ris() -> None:
    first, second = blocks("refs.ris", RIS)
    assert first.heading_path == ("Lovelace, Babbage 1843: Notes on the engine",)
    assert (first.span.start, first.span.end) == (1, 6)
    assert second.heading_path == ("Without an end",)


def test_many_authors() -> None:
    names = " and ".join(f"Author{number}, A." for number in range(9))
    (block,) = blocks("a.bib", f"@misc{{x,\n author = {{{names}}},\n title = {{T}}\n}}")
    assert block.heading_path == ("Author0, Author1, Author2, Author3, Author4 et al.: T",)


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"M{\"u}ller", "Müller"),
        (r"M\"uller", "Müller"),
        (r"{\'E}cole", "École"),
        (r"Pe\~{n}a", "Peña"),
        (r"Ho{\v{r}}ava", "Hořava"),
        (r"Fran\c{c}ois", "François"),
        (r"\AA ngstr{\"o}m", "Ångström"),
        (r"Wei{\ss}", "Weiß"),
        (r"{\L}ukasiewicz", "Łukasiewicz"),
        (r"na{\"\i}ve", "naïve"),
        (r"R\&D, 5\%", "R&D, 5%"),
        (r"\emph{very} good~old", "very good old"),
    ],
)
def test_latex(latex: str, text: str) -> None:
    import unicodedata

    assert unicodedata.normalize("NFKD", plain_text(latex)).replace("ı", "i") == (
        unicodedata.normalize("NFKD", text)
    )


def test_no_entries() -> None:
    assert [block.text for block in blocks("a.bib", "just\n\ntext\n")] == ["just", "text"]
    assert blocks("a.bib", "") == []


def test_csl_json() -> None:
    parser = Parsers(1800, plug_ins=()).detect(Source("refs.json", CSL.encode()))
    assert parser is not None
    assert parser.name == "bibliography"
    parsed = parser.parse(Source("refs.json", CSL.encode()))
    blocks = list(parsed.blocks)
    assert [(block.span.start, block.span.end) for block in blocks] == [
        (1, 1),
        (2, 8),
        (9, 9),
        (10, 10),
    ]
    assert blocks[1].heading_path == ("Noether, Royal Society 1918: Invariante Variationsprobleme",)
    assert parsed.type == "reference"
    check_parsed(parsed, CSL.encode())


@pytest.mark.parametrize(
    "text", ['[{"type": "book", "author": [1, {}]}]', '[{"type": "book"', "[{}"]
)
def test_csl_json_with_other_values(text: str) -> None:
    check_parsed(BibliographyParser().parse(Source("a.json", text.encode())), text.encode())


def test_other_json_is_code() -> None:
    parser = Parsers(1800, plug_ins=()).detect(Source("a.json", b'[{"type": "x", "author": "y"}]'))
    assert parser is not None
    assert parser.name == "code"


@pytest.mark.parametrize(
    ("name", "text", "links"),
    [
        ("a.bib", "@book{x,\n  file = {papers/Hale 2019.pdf}\n}", ["papers/hale 2019.pdf"]),
        ("a.bib", "@book{x, file = {Full text:a/B.pdf:application/pdf;:c.pdf:PDF}}",
         ["a/b.pdf", "c.pdf"]),
        ("a.bib", "@book{x, file = {:C\\:\\\\Lib\\\\d.pdf:PDF}}", ["d.pdf"]),
        ("a.bib", "@book{x, file = {/home/ada/Zotero/storage/AB/e.pdf}}", ["e.pdf"]),
        ("a.ris", "TY  - BOOK\nL1  - file:///home/ada/f%20g.pdf\nER  - \n", ["f g.pdf"]),
        ("a.ris", "TY  - BOOK\nL1  - papers/h.pdf\nER  - \n", ["papers/h.pdf"]),
        ("a.json", '[{"type": "book", "author": [], "file": "papers/i.pdf"}]', ["papers/i.pdf"]),
        ("a.bib", "@book{x, title = {file = nothing}}", None),
    ],
)  # fmt: skip
def test_links_to_files(name: str, text: str, links: list[str] | None) -> None:
    parsed = BibliographyParser().parse(Source(name, text.encode()))
    assert parsed.attributes.metadata.get("links_to") == links
