"""Small faults of a module, one at a time: what a slip of the pen would make of it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.And: ast.Or,
    ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    """A module with one fault."""

    path: str
    line: int
    before: str
    after: str
    text: str
    """Of the whole module."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  =>  {self.after}"


class Place(NamedTuple):
    """Where a fault can be, and which."""

    path: str
    node: int
    """Its number in the module."""
    change: int
    """Its number among what can be done to the node."""


def places(path: str, text: str) -> Iterator[Place]:
    """Yield where each fault of a module is."""
    tree = ast.parse(text)
    idle = set(_no_behaviour(tree))
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in idle:
            for change, _ in enumerate(_changes(node)):
                yield Place(path, number, change)


def mutant(place: Place, text: str) -> Mutant:
    """Return a module with a fault."""
    tree = ast.parse(text)
    old = list(ast.walk(tree))[place.node]
    change = list(_changes(old))[place.change]
    line = getattr(old, "lineno", None) or getattr(old, "target", old).lineno
    shown = _around(tree, old)
    before = _text(shown)
    new = change(old)
    if new is not old:
        _replace(tree, old, new)
    before, after = _parts(before, _text(new if shown is old else shown))
    return Mutant(place.path, line, before, after, ast.unparse(ast.fix_missing_locations(tree)))


def _around(tree: ast.AST, node: ast.AST) -> ast.AST:
    """Return what is shown of a fault: a constant in what it stands in, which tells it from others."""
    while isinstance(node, (ast.Constant, ast.keyword)):
        node = next(
            one for one in ast.walk(tree) if any(inner is node for inner in ast.iter_child_nodes(one))
        )
    return node


def _parts(before: str, after: str) -> tuple[str, str]:
    """Return of two texts what is around their first difference."""
    same = next((at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), 0)
    begin = max(0, same - 60)
    return before[begin : begin + 120], after[begin : begin + 120]


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, name, new)
                return
            if isinstance(value, list) and any(one is old for one in value):
                setattr(parent, name, [new if one is old else one for one in value])
                return


def _no_behaviour(tree: ast.Module) -> Iterator[int]:
    """Yield the ids of nodes that say nothing to a running program, or only to its reader."""
    for node in ast.walk(tree):
        for idle in _idle(node):
            yield from (id(inner) for inner in ast.walk(idle))


def _idle(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is idle of a node: annotations, docstrings, imports, documentation, errors' words."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            arguments = (one for one in ast.walk(node.args) if isinstance(one, ast.arg))
            yield from (one.annotation for one in arguments if one.annotation)
            yield from ([node.returns] if node.returns else [])
            yield from node.decorator_list
        case ast.AnnAssign():
            yield node.annotation if node.value else node
        case ast.Raise() | ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Expr(value=ast.Constant()):
            yield node
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.keyword(arg="doc" | "encoding" | "hint"):
            yield node


def _changes(node: ast.AST) -> Iterator[Callable[[ast.AST], ast.AST]]:
    """Yield what may be done to a node; each may change the node it gets, or return another."""
    if isinstance(node, ast.Compare):
        yield _opposite_comparison
    elif isinstance(node, (ast.BoolOp, ast.BinOp)) and type(node.op) in OPPOSITES and not _is_text(node):
        yield _opposite
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield lambda one: one.operand
    elif isinstance(node, (ast.If, ast.IfExp)) and isinstance(node.test, (ast.Call, ast.Name, ast.Attribute)):
        yield _negated
    elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        yield _another
    elif isinstance(node, ast.Return) and node.value is not None and _text(node.value) != "None":
        yield _nothing
    elif isinstance(node, ast.Expr) and isinstance(node.value, (ast.Call, ast.Yield, ast.YieldFrom)):
        yield _left_out
    elif isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Load):
        yield from (_without(number) for number in range(len(node.elts)))
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield _unfiltered


def _left_out(node: ast.AST) -> ast.AST:
    """Leave a statement out; a generator stays one."""
    assert isinstance(node, ast.Expr)
    return ast.Expr(ast.Constant(None) if isinstance(node.value, ast.Call) else ast.YieldFrom(ast.Tuple([])))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and any(
        isinstance(side, (ast.JoinedStr, ast.List, ast.Tuple))
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _opposite_comparison(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    node.ops[0] = OPPOSITES[type(node.ops[0])]()  # type: ignore[call-overload]
    return node


def _opposite(node: ast.AST) -> ast.AST:
    assert isinstance(node, (ast.BoolOp, ast.BinOp))
    node.op = OPPOSITES[type(node.op)]()  # type: ignore[assignment]
    return node


def _negated(node: ast.AST) -> ast.AST:
    assert isinstance(node, (ast.If, ast.IfExp))
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _another(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Constant)
    return ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)  # type: ignore[operator]


def _nothing(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Return)
    return ast.Return(ast.Constant(None))


def _without(number: int) -> Callable[[ast.AST], ast.AST]:
    def shorter(node: ast.AST) -> ast.AST:
        assert isinstance(node, (ast.Tuple, ast.List))
        del node.elts[number]
        return node

    return shorter


def _unfiltered(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.comprehension)
    node.ifs = []
    return node


def home(number: int, text: str) -> int | None:
    """Return the first line of the outermost function that holds a node; None: it runs at import."""
    tree = ast.parse(text)
    sought = list(ast.walk(tree))[number]
    for one in ast.walk(tree):  # breadth first: the outermost
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(inner is sought for line in one.body for inner in ast.walk(line)):
                return min(line.lineno for line in (one, *one.decorator_list))
        elif isinstance(one, ast.Lambda) and any(inner is sought for inner in ast.walk(one.body)):
            return one.lineno
    return None


def assignment(number: int, text: str) -> int | None:
    """Return which statement of a module assigns what a node is in; None: no such one."""
    tree = ast.parse(text)
    sought = list(ast.walk(tree))[number]
    return next(
        (
            index for index, one in enumerate(tree.body)
            if isinstance(one, (ast.Assign, ast.AnnAssign)) and any(it is sought for it in ast.walk(one))
        ),
        None,
    )  # fmt: skip
