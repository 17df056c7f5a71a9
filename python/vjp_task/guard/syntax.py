"""Reading Python for the rules: dotted names through imports, constants, docstrings."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Module:
    """One parsed file, and what names mean in it."""

    file: str  # relative to the submitted folder
    tree: ast.Module
    own: frozenset[str]  # top-level names of the submission's own modules
    imports: dict[str, str] = field(default_factory=dict)  # local name -> dotted name
    constants: dict[str, object] = field(default_factory=dict)  # module-level NAME = literal
    docstrings: set[int] = field(default_factory=set)  # ids of string statements

    def dotted(self, node: ast.AST) -> str:
        """The dotted name of an expression, imports and getattr resolved; "" if it has none."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call):
            name = self.dotted(node.func)
            if name in ("getattr", "operator.attrgetter") and len(node.args) >= 2:
                base, attribute = self.dotted(node.args[0]), self.text(node.args[1])
                return f"{base}.{attribute}" if base and attribute else ""
            if name in ("importlib.import_module", "__import__") and node.args:
                return self.text(node.args[0]) or ""
        return ""

    def is_foreign(self, name: str) -> bool:
        """Whether a dotted name starts at an imported module that is not the submission's."""
        top = name.partition(".")[0]
        imported = {dotted.partition(".")[0] for dotted in self.imports.values()}
        return top in imported and top not in self.own

    def text(self, node: ast.AST | None) -> str | None:
        """The string an expression is, constants put together; None where it is not constant."""
        value = self.value(node)
        return value if isinstance(value, str) else None

    def value(self, node: ast.AST | None) -> object:
        """The constant an expression is (strings joined, `"".join([...])` done); None if none."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.constants.get(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.value(node.operand)
            return -value if isinstance(value, (int, float)) else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.value(node.left), self.value(node.right)
            if type(left) is type(right) and isinstance(left, (str, int)):
                return left + right
        if isinstance(node, ast.JoinedStr):
            parts = [
                self.text(part.value if isinstance(part, ast.FormattedValue) else part)
                for part in node.values
            ]
            return None if None in parts else "".join(map(str, parts))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            joiner = self.text(node.func.value)
            if node.func.attr == "join" and joiner is not None and len(node.args) == 1:
                items = getattr(node.args[0], "elts", None)
                texts = [self.text(item) for item in items or [None]]
                return None if None in texts else joiner.join(map(str, texts))
        return None


def read_module(file: str, source: str, own: frozenset[str]) -> Module:
    """Parses a file. Raises SyntaxError."""
    module = Module(file, ast.parse(source), own)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                module.imports[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                module.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            module.docstrings.add(id(node.value))
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            value = module.value(node.value)
            if isinstance(target, ast.Name) and isinstance(value, (str, int, float)):
                module.constants[target.id] = value
    _follow_aliases(module)
    return module


def _follow_aliases(module: Module) -> None:
    """`f = torch.nn.functional` and the like make `f` another name of it."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            name = module.dotted(node.value)
            if isinstance(target, ast.Name) and "." in name and module.is_foreign(name):
                module.imports.setdefault(target.id, name)


def functions(tree: ast.AST) -> Iterator[FunctionNode]:
    """All functions and lambdas, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield node


def parameters(function: FunctionNode) -> list[ast.arg]:
    """All parameters, whatever their kind."""
    a = function.args
    extra = [arg for arg in (a.vararg, a.kwarg) if arg]
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *extra]


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function's body, nested functions' left out."""
    waiting = list(function.body) if isinstance(function.body, list) else [function.body]
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting[:0] = list(ast.iter_child_nodes(node))


def root(node: ast.AST) -> str | None:
    """The name that an attribute, subscript or call chain starts from."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
