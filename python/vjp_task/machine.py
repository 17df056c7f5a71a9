"""What stands beside every figure: card, driver, clocks, versions, commit."""

import os
from typing import Any

import torch
from ragged_attention import native
from ragged_attention.bench import machine

from vjp_task import paths


def describe(device: torch.device) -> dict[str, Any]:
    """Card, driver, clocks, and the versions of what runs on it; None where unknown."""
    return machine.describe(device, paths.repository())


def backend(device: torch.device) -> dict[str, str | None]:
    """What the operator's package runs on this device: its backend, and its tile row if native."""
    try:
        module = native.load() if device.type == "cuda" else None
    except ImportError:
        return {"backend": "broken", "tiles": None}
    if module is None:
        return {"backend": "portable", "tiles": None}
    forced = os.environ.get(native.TILES_VARIABLE)
    return {"backend": "native", "tiles": forced or module.choose_tiles(device.index)}
