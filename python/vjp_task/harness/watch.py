"""Watches one call for forbidden operators: by torch's two mode stacks and by its profiler.

The dispatch mode sees operators below autograd, the function mode those that are taken apart before
they get there, the profiler what runs on other threads or from C++, and kernels' names on a GPU.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .findings import Findings
from .names import KERNEL, OPERATOR

RULE = "fused-attention"


class _DispatchWatch(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, findings: Findings) -> None:
        super().__init__()
        self._findings = findings

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name() if hasattr(func, "name") and callable(func.name) else str(func)
        if OPERATOR.search(name):
            self._findings.add(RULE, f"runs the operator {name}")
        return func(*args, **(kwargs or {}))


class _FunctionWatch(TorchFunctionMode):
    def __init__(self, findings: Findings) -> None:
        super().__init__()
        self._findings = findings

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", None) or str(func)
        if OPERATOR.search(name):
            self._findings.add(RULE, f"calls the function {name}")
        return func(*args, **(kwargs or {}))


def watched(
    call: Callable[[], Any], findings: Findings, device: torch.device, profile: bool
) -> Any:
    """Runs the call under both modes, and under the profiler if asked; returns what it returns.

    A profiler that has seen a GPU once may slow every later launch: profile after timing.
    """
    with _profile(findings, device) if profile else nullcontext():
        with _FunctionWatch(findings), _DispatchWatch(findings):
            result = call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    return result


class _profile:  # noqa: N801
    """Notes forbidden names among the operators and kernels that ran inside the block."""

    def __init__(self, findings: Findings, device: torch.device) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._findings = findings
        self._profiler = torch.profiler.profile(activities=activities)

    def __enter__(self) -> None:
        self._profiler.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._profiler.__exit__(*exception)
        for name in sorted({event.name for event in self._profiler.events()}):
            if OPERATOR.search(name) and name.startswith("aten::"):
                self._findings.add(RULE, f"runs the operator {name}")
            elif KERNEL.search(name):
                self._findings.add(RULE, f"runs the kernel {name}")
