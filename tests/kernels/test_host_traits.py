"""What the kernels take of a card, against what a card of each row has."""

from types import ModuleType
from typing import NamedTuple


class Card(NamedTuple):
    """Limits from the CUDA C++ Programming Guide, table of compute capabilities."""

    block_bytes: int  # shared memory that a block may have
    bytes: int  # shared memory of a multiprocessor
    threads: int  # of a multiprocessor


CARDS = {"sm86": Card(101_376, 102_400, 1_536), "sm90": Card(232_448, 233_472, 2_048)}
RESERVED = 1_024  # bytes of shared memory that the system takes for each block
KERNELS = {
    ("sm86", "row"),
    ("sm86", "long keys"),
    ("sm86", "short keys"),
    ("sm86", "resident row"),
    ("sm90", "row"),
    ("sm90", "long keys"),
    ("sm90", "short keys"),
    ("sm90", "resident row"),
}


def test_every_kernel_is_listed(kernels_host: ModuleType) -> None:
    assert {(r["tiles"], r["kernel"]) for r in kernels_host.traits()} == KERNELS


def test_a_block_fits(kernels_host: ModuleType) -> None:
    for record in kernels_host.traits():
        assert 0 < record["shared_memory"] <= CARDS[record["tiles"]].block_bytes
        assert record["threads"] <= 1_024 and record["threads"] % 32 == 0


def test_blocks_fit_a_multiprocessor(kernels_host: ModuleType) -> None:
    for record in kernels_host.traits():
        card, ctas = CARDS[record["tiles"]], record["ctas"]
        assert ctas >= 1
        assert ctas * (record["shared_memory"] + RESERVED) <= card.bytes
        assert ctas * record["threads"] <= card.threads


def test_tiles_are_there_and_aligned(kernels_host: ModuleType) -> None:
    """The swizzle counts from 128-byte boundaries."""
    for record in kernels_host.traits():
        assert record["shared_memory"] >= record["tile_bytes"] > 0
        assert len(record["tile_steps"]) >= 4
        assert all(step % 128 == 0 for step in record["tile_steps"])
