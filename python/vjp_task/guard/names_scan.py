"""Rules on names: operators, packages, files, patches, inspection, processes, hidden code."""

import ast
import builtins
import re
from collections.abc import Iterator

from vjp_task.guard.rules import Finding
from vjp_task.guard.syntax import Module
from vjp_task.harness.names import (
    EVALUATOR_FILES,
    EVALUATOR_PACKAGES,
    OPERATOR,
    SELECTOR,
    is_attention_package,
)

_READERS = re.compile(
    r"^(open|io\.open|os\.(open|listdir|scandir|walk|chdir)|glob\.i?glob|mmap\.mmap"
    r"|(torch|numpy|np|pickle|json|joblib)\.(load|loads|fromfile|from_file|memmap|loadtxt))$"
)
_READING_METHODS = {"read_text", "read_bytes", "iterdir", "rglob", "open", "glob"}
_TIMERS = re.compile(
    r"^(time|timeit|torch\.cuda|torch\.(Event|Stream|accelerator|utils\.benchmark)"
    r"|torch\._C\._cuda|triton\.testing|cupy\.cuda)(\.|_|$)"
)
_SETTINGS = ("torch.backends.", "sys.path", "os.environ", "torch._inductor.config.",
             "torch._dynamo.config.", "triton.knobs.")  # fmt: skip
_INSPECTION = re.compile(
    r"^(sys\.(_getframe|_current_frames|settrace|setprofile|monitoring.*|_getframemodulename)"
    r"|inspect\.(stack|currentframe|trace|getouterframes|getinnerframes)"
    r"|gc\.(get_objects|get_referrers|get_referents|callbacks)"
    r"|traceback\.(walk_stack|extract_stack)|threading\.(settrace|setprofile|_active))$"
)
_FRAME_ATTRIBUTES = {"f_back", "f_locals", "f_globals", "tb_frame", "gi_frame", "cr_frame"}
_BACKGROUND = re.compile(
    r"^(os\.(fork|forkpty|posix_spawnp?|spawn\w+|exec\w+|popen|register_at_fork|setsid)|pty\.\w+"
    r"|asyncio\.create_subprocess_\w+|threading\.(Thread|Timer)"
    r"|_thread\.\w+|multiprocessing(\.\w+)*|torch\.multiprocessing(\.\w+)*"
    r"|concurrent\.futures(\.\w+)*|atexit\.register|weakref\.finalize|signal\.(signal|setitimer|alarm))$"
)
_HIDDEN = re.compile(
    r"^(eval|exec|compile|builtins\.(eval|exec|compile|__import__)|marshal\.\w+|types\.(CodeType|FunctionType)"
    r"|pickle\.(load|loads|Unpickler)|dill\.\w+|cloudpickle\.\w+|zipimport\.\w+|runpy\.\w+"
    r"|codeop\.\w+|code\.Interactive\w+|importlib\.util\.decode_source|torch\.jit\.load"
    r"|torch\.package\.\w+|torch\.load)$"
)
_OVERRIDES = re.compile(r"^torch\.library\.(Library|impl|impl_abstract|register_\w+)$")
_COMPUTED = re.compile(r"^torch(\.(nn(\.functional)?|ops(\.\w+)?|_C(\.\w+)*))?$")
_PATCHERS = re.compile(
    r"^(unittest\.mock\.patch(\.\w+)*|mock\.patch(\.\w+)*|wrapt\.\w+|pytest\.MonkeyPatch)$"
)


def scan_names(module: Module) -> Iterator[Finding]:
    """Every breach of the rules on names in a module."""
    for node in ast.walk(module.tree):
        for rule, what in _breaches(module, node):
            yield Finding(module.file, getattr(node, "lineno", 0), rule, what)


