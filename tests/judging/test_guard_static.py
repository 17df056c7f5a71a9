"""The static scan: every cheat by file, line and rule; nothing honest refused."""

import re
import shutil

import pytest
import ragged_attention
from submissions import BASELINE, DYNAMIC, HONEST, STATIC, TESTS, lay_out
from vjp_task import paths
from vjp_task.cli import main
from vjp_task.guard.rules import RULES
from vjp_task.guard.scan import scan
from vjp_task.panel import load_visible_panel

VISIBLE = load_visible_panel().cases
ROOT = paths.repository()


def scan_source(folder, source, name="solver.py"):
    (folder / name).write_text(source)
    return scan(folder, VISIBLE)


@pytest.mark.parametrize("name", STATIC)
def test_cheat_is_found_by_the_rule_that_it_breaks(name, tmp_path):
    rule, place = STATIC[name]
    found = scan(lay_out(name, tmp_path), VISIBLE)
    assert {f.rule for f in found} == {rule}
    assert place in [f"{f.file}:{f.line}" for f in found]
    assert all(f.file != "plain.py" for f in found)


def test_every_rule_has_a_cheat_and_every_cheat_a_folder():
    broken = {rule for rule, _ in (*STATIC.values(), *DYNAMIC.values())}
    assert set(RULES) <= broken
    assert len(STATIC) + len(DYNAMIC) >= 20
    assert len(HONEST) >= 8
    assert {path.name for path in (TESTS / "cheats").iterdir()} == {*STATIC, *DYNAMIC}
    assert {path.name for path in (TESTS / "honest").iterdir()} == set(HONEST)


@pytest.mark.parametrize("name", [*HONEST, *DYNAMIC])
def test_nothing_is_found_where_nothing_can_be_read(name, tmp_path):
    assert scan(lay_out(name, tmp_path), VISIBLE) == []


def test_nothing_is_found_in_our_own_solver_and_its_package(tmp_path):
    shutil.copy(ROOT / "methods" / "main" / "solver.py", tmp_path)
    package = ROOT / "python" / "ragged_attention"
    left_out = shutil.ignore_patterns("__pycache__", "bench", "*.so")
    shutil.copytree(package, tmp_path / "ragged_attention", ignore=left_out)
    shutil.copytree(ROOT / "cutlass_kernels", tmp_path / "kernels")
    assert scan(tmp_path, VISIBLE) == []


def test_nothing_is_found_in_the_baseline(tmp_path):
    shutil.copy(BASELINE, tmp_path)
    assert scan(tmp_path, VISIBLE) == []


def test_our_package_has_to_be_submitted_too(tmp_path):
    shutil.copy(ROOT / "methods" / "main" / "solver.py", tmp_path)
    found = scan(tmp_path, VISIBLE)
    assert {f.rule for f in found} == {"attention-package"}
    assert "imports ragged_attention, which is not among the submitted files" in str(found[0])
    assert ragged_attention.__name__ == "ragged_attention"


SDPA = "scaled_dot_product_attention"

