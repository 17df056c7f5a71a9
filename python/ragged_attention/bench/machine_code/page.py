"""The page `docs/sm86.md`: tables and how to read them."""

from collections.abc import Sequence

from ragged_attention.bench.floor import Work
from ragged_attention.bench.machine_code import pipes
from ragged_attention.bench.machine_code.kernels import STEP, Tiles, weighed_steps
from ragged_attention.bench.machine_code.loops import MainLoop, Role
from ragged_attention.bench.machine_code.predict import A6000, CaseTime, Loops

_COUNTED = {
    "HMMA": pipes.TENSOR,
    "LDSM": ("LDSM",),
    "LDS": ("LDS",),
    "STS": ("STS",),
    "other shared": tuple(n for n in pipes.SHARED if n not in ("LDSM", "LDS", "STS")),
    "MUFU": pipes.MUFU,
    "fp32": pipes.FP32,
    "integer": pipes.INTEGER,
}
_NAMES = {"row": "row, {} rows", "resident_row": "resident rows", "key": "key, {} keys"}  # by kind

_TEXT = """# What the machine code says about sm_86

Written by `{command}`
at commit {commit}; a new build wants a new page. The target, an RTX A6000, is not
at hand: this is reasoning from the code that would run there, not measurement.

## Instructions that a warp issues in one iteration

One iteration of a main loop takes one stage of the ring:
{stages}.
Cases of at most {mean_keys} keys a sequence on average take `resident rows`: up to {resident_keys}
keys stay in shared memory, and a warp takes a step of {step} of them in one iteration, with {step}
rows of its own. With the bounded score, sweep 1 leaves the weights of dP to sweep 2 where there is
room beside the keys: these steps are `weighed`, four products in all. They are all steps of up to
{weighed_keys} keys; of more keys the last, down to {last_weighed} of {last_steps} steps at
{resident_keys}. For the others sweep 2 computes S `anew`: five. A weighed loop may be there twice,
for sequences with and without such others; the one that issues more is listed. Sequences whose keys
don't fit are `streamed`, as in the row kernel.
Two kinds of warps share the key kernel's loop: dV warps have the MUFU, dK warps have none, and the
last of them copy. Where a loop branches, the longest way is counted; a wait counts as one try.

{counts}

## Clocks of one multiprocessor for one iteration of a whole CTA

{clocks}

How to read it. A warp instruction keeps its pipe busy for so many clocks of the multiprocessor:
HMMA.16816 4 (1,024 FLOP a clock), shared memory its bytes / 128 (every access at full width),
MUFU 2, integer 1/2, fp32 and integer together 1/4 each, and a scheduler's slot 1/4 (four
schedulers, one instruction a clock each). Each column is the sum over all warps of the CTA.

- `bound` = tensor / the slowest pipe: what is left of the tensor peak if all pipes overlap
  perfectly. It is 100% where the tensor pipe is the slowest.
- `strict` = tensor / (tensor + slots of all other instructions): what is left if a scheduler's
  other instructions never overlap with its tensor core. The truth lies between the two as long as
  latencies are hidden: a scheduler has only {warps_per_scheduler} warps to hide them with.

## Device memory, on paper, with 6 MB of L2

{memory}

The row kernel reads q and dout once and writes out and dq once in any case: K and V of a sequence
stay in shared memory or L2 while its rows run one after the other. The key kernel streams q and
dout past every key tile of a sequence. Where every tile has its CTA, those of one sequence have
neighbouring indices and start together. Where key tiles are few, as with long queries, CTAs get
equal stretches of the rows; where a sequence has up to {team} tiles, CTAs form teams of as many,
which go through the same rows. Either way a row comes from memory once and from L2 for the others,
as long as CTAs don't drift apart further than `slack`: iterations of q and dout that L2 holds for
every group of CTAs in flight that share. The ring alone keeps up to three iterations in flight.
`unshared` is the other extreme: every CTA reads for itself. lse and delta are counted (8 bytes a
row), the sums of tiles that CTAs share are not.

## Predicted times

Per kernel the larger of tensor and memory time, both kernels added: from `bound` with shared rows
to `strict` with unshared rows. Tensor time is products x 320 FLOP x logits multiplied /
({tflops} TFLOP/s x the part above). `padding` is logits multiplied over logits there are: tiles
reach past the ends of sequences, in the key kernel no further than a pair of warps' keys a tile,
in resident rows, unless streamed, no further than {step} keys and a warp's {step} rows. Streamed
rows there count in full tiles, though a CTA's share may end within one. What rows cost beside
their main loops (loads, masks of the last keys, stores) is left out: the fewer keys, the more it
weighs.
{tflops} TFLOP/s and {gbps:.0f} GB/s are from the data sheet.
`floor` is that of seven products or four passes.

{times}
"""


