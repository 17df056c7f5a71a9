"""A digest of a tensor's bytes, computed on the tensor's own device."""

import torch
from torch import Tensor

# 8-byte words hashed at a time: what stays in a core's cache, what fills a GPU
_DIGEST_WORDS = {"cpu": 1 << 16, "cuda": 1 << 24}
_PERIOD = 1 << 16  # words after which mixed positions recur, moved on; divides the sizes above
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64  # splitmix64, as signed words
_MIX_2 = 0x94D049BB133111EB - 2**64


def digest(tensor: Tensor) -> str:
    """64 bits over the bytes of a contiguous tensor, as hex; the same on every device.

    Each 8-byte word is mixed with its position by the splitmix64 finaliser and the results are
    added modulo 2^64, so the order of the additions doesn't matter.
    """
    flat = tensor.detach().reshape(-1).view(torch.uint8)
    if flat.numel() % 8 or flat.data_ptr() % 8:
        flat = torch.nn.functional.pad(flat, (0, -flat.numel() % 8)).clone()
    words = flat.view(torch.int64)
    chunk = _DIGEST_WORDS[words.device.type]
    index = torch.arange(min(chunk, words.numel()), device=words.device)
    places = _mix(index % _PERIOD) + index // _PERIOD * _PERIOD
    total = tensor.numel() * tensor.element_size()
    for first in range(0, words.numel(), chunk):
        part = words[first : first + chunk]
        total += int(_mix(part ^ (places[: part.numel()] + first)).sum())
    return f"{total % 2**64:016x}"


def _mix(z: Tensor) -> Tensor:
    """The splitmix64 finaliser, on signed words."""
    for bits, factor in ((30, _MIX_1), (27, _MIX_2), (31, 1)):
        # the mask turns the signed shift into a logical one
        z = (z ^ ((z >> bits) & ((1 << (64 - bits)) - 1))).mul_(factor)
    return z
