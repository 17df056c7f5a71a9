"""The machine that a figure comes from: card, driver, clocks, commit."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from ragged_attention import native

# What nvidia-smi is asked for, by our names.
_SMI_FIELDS = {
    "driver": "driver_version",
    "sm_clock": "clocks.sm",
    "max_sm_clock": "clocks.max.sm",
    "memory_clock": "clocks.mem",
    "power_limit": "power.limit",
    "temperature": "temperature.gpu",
}


def describe(device: torch.device, folder: Path) -> dict[str, Any]:
    """Card, driver, clocks, the versions of what runs on it, the folder's commit; None: unknown.

    mma_repeat is how often the compiled module issues each tensor instruction: more than once in a
    timing build, whose results are wrong.
    """
    return {
        "device": device.type,
        "card": card_name(device),
        **smi_state(device),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "commit": commit(folder),
        "mma_repeat": _of_module("mma_repeat"),
    }


def card_name(device: torch.device) -> str:
    """The GPU's name, or the CPU's model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def smi_state(device: torch.device) -> dict[str, str | None]:
    """Driver, clocks, power and temperature as nvidia-smi gives them, with units."""
    unknown = dict.fromkeys(_SMI_FIELDS)
    if device.type != "cuda":
        return unknown
    text = _output(
        [
            "nvidia-smi",
            f"--id={_smi_id(device)}",
            f"--query-gpu={','.join(_SMI_FIELDS.values())}",
            "--format=csv,noheader",
        ]
    )
    values = [value.strip() for value in (text or "").split(",")]
    if len(values) != len(_SMI_FIELDS):
        return unknown
    return dict(zip(_SMI_FIELDS, values, strict=True))


def commit(folder: Path) -> str | None:
    """Short hash of the folder's commit, `-dirty` appended where tracked files differ from it.

    Outside a git checkout it is the commit that the compiled module was built from, if any.
    """
    short = _output(["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"])
    if not short:
        return _of_module("commit")
    changed = _output(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    return short + ("-dirty" if changed else "")


def _of_module(fact: str) -> Any:
    """What the compiled module says of its build; None where there is no module."""
    try:
        return native.build_info()[fact]
    except ImportError:
        return None


def _smi_id(device: torch.device) -> str:
    """The card's UUID, since CUDA_VISIBLE_DEVICES may renumber the indices."""
    properties = torch.cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    return f"GPU-{uuid}".replace("GPU-GPU-", "GPU-") if uuid else str(device.index or 0)


def _output(command: list[str]) -> str | None:
    """What a command prints; None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
