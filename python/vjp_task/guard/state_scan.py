"""Rules on state: counters, growing lists, keys by identity, stored results."""

import ast
from collections.abc import Iterator

from vjp_task.guard.flow import Flow
from vjp_task.guard.rules import Finding
from vjp_task.guard.syntax import FunctionNode, Module, functions, own_nodes, parameters, root
from vjp_task.harness.main import ENTRY_POINT

_GROWING = {"append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "rotate",
            "send", "__next__", "put", "get_nowait"}  # fmt: skip
_LOOKUPS = {"get", "setdefault", "pop", "__contains__", "__getitem__", "__setitem__", "add"}
_CACHES = {"cache", "lru_cache", "functools.cache", "functools.lru_cache", "cachetools.cached"}
_WEAK = {"weakref.WeakKeyDictionary", "weakref.WeakValueDictionary", "weakref.WeakSet",
         "torch.utils.weak.WeakTensorKeyDictionary", "torch.utils.weak.WeakIdKeyDictionary",
         "torch.utils.weak.WeakIdRef", "torch.utils.weak.TensorWeakRef"}  # fmt: skip
_MUTABLE = (ast.List, ast.Dict, ast.Set, ast.Call, ast.ListComp, ast.DictComp, ast.GeneratorExp)


def scan_state(module: Module) -> Iterator[Finding]:
    """Every breach of the rules on state in a module."""
    lasting = _lasting_names(module.tree)
    cached = _cached_functions(module)
    factories = _factories(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and module.dotted(node) in _WEAK:
            yield _finding(module, node, "identity-key", f"uses {module.dotted(node)}")
    for function in functions(module.tree):
        scan = _FunctionScan(module, function, lasting, cached, function in factories)
        yield from scan.findings()


class _FunctionScan:
    def __init__(
        self, module: Module, function: FunctionNode, lasting: set[str], cached: set[str],
        lives_on: bool,
    ) -> None:  # fmt: skip
        self.module, self.function, self.cached = module, function, cached
        self.flow = Flow(module, function)
        self.nodes = list(own_nodes(function))
        declared = {
            name for node in self.nodes if isinstance(node, ast.Global) for name in node.names
        }
        outer = {
            name for node in self.nodes if isinstance(node, ast.Nonlocal) for name in node.names
        }
        local = {arg.arg for arg in parameters(function)} | {
            node.id
            for node in self.nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        defaults = _mutable_defaults(function)
        self.lasting = (lasting - (local - declared)) | declared | defaults
        if lives_on:
            self.lasting |= outer
        self.of_lasting_object = function in _lasting_methods(module.tree)

    def findings(self) -> Iterator[Finding]:
        """All breaches in the function's own body."""
        for node in self.nodes:
            for rule, what in self._breaches(node):
                yield _finding(self.module, node, rule, what)
        yield from self._stored_results()

    def _breaches(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.AugAssign) and self._lasts(node.target):
            yield "call-order", f"counts in {ast.unparse(node.target)}, which outlives the call"
        elif isinstance(node, ast.AugAssign) and self._decides(node.target):
            yield "call-order", f"counts in {ast.unparse(node.target)} and decides by it"
        elif isinstance(node, ast.Assign):
            yield from self._assignment(node)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Compare):
            yield from self._comparison(node)
        elif isinstance(node, ast.Subscript) and self.flow.is_address(node.slice):
            yield "identity-key", f"looks up {ast.unparse(node)} by an address or identity"
        elif isinstance(node, ast.Dict) and any(k and self.flow.is_address(k) for k in node.keys):
            yield "identity-key", "keeps a table by address or identity"

    def _assignment(self, node: ast.Assign) -> Iterator[tuple[str, str]]:
        for target in node.targets:
            text = ast.unparse(target)
            if isinstance(target, ast.Attribute) and self.flow.is_tensor(target.value):
                yield "identity-key", f"leaves {text} on an input"
            elif self._lasts(target) and _mentions(node.value, text):
                yield "call-order", f"counts in {text}, which outlives the call"
            elif self._lasts(target) and self.flow.is_address(node.value):
                yield "identity-key", f"keeps an address or identity in {text}"
            elif self._lasts(target) and _reads_attribute(node.value, target):
                yield "call-order", f"counts in {text}, which outlives the call"

    def _call(self, node: ast.Call) -> Iterator[tuple[str, str]]:
        name = self.module.dotted(node.func)
        if name == "next" and node.args and self._lasts(node.args[0]):
            yield "call-order", f"advances {ast.unparse(node.args[0])}, which outlives the call"
        if name == "setattr" and node.args and self.flow.is_tensor(node.args[0]):
            yield "identity-key", f"leaves an attribute on {ast.unparse(node.args[0])}, an input"
        if name in self.cached:
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                if self.flow.is_address(argument) or self.flow.is_tensor(argument):
                    shown = ast.unparse(argument)
                    yield "identity-key", f"gives {shown} to {name}, which remembers its results"
        if not isinstance(node.func, ast.Attribute):
            return
        method, owner = node.func.attr, node.func.value
        grows = method in _GROWING and not (method == "pop" and node.args)
        if grows and self._lasts(owner) and not isinstance(owner, ast.Subscript):
            yield "call-order", f"{ast.unparse(owner)}.{method}(), which outlives the call"
        if method in _LOOKUPS and node.args and self.flow.is_address(node.args[0]):
            yield "identity-key", f"looks up {ast.unparse(node)} by an address or identity"

    def _comparison(self, node: ast.Compare) -> Iterator[tuple[str, str]]:
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(operator, (ast.In, ast.NotIn)) and self.flow.is_address(left):
                yield "identity-key", "looks for an address or identity"
            if isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
                for one, other in ((left, right), (right, left)):
                    known = self.flow.is_tensor(one) or self.flow.is_address(one)
                    if known and self._lasts(other):
                        shown = ast.unparse(other)
                        yield "identity-key", f"compares an input with {shown} of an earlier call"

    def _stored_results(self) -> Iterator[Finding]:
        """The entry point stores what it returns."""
        if getattr(self.function, "name", "") != ENTRY_POINT:
            return
        returned = {
            ast.unparse(part)
            for node in self.nodes
            if isinstance(node, ast.Return) and node.value is not None
            for part in [node.value, *getattr(node.value, "elts", [])]
        }
        for node in self.nodes:
            if not isinstance(node, ast.Assign) or not any(map(self._lasts, node.targets)):
                continue
            parts = [node.value, *getattr(node.value, "elts", [])]
            if any(ast.unparse(part) in returned for part in parts):
                what = f"stores its outputs in {ast.unparse(node.targets[0])}"
                yield _finding(self.module, node, "result-cache", what)
        for node in self.nodes:
            if isinstance(node, ast.Return) and node.value and self._lasts(node.value):
                what = f"returns {ast.unparse(node.value)}, which outlives the call"
                yield _finding(self.module, node, "result-cache", what)

    def _lasts(self, node: ast.AST) -> bool:
        """Whether an expression is reached from a name that outlives the call."""
        if isinstance(node, ast.Name):
            return node.id in self.lasting
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            name = root(node)
            return name in self.lasting and name not in self.module.imports
        return False

    def _decides(self, target: ast.AST) -> bool:
        """`self.x += 1` in a class with an instance that lasts, where a condition reads `.x`."""
        if not (isinstance(target, ast.Attribute) and root(target) in ("self", "cls")):
            return False
        if not self.of_lasting_object:
            return False
        tests = [
            node.test
            for node in ast.walk(self.module.tree)
            if isinstance(node, (ast.If, ast.IfExp, ast.While))
        ]
        return any(_reads_attribute(test, target) for test in tests)


def _lasting_names(tree: ast.Module) -> set[str]:
    """Names of a module that outlive a call: assigned ones, functions, classes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
    for node in _top_level(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _top_level(tree: ast.Module) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def _factories(tree: ast.Module) -> set[FunctionNode]:
    """Functions that an enclosing function returns, so that its locals live on with them."""
    found: set[FunctionNode] = set()
    for outer in functions(tree):
        inner = {n.name: n for n in own_nodes(outer) if isinstance(n, ast.FunctionDef)}
        for node in own_nodes(outer):
            if isinstance(node, ast.Return) and node.value is not None:
                names = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                found |= {inner[name] for name in names & inner.keys()}
    return found


def _lasting_methods(tree: ast.Module) -> set[ast.AST]:
    """Methods of classes that the module makes an instance of when it is imported."""
    made = {n.func.id for n in _top_level(tree) if isinstance(n, ast.Call) and root(n.func)
            and isinstance(n.func, ast.Name)}  # fmt: skip
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name in made]
    return {method for c in classes for method in c.body}


def _cached_functions(module: Module) -> set[str]:
    """Names of functions behind functools.cache or lru_cache."""
    names = set()
    for function in functions(module.tree):
        for decorator in getattr(function, "decorator_list", []):
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if module.dotted(target) in _CACHES:
                names.add(function.name)
    for node in _top_level(module.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            inner = node.value.func
            target = inner.func if isinstance(inner, ast.Call) else inner
            if module.dotted(target) in _CACHES:
                names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return names


def _mutable_defaults(function: FunctionNode) -> set[str]:
    """Parameters whose default is made once and can change."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    pairs = list(zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True))
    pairs += [(arg, d) for arg, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d]
    return {arg.arg for arg, default in pairs if isinstance(default, _MUTABLE)}


def _mentions(node: ast.AST, text: str) -> bool:
    kinds = (ast.Name, ast.Attribute, ast.Subscript)
    return any(isinstance(n, kinds) and ast.unparse(n) == text for n in ast.walk(node))


def _reads_attribute(node: ast.AST, target: ast.AST) -> bool:
    """Whether an expression reads `.x` or getattr(..., "x") where the target is `something.x`."""
    name = target.attr if isinstance(target, ast.Attribute) else None
    return name is not None and any(
        (isinstance(n, ast.Attribute) and n.attr == name)
        or (isinstance(n, ast.Constant) and n.value == name)
        for n in ast.walk(node)
    )


def _finding(module: Module, node: ast.AST, rule: str, what: str) -> Finding:
    return Finding(module.file, getattr(node, "lineno", 0), rule, what)
