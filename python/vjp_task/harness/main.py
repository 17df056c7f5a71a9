"""The solver's process: reads requests from one pipe, writes answers to another, both JSON lines.

Takes one argument, JSON: `solver` (the file), `exchange`, `own` (folders that the solver may
write), `device`, `device_memory` (bytes or null), `requests` and `replies` (file descriptors).
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .auditing import Auditor
from .findings import Findings
from .session import Session

ENTRY_POINT = "attention_varlen_feature_full_vjp"


def main() -> None:
    """Answers until the judge closes its end."""
    settings = json.loads(sys.argv[1])
    sys.argv = ["solver"]
    file, device = Path(settings["solver"]), torch.device(settings["device"])
    requests = os.fdopen(settings["requests"], "r")
    replies = os.fdopen(settings["replies"], "w")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        total = torch.cuda.get_device_properties(device).total_memory
        if settings["device_memory"]:
            share = min(1.0, settings["device_memory"] / total)
            torch.cuda.set_per_process_memory_fraction(share, device)

    findings = Findings(file.parent)
    auditor = Auditor(findings, file.parent, [Path(folder) for folder in settings["own"]])
    session = Session(
        lambda: load_solver(file), device, Path(settings["exchange"]), auditor, findings
    )
    _hide()
    auditor.install()
    process, dumps, loads, end = os.getpid(), json.dumps, json.loads, os._exit
    for line in requests:
        request = loads(line)
        number = request.pop("id")
        reply = dumps({**session.answer(request), "id": number})
        if os.getpid() != process:
            end(0)  # a fork of the solver's must not answer in its parent's place
        replies.write(reply + "\n")
        replies.flush()


def load_solver(file: Path) -> Callable[..., Any]:
    """Imports the solver's file, its folder first on the path, and returns its entry point."""
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location("solver", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["solver"] = module
    spec.loader.exec_module(module)
    operator = getattr(module, ENTRY_POINT, None)
    if not callable(operator):
        raise ValueError(f"solver: {file.name} has no function {ENTRY_POINT}; one is needed")
    return operator


def _hide() -> None:
    """Takes the harness's modules and folder out of what an import finds."""
    package = __package__
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        del sys.modules[name]
    folder = str(Path(__file__).resolve().parent.parent)
    sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != folder]
