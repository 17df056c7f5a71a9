"""The methods that the benchmark compares, one file each, in the order of its tables."""

from ragged_attention.bench.methods import (
    eager,
    flash_attn_2,
    flash_attn_cute,
    flex_attention,
    ours,
    packed_pytorch,
)
from ragged_attention.bench.methods.method import Method

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        ours.SM90,
        ours.SM86,
        flash_attn_cute.METHOD,
        flash_attn_2.METHOD,
        flex_attention.METHOD,
        packed_pytorch.METHOD,
        eager.METHOD,
    )
}


def select(names: list[str] | None) -> list[Method]:
    """The methods of these names, in the table's order; all for None or an empty list.

    Raises ValueError for an unknown name.
    """
    for name in names or []:
        if name not in METHODS:
            raise ValueError(f"methods: {name!r}; one of {', '.join(METHODS)} is needed")
    return [method for name, method in METHODS.items() if not names or name in names]