# One line of a function each: (rule, line), or None where it is honest.
LINES = {
    "sdpa by import": ("fused-attention", "from torch.nn.functional import " + SDPA),
    "sdpa of an alias": ("fused-attention", "f = torch.nn.functional; f." + SDPA),
    "sdpa in a string": ("fused-attention", "get('aten::_flash_attention_forward')"),
    "sdpa kernel": ("fused-attention", "torch.nn.attention.sdpa_kernel"),
    "efficient": ("fused-attention", "torch.ops.aten._efficient_attention_forward(q)"),
    "cudnn": ("fused-attention", "torch.ops.aten._cudnn_attention_forward(q)"),
    "multi-head layer": ("fused-attention", "torch.nn.MultiheadAttention(160, 1)"),
    "package": ("attention-package", "import xformers.ops"),
    "package by function": ("attention-package", "importlib.import_module('flash_attn')"),
    "absolute file": ("outside-files", "open('/home/user/secret.txt')"),
    "file above": ("outside-files", "pathlib.Path(__file__, '..', '..', 'x').read_text()"),
    "home": ("outside-files", "numpy.load('~/cases.npy')"),
    "evaluator": ("outside-files", "from vjp_task import panel"),
    "timer by setattr": ("patched-timer", "setattr(torch.cuda, 'synchronize', print)"),
    "timer in a class": ("patched-timer", "torch.cuda.Event.record = print"),
    "timer by vars": ("patched-timer", "vars(time)['perf_counter'] = print"),
    "timer deleted": ("patched-timer", "del torch.cuda.synchronize"),
    "tensor method": ("patched-module", "torch.Tensor.copy_ = print"),
    "builtin": ("patched-module", "builtins.open = print"),
    "module table": ("patched-module", "sys.modules['time'] = torch"),
    "mock": ("patched-module", "unittest.mock.patch('time.time')"),
    "counter": ("call-order", "STATE['n'] += 1"),
    "own attribute": ("call-order", "f.calls = getattr(f, 'calls', 0) + 1"),
    "growing list": ("call-order", "LIST.append(1)"),
    "iterator": ("call-order", "next(ITERATOR)"),
    "address key": ("identity-key", "STATE[q.data_ptr()] = 1"),
    "address looked up": ("identity-key", "STATE.get((q.data_ptr(), 3))"),
    "identity looked for": ("identity-key", "id(q) in STATE"),
    "address by a name": ("identity-key", "key = (q.data_ptr(), 1); STATE[key]"),
    "version": ("identity-key", "STATE[q._version]"),
    "weak table": ("identity-key", "weakref.WeakKeyDictionary()"),
    "attribute": ("identity-key", "q.mine = 1"),
    "address kept": ("identity-key", "STATE['last'] = q.data_ptr()"),
    "total": ("case-shape", "q.shape[0] == 5506"),
    "length": ("case-shape", "cu_q.tolist()[1] != 1999"),
    "total through names": ("case-shape", "a = q.size(0); b = a + 1; b == 5507"),
    "difference": ("case-shape", "q.shape[0] - 5506 == 0"),
    "digest of shapes": ("case-shape", "str(q.shape) == 'abc'"),
    "several totals": ("case-shape", "q.shape[0] in (5506, 2900)"),
    "table": ("case-shape", "{5506: 1, 2900: 2}[q.shape[0]]"),
    "visible total": ("case-shape", f"return {VISIBLE[0].total_q}"),
    "visible lengths": ("case-shape", f"return {list(VISIBLE[3].q_lengths[4:9])}"),
    "visible long lengths": ("case-shape", f"return {list(VISIBLE[0].q_lengths[4:7])}"),
    "tile table": (None, "return [(64, 64, 32), (48, 64, 96)]"),
    "visible seed": ("case-shape", f"return {VISIBLE[2].seed}"),
    "stack": ("inspects-caller", "inspect.stack()"),
    "traceback": ("inspects-caller", "error.__traceback__.tb_frame"),
    "collector": ("inspects-caller", "gc.get_referrers(q)"),
    "tracing": ("inspects-caller", "sys.settrace(print)"),
    "main module": ("inspects-caller", "import __main__"),
    "thread": ("background-work", "threading.Thread(target=print).start()"),
    "pool": ("background-work", "from concurrent.futures import ThreadPoolExecutor"),
    "processes": ("background-work", "import multiprocessing"),
    "exit": ("background-work", "atexit.register(print)"),
    "eval": ("hidden-code", "eval('1')"),
    "pickle": ("hidden-code", "pickle.loads(b'')"),
    "computed module": ("hidden-code", "importlib.import_module(str(q))"),
    "own process": ("hidden-code", "ctypes.CDLL(None)"),
    "alignment": (None, "q.data_ptr() % 16 == 0"),
    "address argument": (None, "call(q.data_ptr(), k.data_ptr())"),
    "head dimension": (None, "q.shape[2] != 160"),
    "heads": (None, "q.shape[1] in (48, 64, 80, 96)"),
    "threshold": (None, "q.shape[0] > 4096"),
    "multiple": (None, "q.shape[0] % 256 == 0"),
    "workspace": (None, "STATE[q.device] = torch.empty(3)"),
    "workspace by size": (None, "STATE[(q.shape[0], q.device)] = torch.empty(3)"),
    "local counter": (None, "n = 0; n += 1"),
    "local list": (None, "x = []; x.append(1)"),
    "setting": (None, "torch.backends.cuda.matmul.allow_tf32 = False"),
    "environment": (None, "os.environ['CUDA_MODULE_LOADING'] = 'LAZY'"),
    "compiled": (None, "torch.compile(print)"),
    "regular expression": (None, "re.compile('a')"),
    "dtype by name": (None, "getattr(torch, name)"),
    "own file": (None, "pathlib.Path(__file__).with_name('x').read_text()"),
    "docstring": (None, "'scaled_dot_product_attention is not used'"),
    "own name": (None, "my_flash_attention_kernel(q)"),
    "build": (None, "subprocess.run(['nvcc', '--version'])"),
}  # fmt: skip

TOP = """
import atexit, builtins, ctypes, gc, importlib, inspect, itertools, numpy, os, pathlib, pickle
import re, subprocess, sys, threading, time, torch, unittest.mock, weakref
STATE = {}
LIST = []
ITERATOR = itertools.count()
"""


