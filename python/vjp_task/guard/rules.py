"""The rules: what each refuses, and why. One table for the scan, the harness and the docs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One rule; `refuses` and `why` are clauses for messages and documents."""

    name: str
    refuses: str
    why: str


@dataclass(frozen=True)
class Finding:
    """A breach of a rule in a submitted file."""

    file: str  # relative to the submitted folder
    line: int  # from 1; in a binary the byte's offset, 0 where the whole file is meant
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.what}"


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "fused-attention",
            "scaled_dot_product_attention and its backends, FlexAttention, torch's multi-head and "
            "transformer layers, private fused attention operators, in source, strings or binaries",
            "the operator has to be the submission's own",
        ),
        Rule(
            "attention-package",
            "imports of packages that are attention or bring it along",
            "the operator has to be the submission's own",
        ),
        Rule(
            "outside-files",
            "reading or writing outside the submitted folder and the case's own home and tmp, the "
            "network, the evaluation's package and files",
            "cases, truth and results must stay unseen",
        ),
        Rule(
            "patched-timer",
            "replaced timers, events, streams or synchronisation, and clocks that disagree",
            "a latency is worth what its clock is",
        ),
        Rule(
            "patched-module",
            "assigning to attributes of modules or types that are not the submission's, and to "
            "sys.modules; overriding operators of torch; leaving a mode of torch on",
            "the checks run in the same process and use them",
        ),
        Rule(
            "call-order",
            "state that counts or orders calls: counters, lists that grow, iterators that advance",
            "a call that is timed has to do what a call that is checked does",
        ),
        Rule(
            "identity-key",
            "state keyed by or compared with a tensor's address, identity or version, or left on "
            "an input",
            "memory is used again with other values",
        ),
        Rule(
            "result-cache",
            "outputs stored by the entry point to be returned by a later call",
            "a call has to compute its result",
        ),
        Rule(
            "case-shape",
            "comparing totals or lengths with particular numbers, tables of them, and the visible "
            "cases' own numbers",
            "a solver has to serve the family, not a few shapes",
        ),
        Rule(
            "inspects-caller",
            "frames, tracebacks' frames, the garbage collector's lists, tracing hooks",
            "the caller holds what a solver must not know",
        ),
        Rule(
            "background-work",
            "threads, forks, processes that run beside or after a call, exit handlers, handlers of "
            "signals, timers, callbacks of the garbage collector",
            "work has to be inside the call that is timed",
        ),
        Rule(
            "hidden-code",
            "eval, exec, unpickling, compiled Python, computed attribute names on torch, the C "
            "library through ctypes, files that are neither text nor a compiled module",
            "code that cannot be read cannot be judged",
        ),
    )
}