def _breaches(module: Module, node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _import(module, alias.name)
    elif isinstance(node, ast.ImportFrom):
        yield from _import_from(module, node)
    elif isinstance(node, (ast.Attribute, ast.Name)):
        yield from _name(module, node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if id(node) not in module.docstrings:
            yield from _string(node.value)
    elif isinstance(node, (ast.BinOp, ast.JoinedStr)):
        text = module.text(node)
        if text:
            yield from _string(text)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
        targets = getattr(node, "targets", None) or [node.target]
        for target in targets:
            yield from _patch(module, target)
    elif isinstance(node, ast.Call):
        yield from _call(module, node)


def _import(module: Module, name: str) -> Iterator[tuple[str, str]]:
    top = name.partition(".")[0]
    if top in EVALUATOR_PACKAGES and top not in module.own:
        yield "outside-files", f"imports {name}, the evaluation's own package"
    elif is_attention_package(name, module.own):
        yield "attention-package", f"imports {name}, which is not among the submitted files"
    elif name.startswith("torch.nn.attention"):
        yield "fused-attention", f"imports {name}"
    elif top == "__main__":
        yield "inspects-caller", "imports __main__, the caller's module"
    elif _BACKGROUND.match(name) or top in ("multiprocessing", "_thread"):
        yield "background-work", f"imports {name}"
    elif top in ("marshal", "dill", "cloudpickle", "zipimport"):
        yield "hidden-code", f"imports {name}"


def _import_from(module: Module, node: ast.ImportFrom) -> Iterator[tuple[str, str]]:
    if node.level:
        return
    yield from _import(module, node.module or "")
    for alias in node.names:
        yield from _dotted(module, f"{node.module}.{alias.name}")


def _name(module: Module, node: ast.Attribute | ast.Name) -> Iterator[tuple[str, str]]:
    dotted = module.dotted(node)
    if dotted and (
        isinstance(node, ast.Attribute) or dotted != node.id or hasattr(builtins, dotted)
    ):
        yield from _dotted(module, dotted)
    if isinstance(node, ast.Attribute):
        if node.attr in _FRAME_ATTRIBUTES:
            yield "inspects-caller", f"reads .{node.attr}, a frame of its caller"
        elif OPERATOR.search(node.attr) and not dotted.startswith(("self.", "cls.")):
            foreign = not dotted or module.is_foreign(dotted)
            if foreign and not dotted.startswith("torch"):
                yield "fused-attention", f"uses .{node.attr}"


def _dotted(module: Module, name: str) -> Iterator[tuple[str, str]]:
    last = name.rpartition(".")[2]
    if name.startswith("torch") and (OPERATOR.search(name) or SELECTOR.match(last)):
        yield "fused-attention", f"uses {name}"
    elif _INSPECTION.match(name):
        yield "inspects-caller", f"uses {name}"
    elif _BACKGROUND.match(name):
        yield "background-work", f"uses {name}"
    elif _HIDDEN.match(name) and not name.startswith("torch.compile"):
        yield "hidden-code", f"uses {name}"
    elif _OVERRIDES.match(name):
        yield "patched-module", f"uses {name}, which overrides operators"
    elif _PATCHERS.match(name) or re.match(r"^sys\.(modules|meta_path|path_hooks)$", name):
        yield "patched-module", f"uses {name}"


def _string(text: str) -> Iterator[tuple[str, str]]:
    if OPERATOR.search(text):
        yield "fused-attention", f"names {_short(text)} in a string"
    elif EVALUATOR_FILES.search(text):
        yield "outside-files", f"names {_short(text)}, which belongs to the evaluation"


def _patch(module: Module, target: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _patch(module, item)
        return
    if isinstance(target, ast.Subscript):
        name = module.dotted(target.value)
        if isinstance(target.value, ast.Attribute) and target.value.attr == "__dict__":
            name = module.dotted(target.value.value)
            yield from _patched(module, f"{name}.{module.text(target.slice) or '...'}")
        elif name == "sys.modules":
            yield "patched-module", "assigns to sys.modules"
        elif isinstance(target.value, ast.Call) and module.dotted(target.value.func) == "vars":
            name = module.dotted(target.value.args[0]) if target.value.args else ""
            yield from _patched(module, f"{name}.{module.text(target.slice) or '...'}")
        return
    if isinstance(target, ast.Attribute):
        yield from _patched(module, module.dotted(target))


def _patched(module: Module, name: str) -> Iterator[tuple[str, str]]:
    """An assignment to an attribute: allowed on the submission's own objects and on settings."""
    if not name or name.startswith(_SETTINGS):
        return
    if _TIMERS.match(name) and module.is_foreign(name):
        yield "patched-timer", f"replaces {name}"
    elif module.is_foreign(name) or name.startswith("builtins."):
        yield "patched-module", f"replaces {name}"


def _call(module: Module, node: ast.Call) -> Iterator[tuple[str, str]]:
    name = module.dotted(node.func)
    arguments = node.args
    if name in ("setattr", "delattr", "object.__setattr__", "type.__setattr__") and arguments:
        attribute = module.text(arguments[1]) if len(arguments) > 1 else None
        yield from _patched(module, f"{module.dotted(arguments[0])}.{attribute or '...'}")
    elif name == "getattr" and len(arguments) >= 2:
        base = module.dotted(arguments[0])
        if module.text(arguments[1]) is None and _COMPUTED.match(base) and base != "torch":
            yield "hidden-code", f"computes the name of an attribute of {base}"
        else:
            yield from _dotted(module, module.dotted(node))
    elif name in ("importlib.import_module", "__import__"):
        target = module.text(arguments[0]) if arguments else None
        if target is None:
            yield "hidden-code", f"computes the name of a module for {name}"
        else:
            yield from _import(module, target)
    elif name in ("ctypes.CDLL", "ctypes.PyDLL", "ctypes.cdll.LoadLibrary"):
        library = module.text(arguments[0]) if arguments else None
        value = arguments[0] if arguments else None
        if value is None or (isinstance(value, ast.Constant) and not value.value):
            yield "hidden-code", "opens the process itself through ctypes"
        elif library and library.startswith(("libc.", "libdl", "libpthread", "libpython")):
            yield "hidden-code", f"opens {library} through ctypes"
    elif name.startswith("ctypes.pythonapi"):
        yield "hidden-code", f"uses {name}"
    text = module.text(node)
    if text:
        yield from _string(text)
    yield from _read(module, node, name)


def _read(module: Module, node: ast.Call, name: str) -> Iterator[tuple[str, str]]:
    """Paths given to what reads files: absolute, or climbing out with `..`."""
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if not (_READERS.match(name) or method in _READING_METHODS):
        return
    parts = [*node.args, *([node.func.value] if method in _READING_METHODS else [])]
    for part in parts:
        for inner in ast.walk(part):
            text = module.text(inner)
            if text and (text.startswith(("/", "~")) or ".." in text.split("/")):
                if not text.startswith(("/dev/null", "/proc/cpuinfo", "/proc/meminfo")):
                    yield "outside-files", f"reads {_short(text)}"
                return


def _short(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= 60 else line[:57] + "...")
