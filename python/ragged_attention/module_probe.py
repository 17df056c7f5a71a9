"""What cards there are, and what a compiled module runs on, found out without loading either here.

As a program it prints both as JSON. A process of its own, since asking CUDA would keep its parent
from forking, and since two modules of one name cannot be loaded side by side.
"""

import ctypes
import importlib.util
import json
import sys
from typing import Any

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR


def capabilities() -> list[int]:
    """The compute capabilities of the visible cards, as 86 for 8.6; empty without a driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count, device = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = set()
    for index in range(count.value):
        numbers = [ctypes.c_int(), ctypes.c_int()]
        failed = cuda.cuDeviceGet(ctypes.byref(device), index)
        for number, attribute in zip(numbers, (_MAJOR, _MINOR), strict=True):
            failed |= cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        if not failed:
            found.add(10 * numbers[0].value + numbers[1].value)
    return sorted(found)


def compiled_for(module: str) -> list[int] | None:
    """The architectures that a module's file holds code for; None where it does not load."""
    try:
        spec = importlib.util.spec_from_file_location("_native", module)
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return list(loaded.build_info()["sm"])
    except ImportError:  # a missing file too
        return None


def suits(sm: list[int], capability: int) -> bool:
    """Whether code for these architectures runs on a card: one of its own major, not newer."""
    return any(s // 10 == capability // 10 and s <= capability for s in sm)


def answer(module: str) -> dict[str, Any]:
    """Both answers."""
    return {"capabilities": capabilities(), "sm": compiled_for(module)}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1])))
