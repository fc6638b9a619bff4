"""Formulas in TeX as MathML elements, which browsers draw without a script or a font.

The common part of TeX's mathematics: letters, operators, scripts, fractions, roots, accents,
brackets, matrices and aligned lines. A formula with anything else is shown as its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kb.types import JsonDict, Node

_MAX_CHARS = 5_000
_MAX_DEPTH = 40
_TOKEN = re.compile(
    r"\s+|%[^\n]*|(?P<token>\\[A-Za-z]+\*?|\\.|[{}^_&~]|\d+(?:\.\d+)?|.)", re.DOTALL
)

_LETTERS = dict(
    zip(
        "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu "
        "xi pi varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta "
        "Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega infty partial nabla ell hbar Re Im aleph "
        "emptyset varnothing imath jmath dots ldots cdots vdots ddots top bot angle prime".split(),
        "αβγδϵεζηθϑικλμνξπϖρϱσςτυϕφχψωΓΔΘΛΞΠΣΥΦΨΩ∞∂∇ℓℏℜℑℵ∅∅ıȷ……⋯⋮⋱⊤⊥∠′",
        strict=True,
    )
)
_OPERATORS = dict(
    zip(
        "le leq ge geq ne neq approx equiv sim simeq cong propto ll gg prec succ pm mp times div "
        "cdot ast star circ bullet oplus otimes cap cup setminus subset subseteq supset supseteq "
        "in notin ni forall exists neg lnot land wedge lor vee to rightarrow leftarrow gets "
        "leftrightarrow Rightarrow implies Leftarrow Leftrightarrow iff mapsto uparrow downarrow "
        "perp parallel mid colon langle rangle lfloor rfloor lceil rceil lbrace rbrace lvert rvert "
        "vert Vert lVert rVert backslash".split(),
        "≤≤≥≥≠≠≈≡∼≃≅∝≪≫≺≻±∓×÷⋅∗⋆∘∙⊕⊗∩∪∖⊂⊆⊃⊇∈∉∋∀∃¬¬∧∧∨∨→→←←↔⇒⇒⇐⇔⇔↦↑↓⊥∥∣:⟨⟩⌊⌋⌈⌉{}|||‖‖‖\\",
        strict=True,
    )
)
_LARGE = dict(
    zip("sum prod coprod bigcup bigcap bigoplus bigvee bigwedge".split(), "∑∏∐⋃⋂⨁⋁⋀", strict=True)
)
_INTEGRALS = {"int": "∫", "iint": "∬", "iiint": "∭", "oint": "∮"}
_FUNCTIONS = frozenset(
    "sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan log ln lg exp dim ker deg gcd hom "
    "arg det".split()
)
_LIMITS = frozenset("lim limsup liminf max min sup inf argmax argmin Pr".split())
_ACCENTS = {
    "hat": "^", "widehat": "^", "bar": "¯", "overline": "¯", "vec": "→", "tilde": "~",
    "widetilde": "~", "dot": "˙", "ddot": "¨", "check": "ˇ", "overbrace": "⏞",
}  # fmt: skip
_BELOW = {"underline": "_", "underbrace": "⏟"}
_SPACES = {",": "0.17em", ":": "0.22em", ";": "0.28em", "!": "0em", " ": "0.33em",
           "quad": "1em", "qquad": "2em"}  # fmt: skip
_TEXTS = frozenset("text textrm textit textbf texttt mbox textnormal textsf".split())
_UPRIGHT = frozenset("mathrm operatorname operatorname* mathsf mathtt mathit boldsymbol".split())
_ALPHABETS = {"mathbf": 0x1D400, "bm": 0x1D400, "mathcal": 0x1D49C, "mathscr": 0x1D49C,
              "mathfrak": 0x1D504, "mathbb": 0x1D538}  # fmt: skip
_SCRIPT_HOLES = {
    0x1D49D: "ℬ", 0x1D4A0: "ℰ", 0x1D4A1: "ℱ", 0x1D4A3: "ℋ", 0x1D4A4: "ℐ", 0x1D4A7: "ℒ",
    0x1D4A8: "ℳ", 0x1D4AD: "ℛ", 0x1D506: "ℭ", 0x1D50B: "ℌ", 0x1D50C: "ℑ", 0x1D515: "ℜ",
    0x1D51D: "ℨ", 0x1D53A: "ℂ", 0x1D53F: "ℍ", 0x1D545: "ℕ", 0x1D547: "ℙ", 0x1D548: "ℚ",
    0x1D549: "ℝ", 0x1D551: "ℤ",
}  # fmt: skip
_MATRICES = {"matrix": "", "smallmatrix": "", "pmatrix": "()", "bmatrix": "[]", "Bmatrix": "{}",
             "vmatrix": "||", "Vmatrix": "‖‖", "cases": "{", "array": "", "aligned": "",
             "align": "", "align*": "", "split": "", "gather": "", "gather*": "", "gathered": "",
             "equation": "", "equation*": ""}  # fmt: skip
_IGNORED = frozenset(
    "displaystyle textstyle scriptstyle limits nolimits nonumber notag big Big bigg Bigg bigl bigr "
    "Bigl Bigr biggl biggr mathstrut".split()
)
_DELIMITERS = frozenset("()[]|/<>.")


class _Unsupported(Exception):
    """The formula contains something that this renderer does not support."""


def math_element(tex: str, *, display: bool) -> JsonDict | None:
    """The formula as a `math` element; None if it cannot be drawn."""
    if len(tex) > _MAX_CHARS:
        return None
    try:
        row = _Parser(tex, display).whole()
    except _Unsupported:
        return None
    return {"tag": "math", "children": row, "display": display, "alt": tex.strip()}


def _element(tag: str, *children: Node, **attributes: object) -> JsonDict:
    return {"tag": tag, "children": list(children), **attributes}


def _operator(text: str, **attributes: object) -> JsonDict:
    return _element("mo", text, **attributes)


def _tokens(tex: str) -> Iterator[str]:
    for match in _TOKEN.finditer(tex):
        if token := match["token"]:
            yield token


class _Parser:
    def __init__(self, tex: str, display: bool) -> None:
        self._tokens = list(_tokens(tex))
        self._at = 0
        self._depth = 0
        self._display = display
        self._tex = tex

    def whole(self) -> list[Node]:
        if any(token in ("\\\\", "&") for token in self._tokens) and not self._has_environment():
            return [self._table("", lambda: self._peek() is None)]
        row = self._row(lambda: self._peek() is None)
        if not row:
            raise _Unsupported
        return row

    def _has_environment(self) -> bool:
        return "\\begin" in self._tokens

    # --- tokens -----------------------------------------------------------------------------------

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            raise _Unsupported
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise _Unsupported

    def _name(self) -> str:
        """The text in braces, such as the name of an environment."""
        self._expect("{")
        parts = []
        while (token := self._next()) != "}":
            parts.append(token)
        return "".join(parts)

    # --- rows -------------------------------------------------------------------------------------

    def _row(self, is_end: Callable[[], bool]) -> list[Node]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _Unsupported
        nodes: list[Node] = []
        while not is_end():
            node = self._element_with_scripts()
            if node is not None:
                nodes.append(node)
        self._depth -= 1
        return nodes

    def _group(self) -> JsonDict:
        """The next argument: a group in braces, or a single element."""
        if self._peek() == "{":
            self._next()
            row = self._row(lambda: self._peek() == "}")
            self._next()
            return _element("mrow", *row)
        token = self._peek() or ""
        if token[:1].isdigit() and len(token) > 1:  # without braces, TeX takes one digit
            self._tokens[self._at : self._at + 1] = [token[0], token[1:]]
        node = self._atom()
        return _element("mrow") if node is None else node

    def _element_with_scripts(self) -> JsonDict | None:
        """One element with its subscript and superscript."""
        base, over = _element("mrow"), False
        if self._peek() not in ("^", "_", "'"):
            token = self._peek() or ""
            atom = self._atom()
            if atom is None:
                return None
            base = atom
            name = token.removeprefix("\\")
            over = name in _LIMITS or name in _LARGE
            over = (over and self._display) or name in ("underbrace", "overbrace")
        below: JsonDict | None = None
        above: JsonDict | None = None
        while (token := self._peek() or "") in ("^", "_", "'", "\\limits", "\\nolimits"):
            self._next()
            if token == "_":
                below = self._group()
            elif token == "^":
                above = self._group()
            elif token == "'":
                prime = _operator("′")
                above = prime if above is None else _element("mrow", above, prime)
        if below is not None and above is not None:
            return _element("munderover" if over else "msubsup", base, below, above)
        if below is not None:
            return _element("munder" if over else "msub", base, below)
        if above is not None:
            return _element("mover" if over else "msup", base, above)
        return base

    def _atom(self) -> JsonDict | None:
        """One letter, number, operator, group or command; None for one that draws nothing."""
        token = self._next()
        if token == "{":
            self._at -= 1
            return self._group()
        if token.startswith("\\"):
            return self._command(token[1:])
        if token in ("}", "&", "^", "_"):
            raise _Unsupported
        if token == "~":
            return _element("mspace", width=_SPACES[" "])
        if token[0].isdigit():
            return _element("mn", token)
        if token.isalpha():
            return _element("mi", token)
        return _operator("−" if token == "-" else token)

    # --- commands ---------------------------------------------------------------------------------

    def _command(self, name: str) -> JsonDict | None:
        if name in _LETTERS:
            return _element("mi", _LETTERS[name])
        if name in _OPERATORS:
            return _operator(_OPERATORS[name])
        if name in _LARGE or name in _INTEGRALS:
            return _operator(_LARGE.get(name) or _INTEGRALS[name])
        if name in _FUNCTIONS or name in _LIMITS:
            return _element("mi", name)
        if name in _SPACES:
            return _element("mspace", width=_SPACES[name])
        if name in _IGNORED:
            return None
        if name in "{}|%$&#_":
            return _operator("‖" if name == "|" else name)
        return self._construct(name)

    def _construct(self, name: str) -> JsonDict | None:
        if name in ("frac", "dfrac", "tfrac", "cfrac"):
            return _element("mfrac", self._group(), self._group())
        if name in ("binom", "dbinom", "tbinom"):
            fraction = _element("mfrac", self._group(), self._group(), linethickness="0")
            return _element("mrow", _operator("("), fraction, _operator(")"))
        if name == "sqrt":
            return self._root()
        if name in _ACCENTS:
            return _element("mover", self._group(), _operator(_ACCENTS[name]), accent="true")
        if name in _BELOW:
            return _element("munder", self._group(), _operator(_BELOW[name]))
        if name in ("overset", "stackrel"):
            above, base = self._group(), self._group()
            return _element("mover", base, above)
        if name == "underset":
            under, base = self._group(), self._group()
            return _element("munder", base, under)
        if name in _TEXTS:
            return _element("mtext", self._raw_text())
        if name in _UPRIGHT:
            return _element("mi", self._name_or_letter(), mathvariant="normal")
        if name in _ALPHABETS:
            return _element("mi", _in_alphabet(self._name_or_letter(), _ALPHABETS[name]))
        if name == "left":
            return self._fence()
        if name == "begin":
            return self._environment()
        if name in ("label", "tag"):
            self._name()
            return None
        raise _Unsupported

    def _root(self) -> JsonDict:
        if self._peek() != "[":
            return _element("msqrt", self._group())
        self._next()
        index = _element("mrow", *self._row(lambda: self._peek() in ("]", None)))
        self._expect("]")
        return _element("mroot", self._group(), index)

    def _name_or_letter(self) -> str:
        if self._peek() == "{":
            name = self._name()
            if "\\" in name:
                raise _Unsupported
            return name
        return self._next()

    def _raw_text(self) -> str:
        # Spaces matter here, but the tokens have none: take the text from the source.
        name = self._name()
        if "\\" in name:
            raise _Unsupported
        pattern = r"\{\s*" + r"\s*".join(re.escape(char) for char in name) + r"\s*\}"
        match = re.search(pattern, self._tex)
        return match[0][1:-1] if match else name

    def _fence(self) -> JsonDict:
        start = self._delimiter()
        row = self._row(lambda: self._peek() in ("\\right", None))
        self._expect("\\right")
        end = self._delimiter()
        fences = [_operator(each, stretchy="true") if each else None for each in (start, end)]
        return _element(
            "mrow", *([fences[0]] if fences[0] else []), *row, *([fences[1]] if fences[1] else [])
        )

    def _delimiter(self) -> str:
        token = self._next()
        name = token.removeprefix("\\")
        if token.startswith("\\"):
            if name in "{}":
                return name
            if name == "|":
                return "‖"
            if name in _OPERATORS:
                return _OPERATORS[name]
        elif token in _DELIMITERS:
            return {".": "", "<": "⟨", ">": "⟩"}.get(token, token)
        raise _Unsupported

    def _environment(self) -> JsonDict:
        name = self._name()
        if name not in _MATRICES:
            raise _Unsupported
        if name == "array":
            self._name()  # the columns
        table = self._table(name, lambda: self._peek() in ("\\end", None))
        self._expect("\\end")
        if self._name() != name:
            raise _Unsupported
        fences = _MATRICES[name]
        left = [_operator(fences[0], stretchy="true")] if fences else []
        right = [_operator(fences[1], stretchy="true")] if len(fences) > 1 else []
        return _element("mrow", *left, table, *right)

    def _table(self, name: str, is_end: Callable[[], bool]) -> JsonDict:
        rows: list[Node] = []
        while not is_end():
            cells: list[Node] = []
            while True:
                row = self._row(lambda: is_end() or self._peek() in ("&", "\\\\"))
                cells.append(_element("mtd", *row))
                if self._peek() != "&":
                    break
                self._next()
            rows.append(_element("mtr", *cells))
            if self._peek() == "\\\\":
                self._next()
        if not rows:
            raise _Unsupported
        aligned = name in ("", "aligned", "align", "align*", "split")
        return _element("mtable", *rows, aligned=aligned)


def _in_alphabet(text: str, start: int) -> str:
    """Letters in another alphabet of mathematics, such as blackboard bold."""
    shifted = []
    for char in text:
        if "A" <= char <= "Z":
            point = start + ord(char) - ord("A")
        elif "a" <= char <= "z":
            point = start + 26 + ord(char) - ord("a")
        else:
            shifted.append(char)
            continue
        shifted.append(_SCRIPT_HOLES.get(point) or chr(point))
    return "".join(shifted)