def write(loops: Loops, times: Sequence[CaseTime], tiles: Tiles, commit: str, command: str) -> str:
    """The page's text."""
    last_steps = tiles.number("kResidentKeys") // STEP
    whole = [n for n in range(last_steps + 1) if weighed_steps(n, tiles) == n]
    return _TEXT.format(
        command=command,
        commit=commit,
        stages=_stages(loops),
        mean_keys=tiles.number("kResidentMeanKeys"),
        resident_keys=tiles.number("kResidentKeys"),
        weighed_keys=max(whole) * STEP,
        last_weighed=weighed_steps(last_steps, tiles),
        last_steps=last_steps,
        step=STEP,
        team=tiles.number("kKeyTeam"),
        counts=_counts(loops),
        clocks=_clocks(loops),
        warps_per_scheduler=_warps_per_scheduler(loops),
        memory=_memory(times),
        tflops=A6000.mma_tflops,
        gbps=1e3 * A6000.copy_tbps,
        times=_times(times),
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """A Markdown table whose first `texts` columns are text, the others numbers."""
    rule = ["---"] * texts + ["---:"] * (len(header) - texts)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def _ordered(loops: Loops) -> list[MainLoop]:
    kinds = list(_NAMES)
    kernels = sorted(loops, key=lambda k: (k.score, kinds.index(k.kind), k.dtype != "float16"))
    return [loop for kernel in kernels for loop in loops[kernel]]


def _names(loop: MainLoop) -> list[str]:
    kernel = loop.kernel
    return [_NAMES[kernel.kind].format(kernel.own), kernel.dtype, kernel.score, loop.name]


def _counts(loops: Loops) -> str:
    rows = []
    for loop in _ordered(loops):
        for role in loop.roles:
            counts = [role.path.count(*names) for names in _COUNTED.values()]
            issued = role.path.opcodes.total()
            numbers = [f"{role.warps:g}", *map(str, counts), str(issued)]
            rows.append([*_names(loop), _role(loop, role), *numbers])
    header = ["kernel", "dtype", "score", "loop", "role", "warps", *_COUNTED, "issued"]
    return _table(header, rows, texts=5)


def _role(loop: MainLoop, role: Role) -> str:
    if loop.kernel.roles == 1:
        return "all"
    most = max(r.path.count("MUFU") for r in loop.roles)
    name = "dV" if role.path.count("MUFU") == most else "dK"
    return f"{name}, copying" if role.path.count("LDGSTS") else name


def _clocks(loops: Loops) -> str:
    rows = []
    for loop in _ordered(loops):
        c = loop.clocks
        numbers = [c.tensor, c.shared, c.mufu, c.arithmetic, c.issue]
        verdict = [f"{c.issue / c.tensor:.0%}", c.slowest, f"{c.bound:.0%}", f"{c.strict:.0%}"]
        busy = [f"{n:,.0f}" for n in numbers]
        rows.append([*_names(loop), f"{loop.products:g}", *busy, *verdict])
    header = ["kernel", "dtype", "score", "loop", "products", "tensor", "shared", "MUFU"]
    header += ["fp32 + integer", "issue", "issue / tensor", "slowest", "bound", "strict"]
    return _table(header, rows, texts=4)


def _memory(times: Sequence[CaseTime]) -> str:
    rows = [
        [
            t.spec.name,
            f"{t.row.bytes / 1e9:.2f}",
            f"{t.key.bytes / 1e9:.2f}",
            f"{t.key.worst_bytes / 1e9:.2f}",
            f"{t.passes:.1f}",
            f"{t.worst_passes:.1f}",
            f"{t.key_tiles:.1f}",
            f"{t.slack:.0f}",
        ]
        for t in times
    ]
    header = ["stratum", "row kernel, GB", "key kernel, GB", "unshared, GB", "passes"]
    header += ["unshared passes", "key tiles a sequence", "slack"]
    return _table(header, rows, texts=1)


def _times(times: Sequence[CaseTime]) -> str:
    rows = []
    for t in times:
        floor = Work.of(t.spec).floor_ms(A6000)
        low, high = t.ms(strict=False), t.ms(strict=True)
        rows.append(
            [t.spec.name]
            + [f"{k.padding:.2f}" for k in (t.row, t.key)]
            + [_span(t.row.bound_ms, t.row.strict_ms), f"{t.row.memory_ms:.2f}"]
            + [_span(t.key.bound_ms, t.key.strict_ms)]
            + [_span(t.key.memory_ms, t.key.worst_memory_ms)]
            + [_span(low, high), f"{floor:.2f}", _span(low / floor, high / floor)]
        )
    header = ["stratum", "padding, row", "padding, key", "row tensor, ms", "row memory, ms"]
    header += ["key tensor, ms", "key memory, ms", "call, ms", "floor, ms", "call / floor"]
    return _table(header, rows, texts=1)


def _span(low: float, high: float) -> str:
    a, b = f"{low:.2f}", f"{high:.2f}"
    return a if a == b else f"{a} to {b}"


def _stages(loops: Loops) -> str:
    what = {"row": "keys for the row kernel", "key": "rows for the key kernel"}
    streamed = {(k.kind, k.streamed) for k in loops if k.kind in what}
    return ", ".join(f"{n} {what[kind]}" for kind, n in sorted(streamed, reverse=True))


def _warps_per_scheduler(loops: Loops) -> str:
    counts = sorted({k.warps * k.shape.get("kCtas", 1) / 4 for k in loops})
    return " or ".join(f"{count:g}" for count in counts)
