"""Which row of the tile table a card gets, and the errors of cards that get none."""

from types import ModuleType

import pytest

CARDS = [  # capability, bytes of shared memory a block, the row where code is there
    ((8, 0), 166_912, None),
    ((8, 6), 101_376, "sm86"),
    ((8, 9), 101_376, "sm86"),
    ((9, 0), 232_448, "sm90"),
    ((12, 0), 101_376, "sm86"),
]
NEEDS = {"sm86": ("8.6", "101376"), "sm90": ("9.0", "232448")}
NAME = "Made-up card"


def facts(capability: tuple[int, int], shared_memory: int) -> tuple[str, ...]:
    return NAME, f"compute capability {capability[0]}.{capability[1]}", f"{shared_memory} bytes"


def assert_message(error: pytest.ExceptionInfo, *parts: str) -> None:
    message = str(error.value)
    assert message.startswith("device: ")
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize(("capability", "shared_memory", "row"), CARDS)
def test_choice(
    kernels_host: ModuleType, capability: tuple[int, int], shared_memory: int, row: str | None
) -> None:
    card = (NAME, *capability, shared_memory, True)
    if row:
        assert kernels_host.choose_tiles(*card) == row
        return
    with pytest.raises(RuntimeError) as error:
        kernels_host.choose_tiles(*card)
    assert_message(error, *facts(capability, shared_memory), "tiles sm86", *NEEDS["sm86"])


@pytest.mark.parametrize("row", NEEDS)
@pytest.mark.parametrize(("capability", "shared_memory", "chosen"), CARDS)
def test_check_of_a_row(
    kernels_host: ModuleType,
    row: str,
    capability: tuple[int, int],
    shared_memory: int,
    chosen: str | None,
) -> None:
    """A card that gets sm90 runs sm86 too; no other card runs a row that it does not get."""
    card = (NAME, *capability, shared_memory, True)
    if row in {chosen, chosen and "sm86"}:
        kernels_host.check_tiles(row, *card)
        return
    with pytest.raises(RuntimeError) as error:
        kernels_host.check_tiles(row, *card)
    assert_message(error, *facts(capability, shared_memory), f"tiles {row}", *NEEDS[row])


@pytest.mark.parametrize(("capability", "shared_memory", "_"), CARDS)
def test_card_without_code(
    kernels_host: ModuleType, capability: tuple[int, int], shared_memory: int, _: str | None
) -> None:
    card = (NAME, *capability, shared_memory, False)
    built = f"built for sm {kernels_host.built_architectures()}"
    with pytest.raises(RuntimeError) as error:
        kernels_host.choose_tiles(*card)
    assert_message(error, *facts(capability, shared_memory), built)
    for row in NEEDS:
        with pytest.raises(RuntimeError) as error:
            kernels_host.check_tiles(row, *card)
        assert_message(error, *facts(capability, shared_memory), built, *NEEDS[row])


@pytest.mark.parametrize(("row", "limit"), [("sm86", 101_376), ("sm90", 232_448)])
def test_one_byte_less_than_a_row_needs(kernels_host: ModuleType, row: str, limit: int) -> None:
    kernels_host.check_tiles(row, NAME, 9, 0, limit, True)
    with pytest.raises(RuntimeError) as error:
        kernels_host.check_tiles(row, NAME, 9, 0, limit - 1, True)
    assert_message(error, *facts((9, 0), limit - 1), f"tiles {row}", *NEEDS[row])