@pytest.mark.parametrize("name", LINES)
def test_line(name, tmp_path):
    rule, line = LINES[name]
    source = f"{TOP}\ndef f(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):\n    {line}\n"
    found = scan_source(tmp_path, source)
    assert {f.rule for f in found} == ({rule} if rule else set()), found
    assert all((f.file, f.line) == ("solver.py", source.count("\n")) for f in found)


def test_counter_in_a_lasting_object_and_in_one_of_a_call(tmp_path):
    source = (
        "class Counter:\n    n = 0\n    def step(self):\n        self.n += 1\n"
        "        return self.n if self.n < 5 else 0\n{}"
    )
    assert scan_source(tmp_path, source.format("")) == []
    found = scan_source(tmp_path, source.format("counter = Counter()\n"))
    assert [str(f) for f in found] == [
        "solver.py:4: call-order: counts in self.n and decides by it"
    ]


def test_counter_in_a_closure_and_in_a_default(tmp_path):
    closure = (
        "def make():\n    n = 0\n    def f(q):\n        nonlocal n\n        n += 1\n"
        "        return n\n    return f\n"
    )
    assert [f.line for f in scan_source(tmp_path, closure)] == [5]
    assert [f.line for f in scan_source(tmp_path, "def f(q, n=[]):\n    n.append(q)\n")] == [2]


def test_match_on_particular_shapes(tmp_path):
    source = "def f(q):\n    match q.shape:\n        case ({}, _, _):\n            return 1\n"
    assert scan_source(tmp_path, source.format("total")) == []
    assert [f.rule for f in scan_source(tmp_path, source.format(5506))] == ["case-shape"]


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("int x = at::_flash_attention_forward(q);", "fused-attention"),
        ('#include "flash_fwd_launch_template.h"', "fused-attention"),
        ("cudaError_t cudaEventElapsedTime(float *ms, Event a, Event b) {", "patched-timer"),
        ("auto f = dlsym(RTLD_NEXT, name);", "patched-timer"),
        ('FILE *f = fopen("cases", "r");', "outside-files"),
        ("std::thread worker(run);", "background-work"),
        ("cudaEventElapsedTime(&ms, a, b);", None),
        ("// at::scaled_dot_product_attention", None),
        ("/* fopen(\n */", None),
        ("workforce(); reopen(1); my_fork_count();", None),
    ],
)  # fmt: skip
def test_cpp_line(code, rule, tmp_path):
    found = scan_source(tmp_path, f"int first;\n{code}\n", "kernel.cu")
    assert [(f.rule, f.line) for f in found] == ([(rule, 2)] if rule else [])


def test_binaries_and_unreadable_files(tmp_path):
    (tmp_path / "good.so").write_bytes(b"\x7fELF" + bytes(100))
    assert scan(tmp_path) == []
    (tmp_path / "fused.so").write_bytes(b"\x7fELF" + bytes(96) + b"_flash_attention_forward\0")
    (tmp_path / "no_module.so").write_bytes(b"PK\3\4")
    (tmp_path / "weights.bin").write_bytes(b"\x80\x00\xff")
    (tmp_path / "broken.py").write_text("def (:\n")
    assert [str(f).partition(" (")[0] for f in scan(tmp_path)] == [
        "broken.py:1: hidden-code: is no Python: invalid syntax",
        "fused.so:100: fused-attention: holds the name _flash_attention_forward",
        "no_module.so:0: hidden-code: is no ELF file, though it is named like a module",
        "weights.bin:0: hidden-code: is neither text nor a compiled module",
    ]


def test_command_prints_breaches_and_rules(tmp_path, capsys):
    assert main(["guard", "--solver", str(lay_out("call_counter", tmp_path))]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^solver.py:11: call-order: counts in calls, which outlives", printed, re.M)
    assert printed.endswith(f"breaches: {printed.count(': call-order: ')}\n")
    assert main(["guard", "--solver", str(BASELINE.parent)]) == 0
    assert capsys.readouterr().out == "breaches: none\n"
    assert main(["guard", "--rules"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{rule.name}\n  refuses {rule.refuses}" in printed for rule in RULES.values())
    assert main(["guard", "--solver", str(tmp_path / "none")]) == 2
    assert "is no folder; one with a solver.py is needed" in capsys.readouterr().err


def test_documentation_has_the_table_of_rules():
    text = (ROOT / "docs" / "evaluation.md").read_text()
    for rule in RULES.values():
        assert f"| {rule.name} | {rule.refuses} | {rule.why} |" in text
