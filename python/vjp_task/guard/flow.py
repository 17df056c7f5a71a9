"""Which local names of a function hold something made from shapes, addresses or input tensors."""

import ast
from collections.abc import Callable

from vjp_task.guard.syntax import FunctionNode, Module, own_nodes, parameters

# The operator's tensor parameters.
TENSORS = ("q", "k", "v", "cu_q", "cu_k", "alibi_slopes", "dout")

_SHAPE_ATTRIBUTES = {"shape", "nbytes"}
_SHAPE_METHODS = {"size", "numel", "nelement", "tolist", "item", "__len__"}
_ADDRESS_METHODS = {"data_ptr", "untyped_storage", "storage", "_typed_storage", "storage_ptr"}
_ADDRESS_ATTRIBUTES = {"_cdata", "_version"}

Source = Callable[[ast.AST, set[str]], bool]


class Flow:
    """The names of one function that are made from shapes, from addresses, or are tensors."""

    def __init__(self, module: Module, function: FunctionNode) -> None:
        self._module = module
        names = {arg.arg: arg.annotation for arg in parameters(function)}
        self.tensors = {n for n, a in names.items() if n in TENSORS or _is_tensor(module, a)}
        lengths = {n for n in names if n in ("total_q", "total_k", "q_lengths", "k_lengths")}
        assigned = [node for node in own_nodes(function) if _assigns(node)]
        self.shapes = self._spread(assigned, lengths, self._is_shape)
        self.addresses = self._spread(assigned, set(), self._is_address)

    def is_shape(self, node: ast.AST) -> bool:
        """Whether an expression is made from lengths or totals of the inputs."""
        return any(self._is_shape(n, self.shapes) for n in ast.walk(node))

    def is_address(self, node: ast.AST) -> bool:
        """Whether an expression is made from an address, identity or version."""
        return any(self._is_address(n, self.addresses) for n in ast.walk(node))

    def is_tensor(self, node: ast.AST) -> bool:
        """Whether an expression is an input tensor itself."""
        return isinstance(node, ast.Name) and node.id in self.tensors

    def _spread(self, assigned: list[ast.AST], names: set[str], source: Source) -> set[str]:
        """Adds every name that is assigned from something tainted, until nothing changes."""
        names, before = set(names), -1
        while before != len(names):
            before = len(names)
            for node in assigned:
                value = node.iter if isinstance(node, (ast.comprehension, ast.For)) else node.value
                if value is None or not any(source(n, names) for n in ast.walk(value)):
                    continue
                for target in getattr(node, "targets", None) or [node.target]:
                    names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
        return names

    def _is_shape(self, node: ast.AST, names: set[str]) -> bool:
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Attribute):
            return node.attr in _SHAPE_ATTRIBUTES
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                return node.func.attr in _SHAPE_METHODS
            return self._module.dotted(node.func) == "len" and any(map(self.is_tensor, node.args))
        return False

    def _is_address(self, node: ast.AST, names: set[str]) -> bool:
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Attribute):
            return node.attr in _ADDRESS_ATTRIBUTES
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _ADDRESS_METHODS:
                return True
            name = self._module.dotted(node.func)
            if name in ("id", "builtins.id", "weakref.ref", "weakref.proxy"):
                return True
            return name in ("hash", "builtins.hash") and any(map(self.is_tensor, node.args))
        return False


def _assigns(node: ast.AST) -> bool:
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.comprehension)
    return isinstance(node, kinds)


def _is_tensor(module: Module, annotation: ast.AST | None) -> bool:
    """Annotated `Tensor`, `torch.Tensor`, or one of these or None."""
    if annotation is None:
        return False
    if isinstance(annotation, ast.BinOp):
        return _is_tensor(module, annotation.left) or _is_tensor(module, annotation.right)
    name = module.text(annotation) or module.dotted(annotation)
    return name.rpartition(".")[2] in ("Tensor", "Tensor | None")
