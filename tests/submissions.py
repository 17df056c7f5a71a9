"""Cheats and honest solvers as folders that a judge takes, and the rule each cheat breaks.

`python tests/submissions.py FOLDER` lays all of them out there, one folder each, complete with the
plain solver that they import.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

TESTS = Path(__file__).resolve().parent
BASELINE = TESTS.parent / "methods" / "baseline" / "solver.py"

# Found by the static scan: name -> (rule, file:line).
STATIC = {
    "fused_function": ("fused-attention", "solver.py:9"),
    "fused_by_parts": ("fused-attention", "solver.py:6"),
    "private_operator": ("fused-attention", "solver.py:11"),
    "flex_attention": ("fused-attention", "solver.py:4"),
    "backend_choice": ("fused-attention", "solver.py:6"),
    "fused_in_cpp": ("fused-attention", "extension.cpp:4"),
    "external_package": ("attention-package", "solver.py:6"),
    "reads_cases": ("outside-files", "solver.py:8"),
    "imports_evaluator": ("outside-files", "solver.py:6"),
    "climbs_out": ("outside-files", "solver.py:7"),
    "patched_event": ("patched-timer", "solver.py:7"),
    "patched_clock": ("patched-timer", "solver.py:7"),
    "patched_synchronize": ("patched-timer", "solver.py:6"),
    "patched_check": ("patched-module", "solver.py:6"),
    "patched_operator": ("patched-module", "solver.py:6"),
    "call_counter": ("call-order", "solver.py:11"),
    "call_list": ("call-order", "solver.py:9"),
    "call_iterator": ("call-order", "solver.py:11"),
    "address_cache": ("identity-key", "solver.py:10"),
    "identity_cache": ("identity-key", "solver.py:11"),
    "attribute_cache": ("identity-key", "solver.py:8"),
    "last_input": ("identity-key", "solver.py:11"),
    "shape_cache": ("result-cache", "solver.py:12"),
    "shape_branch": ("case-shape", "solver.py:8"),
    "shape_table": ("case-shape", "solver.py:9"),
    "shape_window": ("case-shape", "solver.py:7"),
    "frame_peek": ("inspects-caller", "solver.py:9"),
    "background_thread": ("background-work", "solver.py:16"),
    "forked_helper": ("background-work", "solver.py:7"),
    "hidden_code": ("hidden-code", "solver.py:6"),
    "computed_name": ("hidden-code", "solver.py:10"),
}

# Found while they run: name -> (rule, or what is blamed; file:line, or a part of the reason).
DYNAMIC = {
    "fused_hidden": ("fused-attention", "solver.py:11: calls the function scaled_dot_product"),
    "package_hidden": ("attention-package", "solver.py:14: imports flash_attn"),
    "reads_hidden": ("outside-files", "solver.py:10: reads /proc/"),
    "patched_hidden": ("patched-timer", "time.perf_counter was replaced"),
    "counter_hidden": ("out", "relative error"),
    "cache_hidden": ("out", "relative error"),
    "collector_peek": ("inspects-caller", "solver.py:11: looks at its caller (gc.get_objects)"),
    "thread_hidden": ("background-work", "solver.py:11: starts a thread"),
    "process_in_call": ("background-work", "solver.py:9: starts a process (subprocess.Popen)"),
    "changes_input": ("k", "this input was changed by the call"),
    "returns_input": ("dv", "shares memory with v"),
    "shared_output": ("dq", "shares memory with out"),
    "reused_outputs": ("out", "shares memory with an earlier call's out"),
    "lazy_output": ("out", "a Lazy; a plain torch.Tensor is needed"),
    "lazy_result": ("result", "12 values; a tuple of out, dq, dk, dv is needed"),
    "mode_left_on": ("patched-module", "leaves a mode on that sees or replaces operators"),
    "signal_hidden": ("background-work", "leaves a handler of a signal"),
    "collector_hidden": ("background-work", "leaves a callback of the garbage collector"),
    "finalizer_hidden": ("out", "was changed after the call had returned"),
    "method_hidden": ("patched-module", "torch.Tensor.contiguous was replaced"),
}

HONEST = (
    "submodules",
    "workspace",
    "own_stream",
    "triton_kernel",
    "compiled_module",
    "family_dispatch",
    "cached_plan",
    "autograd_function",
    "builds_on_import",
    "says_much",
    "named_result",
)


def lay_out(name: str, folder: Path) -> Path:
    """A copy of one submission in `folder / name`, with the plain solver and what it compiles."""
    kind = "honest" if name in HONEST else "cheats"
    target = folder / name
    shutil.copytree(TESTS / kind / name, target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(BASELINE, target / "plain.py")
    for source in target.glob("*.c"):
        module = target / f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}"
        include = f"-I{sysconfig.get_path('include')}"
        command = ["gcc", "-shared", "-fPIC", "-O1", include, str(source), "-o", str(module)]
        subprocess.run(command, check=True)
    return target


if __name__ == "__main__":
    top = Path(sys.argv[1])
    top.mkdir(parents=True, exist_ok=True)
    for each in (*STATIC, *DYNAMIC, *HONEST):
        print(lay_out(each, top))
