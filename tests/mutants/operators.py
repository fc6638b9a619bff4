"""Mutation operators: every small change that can be made to a module, one at a time.

A mutant is the module's source with the text of one node replaced, so that its diff is a line that
a reader understands. Types, decorators, docstrings, f-strings, the messages of errors and logs,
`assert`, and `strict=` of `zip`, which guards against mistakes that tests exclude, are not mutated.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Mod: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}  # in any order
_ALREADY_NEGATED = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
_TYPES = ("Callable", "Mapping", "Sequence", "dict", "list", "tuple")  # first names of a type alias
_REMOVABLE = (ast.Assign, ast.AugAssign, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A changed module. `before` and `after` are the lines of the change, without indentation:
    together they identify the mutant, whatever line it is in."""

    line: int
    operator: str
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"line {self.line} ({self.operator}):\n    - {self.before}\n    + {self.after}"


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module that compiles, in the order of the source."""
    raw = source.encode()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    made: dict[str, Mutant] = {}
    for node, new, operator in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        text = ast.unparse(new)
        if isinstance(node, ast.expr) and not isinstance(new, ast.Constant | ast.Name | ast.Call):
            text = f"({text})"
        changed = (raw[:start] + text.encode() + raw[end:]).decode()
        if changed in made or not _compiles(changed):
            continue
        before, after = _lines(raw, start, end, text.encode())
        made[changed] = Mutant(node.lineno, operator, before, after, changed)
    return sorted(made.values(), key=lambda mutant: (mutant.line, mutant.operator, mutant.after))


def _lines(raw: bytes, start: int, end: int, text: bytes) -> tuple[str, str]:
    """The whole lines around the change, on one line each."""
    first = raw.rfind(b"\n", 0, start) + 1
    last = raw.find(b"\n", end)
    last = len(raw) if last < 0 else last
    before = raw[first:last].decode()
    after = (raw[first:start] + text + raw[end:last]).decode()
    return " ".join(before.split()), " ".join(after.split())


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


# --- selected nodes -------------------------------------------------------------------------------

Change = tuple[ast.expr | ast.stmt, ast.AST, str]


def _changes(tree: ast.Module) -> Iterator[Change]:
    yield from _in_body(tree.body, inside_function=False)


def _in_body(body: Sequence[ast.stmt], *, inside_function: bool) -> Iterator[Change]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in_expressions([*statement.args.defaults, *statement.args.kw_defaults])
            yield from _in_body(statement.body, inside_function=True)
        elif isinstance(statement, ast.ClassDef):
            yield from _in_body(statement.body, inside_function=False)
        elif not _is_left_alone(statement):
            yield from _of_statement(statement, removable=inside_function)
            for name in ("body", "orelse", "finalbody"):
                yield from _in_body(getattr(statement, name, []), inside_function=inside_function)
            for handler in getattr(statement, "handlers", []):
                yield from _in_body(handler.body, inside_function=inside_function)
            for case in getattr(statement, "cases", []):
                yield from _in_body(case.body, inside_function=inside_function)


def _is_left_alone(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Subscript):
        return isinstance(statement.value.value, ast.Name) and statement.value.value.id in _TYPES
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom)


def _of_statement(statement: ast.stmt, *, removable: bool) -> Iterator[Change]:
    called = isinstance(statement, ast.Expr)
    if removable and (called or isinstance(statement, _REMOVABLE)):
        yield statement, ast.Pass(), "removed statement"
    if isinstance(statement, ast.Return) and not _is_none(statement.value):
        yield statement, ast.Return(ast.Constant(None)), "returned None"
    if isinstance(statement, ast.If | ast.While):
        yield from _negated(statement.test)
    if isinstance(statement, ast.AugAssign) and type(statement.op) in _ARITHMETIC:
        new = deepcopy(statement)
        new.op = _ARITHMETIC[type(statement.op)]()
        yield statement, new, "arithmetic"
    messages = isinstance(statement, ast.Raise) or _is_log(statement)
    own = [getattr(statement, name, None) for name in ("test", "value", "iter", "exc", "subject")]
    items = [item.context_expr for item in getattr(statement, "items", [])]
    yield from _in_expressions([*own, *items], texts=not messages)


def _is_log(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    owner = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id == "log"


def _in_expressions(roots: Sequence[ast.AST | None], *, texts: bool = True) -> Iterator[Change]:
    todo = [root for root in roots if root is not None]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.JoinedStr):
            continue  # before Python 3.12, positions inside f-strings are unknown
        if isinstance(node, ast.expr):
            yield from _of_expression(node, texts=texts)
        if isinstance(node, ast.comprehension):
            for condition in node.ifs:
                yield from _negated(condition)
        todo += [
            child
            for child in ast.iter_child_nodes(node)
            if not (isinstance(child, ast.keyword) and child.arg == "strict")
        ]


# --- replacements ---------------------------------------------------------------------------------


def _of_expression(node: ast.expr, *, texts: bool) -> Iterator[Change]:
    match node:
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                new = deepcopy(node)
                new.ops[at] = _COMPARISONS[type(operator)]()
                yield node, new, "comparison"
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            changed = deepcopy(node)
            changed.op = _ARITHMETIC[type(node.op)]()
            yield node, changed, "arithmetic"
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield node, operand, "negation"
        case ast.BoolOp():
            other = deepcopy(node)
            other.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
            yield node, other, "and, or"
        case ast.IfExp():
            yield from _negated(node.test)
        case ast.Constant(value):
            yield from ((node, ast.Constant(each), "constant") for each in _others(value, texts))
        case ast.Subscript(_, ast.Slice() as bounds):
            for name in ("lower", "upper"):
                if getattr(bounds, name) is not None:
                    whole = deepcopy(node)
                    setattr(whole.slice, name, None)
                    yield node, whole, "slice"
        case ast.Call():
            yield from _of_call(node)


def _of_call(node: ast.Call) -> Iterator[Change]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in _FUNCTIONS:
        new = deepcopy(node)
        new.func = ast.Name(_FUNCTIONS[name])
        yield node, new, "function"
    first = [ast.unparse(each) for each in node.args[:2] if not isinstance(each, ast.Starred)]
    if len(first) == 2 and first[0] != first[1] and name not in _FUNCTIONS:
        new = deepcopy(node)
        new.args[:2] = reversed(new.args[:2])
        yield node, new, "swapped arguments"
    for at, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "strict"):
            new = deepcopy(node)
            del new.keywords[at]
            yield node, new, "dropped argument"


def _negated(test: ast.expr) -> Iterator[Change]:
    """Negate a condition, unless another operator makes the same change."""
    match test:
        case ast.UnaryOp(ast.Not()):
            return
        case ast.Compare(ops=[operator]) if isinstance(operator, _ALREADY_NEGATED):
            return
    yield test, ast.UnaryOp(ast.Not(), test), "negation"


def _others(value: object, texts: bool) -> list[bool | int | float | str]:
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1]
        case float():
            return [value * 1.1, value * 0.9] if value else [1.0]
        case str() if texts:
            return [f"{value}X"]
    return []


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
