"""The rule on shapes: no branch, table or constant made for particular cases."""

import ast
from collections.abc import Iterable, Iterator

from ragged_attention.bench.case import CaseSpec

from vjp_task.guard.flow import Flow
from vjp_task.guard.rules import Finding
from vjp_task.guard.syntax import Module, functions, own_nodes

RULE = "case-shape"

# What the family fixes lies below: heads, head dimension, batches, tile widths.
_LARGEST_FAMILY_NUMBER = 160

# A smaller total turns up in code by chance.
_LEAST_TELLING_NUMBER = 10_000

# Bounds nearer than this single out a few totals.
_NARROW = 64

_LOOKUPS = {"get", "index", "count", "__contains__", "__getitem__", "setdefault"}
_SCALING = (ast.Mod, ast.FloorDiv, ast.Div, ast.Mult, ast.LShift, ast.RShift)


def scan_shapes(module: Module, cases: Iterable[CaseSpec]) -> Iterator[Finding]:
    """Every breach of the rule in a module; `cases` are those whose numbers must not occur."""
    yield from _known_numbers(module, list(cases))
    tables = {
        target.id: node.value
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value, (ast.Dict, ast.Set, ast.List))
    }
    for function in functions(module.tree):
        flow = Flow(module, function)
        for node in own_nodes(function):
            what = _breach(module, flow, tables, node)
            if what:
                yield Finding(module.file, node.lineno, RULE, what)


def _breach(module: Module, flow: Flow, tables: dict[str, ast.AST], node: ast.AST) -> str:
    if isinstance(node, ast.Compare):
        return _comparison(module, flow, tables, node)
    if isinstance(node, ast.Match):
        particular = any(_particular(module, case.pattern) for case in node.cases)
        if particular and flow.is_shape(node.subject):
            return "matches a shape with particular numbers"
    by_shape = isinstance(node, ast.Subscript) and flow.is_shape(node.slice)
    if by_shape and _is_table(module, tables, node.value):
        return f"looks up {ast.unparse(node.value)} by shape"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        by_shape = node.args and flow.is_shape(node.args[0])
        if node.func.attr in _LOOKUPS and by_shape and _is_table(module, tables, node.func.value):
            return f"looks up {ast.unparse(node.func.value)} by shape"
    return ""


def _comparison(module: Module, flow: Flow, tables: dict[str, ast.AST], node: ast.Compare) -> str:
    sides = [node.left, *node.comparators]
    if not any(map(flow.is_shape, sides)):
        return ""
    equal = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
    if any(isinstance(operator, equal) for operator in node.ops):
        for side in sides:
            table = tables.get(side.id) if isinstance(side, ast.Name) else side
            if _particular(module, table):
                return f"compares a shape with particular numbers in {ast.unparse(node)!r}"
            if isinstance(table, ast.Constant) and isinstance(table.value, (str, bytes)):
                return f"compares something made from shapes with {table.value!r}"
    bounds = [module.value(side) for side in sides if isinstance(module.value(side), int)]
    if len(bounds) == 2 and 0 <= bounds[1] - bounds[0] <= _NARROW < bounds[0]:
        return f"singles out a few shapes in {ast.unparse(node)!r}"
    return ""


def _particular(module: Module, node: ast.AST | None) -> bool:
    """Whether an expression holds a number beyond the family's own, other than as a divisor."""
    if node is None:
        return False
    value = module.value(node)
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) > _LARGEST_FAMILY_NUMBER
    if isinstance(node, ast.BinOp) and isinstance(node.op, _SCALING):
        return False
    return any(_particular(module, child) for child in ast.iter_child_nodes(node))


def _is_table(module: Module, tables: dict[str, ast.AST], node: ast.AST) -> bool:
    """Whether an expression is a literal table with particular numbers for keys."""
    table = tables.get(node.id) if isinstance(node, ast.Name) else node
    if isinstance(table, ast.Dict):
        return any(_particular(module, key) for key in table.keys)
    return isinstance(table, (ast.List, ast.Set, ast.Tuple)) and _particular(module, table)


def _known_numbers(module: Module, cases: list[CaseSpec]) -> Iterator[Finding]:
    """The cases' totals, seeds, and a few of their lengths in a row."""
    numbers = {
        number: f"{what} of {case.name}"
        for case in cases
        for number, what in (
            (case.total_q, "total_q"),
            (case.total_k, "total_k"),
            (case.logits, "logits"),
            (case.seed, "seed"),
        )
        if number >= _LEAST_TELLING_NUMBER
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in numbers:
            what = f"{node.value} is the {numbers[node.value]}"
            yield Finding(module.file, node.lineno, RULE, what)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            values = [module.value(item) for item in node.elts]
            name = _holds_lengths(values, cases)
            if name:
                yield Finding(module.file, node.lineno, RULE, f"lists lengths of {name}")


def _holds_lengths(values: list[object], cases: list[CaseSpec]) -> str:
    """The case of which some lengths are listed in a row, as many as no chance brings together."""
    for case in cases:
        for lengths in (case.q_lengths, case.k_lengths):
            long = max(lengths) > _LARGEST_FAMILY_NUMBER
            count = min(3 if long else 5, len(lengths))
            known = {lengths[i : i + count] for i in range(len(lengths) - count + 1)}
            if any(tuple(values[i : i + count]) in known for i in range(len(values) - count + 1)):
                return case.name
    return ""
