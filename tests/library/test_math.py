"""Formulas: which texts are formulas, and how TeX becomes MathML."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.library.rendering import render
from kb.library.tex_math import math_element
from tests.library.test_rendering import MATH_TAGS, every


def markup(node: Any) -> str:
    if isinstance(node, str):
        return node
    inside = "".join(map(markup, node["children"]))
    return f"<{node['tag']}>{inside}</{node['tag']}>"


def formulas(text: str) -> list[str]:
    nodes = every(render("lib/a.md", "markdown", text).nodes)
    return [node["alt"] for node in nodes if node["tag"] == "math"]


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        ("x^2", "<msup><mi>x</mi><mn>2</mn></msup>"),
        ("a_i'", "<msubsup><mi>a</mi><mi>i</mi><mo>′</mo></msubsup>"),
        (r"\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
        (r"\sqrt[3]{x}", "<mroot><mrow><mi>x</mi></mrow><mrow><mn>3</mn></mrow></mroot>"),
        (r"\mathbb{R} \le \alpha", "<mi>ℝ</mi><mo>≤</mo><mi>α</mi>"),
        (r"\hat{x}", "<mover><mrow><mi>x</mi></mrow><mo>^</mo></mover>"),
        (r"\text{if  so}", "<mtext>if  so</mtext>"),
        (r"\left(x\right]", "<mrow><mo>(</mo><mi>x</mi><mo>]</mo></mrow>"),
        (
            r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
            "<mrow><mo>(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr>"
            "<mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable><mo>)</mo></mrow>",
        ),
    ],
)
def test_tex_becomes_mathml(tex: str, expected: str) -> None:
    drawn = math_element(tex, display=False)
    assert markup(drawn) == f"<math>{expected}</math>"


def test_limits_stand_above_and_below_in_a_display() -> None:
    assert "munderover" in markup(math_element(r"\sum_{i=1}^n i", display=True))
    assert "msubsup" in markup(math_element(r"\sum_{i=1}^n i", display=False))


@pytest.mark.parametrize("tex", ["", "{", "}", "^", r"\nonsense{x}", r"\begin{tikz}\end{tikz}",
                                 "{" * 200, "x" * 6000, r"\left(", r"\begin{matrix}"])  # fmt: skip
def test_what_cannot_be_drawn(tex: str) -> None:
    assert math_element(tex, display=True) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Energy is $E=mc^2$, and $a$.", ["E=mc^2", "a"]),
        ("It costs $5 and $6.", []),
        ("`$x$` is code", []),
        (r"\(x+1\) and \[y\]", ["x+1", "y"]),
        ("$$\na = b\n- c\n$$\n\ntext", ["a = b\n- c"]),
        ("$$x$$", ["x"]),
        ("- item\n\n  $$\n  x\n  $$\n", ["x"]),
        (r"\$x\$", []),
    ],
)
def test_which_texts_are_formulas(text: str, expected: list[str]) -> None:
    assert formulas(text) == expected


def test_an_unknown_formula_is_code() -> None:
    nodes = every(render("a.md", "markdown", r"Draw $\nonsense{x}$ here.").nodes)
    assert [node["tag"] for node in nodes] == ["p", "code"]


def test_a_formula_on_its_own_lines_can_be_cited() -> None:
    (node,) = render("a.md", "markdown", "$$\nx\n$$\n").nodes
    assert not isinstance(node, str)
    assert node["lines"] == [1, 3]


@given(st.text(alphabet="\\{}^_&$ab1+-()[] frcsqtlemigh|.'%~", max_size=60))
def test_any_tex_is_drawn_or_refused(tex: str) -> None:
    drawn = math_element(tex, display=True)
    if drawn is not None:
        assert {node["tag"] for node in every([drawn])} <= MATH_TAGS
    render("a.md", "markdown", f"a ${tex}$ b\n\n$$\n{tex}\n$$\n")
