"""Options that seal and judge share."""

import argparse

import torch

from vjp_task.sealed.process import Limits
from vjp_task.selfcheck import CPU_SCALE

_GIB = 1 << 30


def add_device(parser: argparse.ArgumentParser) -> None:
    """--device."""
    parser.add_argument(
        "--device",
        choices=("auto", "cuda", "cpu"),
        default="auto",
        help="where to run; auto takes the GPU if there is one (default: auto)",
    )


def add_scale(parser: argparse.ArgumentParser) -> None:
    """--scale."""
    parser.add_argument(
        "--scale",
        type=float,
        metavar="F",
        help="multiply all lengths and the batch by F, 0 < F <= 1 "
        f"(default: 1 on a GPU, {CPU_SCALE:g} on a CPU)",
    )


def add_limits(parser: argparse.ArgumentParser) -> None:
    """--time-limit, --import-limit, --memory-limit, --device-memory-limit."""
    default = Limits()
    parser.add_argument(
        "--time-limit",
        type=float,
        default=default.seconds,
        metavar="S",
        help=f"seconds for the calls of one case (default: {default.seconds:g})",
    )
    parser.add_argument(
        "--import-limit",
        type=float,
        default=default.import_seconds,
        metavar="S",
        help="seconds for importing the solver, which may build its module then "
        f"(default: {default.import_seconds:g})",
    )
    parser.add_argument(
        "--memory-limit",
        type=float,
        default=default.memory / _GIB,
        metavar="GIB",
        help=f"GiB of host memory for one case (default: {default.memory / _GIB:g})",
    )
    parser.add_argument(
        "--device-memory-limit",
        type=float,
        default=default.device_memory / _GIB,
        metavar="GIB",
        help="GiB of GPU memory that torch may take in the solver's process "
        f"(default: {default.device_memory / _GIB:g})",
    )


def scale_of(arguments: argparse.Namespace, device: torch.device) -> float:
    """The scale asked for, or the device's default."""
    if arguments.scale is not None:
        return arguments.scale
    return 1.0 if device.type == "cuda" else CPU_SCALE


def limits_of(arguments: argparse.Namespace) -> Limits:
    """The limits asked for. Raises ValueError for one that is not positive."""
    values = {
        "time-limit": arguments.time_limit,
        "import-limit": arguments.import_limit,
        "memory-limit": arguments.memory_limit,
        "device-memory-limit": arguments.device_memory_limit,
    }
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name}: {value:g}; a number above 0 is needed")
    seconds, import_seconds, memory, device_memory = values.values()
    return Limits(seconds, import_seconds, int(memory * _GIB), int(device_memory * _GIB))
