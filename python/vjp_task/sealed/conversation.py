"""What the judge asks a solver's process for one case, and what it makes of the answers.

Calls: 1 on the case's own values; 2 on others at the same addresses; 3 and 7 on those of call 1
again; 4 to 6, and then as long as a card needs to settle, to warm up; the samples; one more. 1, 2,
4 to 6 and the last are watched for forbidden operators. All but 1, 3 and 7 are on new values.
Outputs of 1, 2, three secretly chosen samples and the last are measured against the truth; 3 and 7
have the bits of call 1 or are measured too.
"""

import contextlib
import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from ragged_attention import tolerance
from ragged_attention.bench.case import CaseSpec
from ragged_attention.tolerance import Verdict
from torch import Tensor

from vjp_task import checking, timing
from vjp_task.checking import CheckError, Truth
from vjp_task.harness.digest import digest
from vjp_task.harness.structure import OUTPUTS, SHAPED_LIKE
from vjp_task.harness.transport import read_tensor, write_tensor
from vjp_task.harness.values import redraw
from vjp_task.inputs import Inputs, materialise
from vjp_task.sealed.process import Worker, WorkerError

MEASURED = 3  # samples whose outputs are measured

_SEED_BITS = 53
_REPEATS = (3, 7)  # calls on the values of call 1
_CALLS_BEFORE_TIMING = 7
_MOST_WARM_UP = 1000  # calls
# Host and device time of one call differ by the launches and the last wait only.
_CLOCK_RATIO, _CLOCK_SLACK_MS = 1.5, 1.0


@dataclass(frozen=True)
class Outcome:
    """What one case gave."""

    spec: CaseSpec
    what: str = ""  # the output, input, step or rule at fault; empty where it passed
    reason: str = ""
    findings: tuple[dict[str, Any], ...] = ()  # breaches seen while it ran: rule, file, line, what
    verdicts: tuple[Verdict, ...] = ()  # of the last outputs measured
    timing: dict[str, Any] | None = None  # figures in ms; None if not reached
    facts: dict[str, Any] = field(default_factory=dict)  # digests of inputs and truth
    log: str = ""  # the end of what the solver printed
    seconds: dict[str, float] = field(default_factory=dict)  # import, before, timing, after

    @property
    def passed(self) -> bool:
        """Right before and after timing, within its limits, and no rule broken."""
        return not self.what


class _FaultError(Exception):
    def __init__(self, what: str, reason: str, findings: list[dict[str, Any]] | None = None):
        super().__init__(f"{what}: {reason}")
        self.what, self.reason, self.findings = what, reason, tuple(findings or ())


class _Fetched(NamedTuple):
    """A call's outputs as files, and what their digests were right after the call."""

    folder: Path
    digests: list[str]


def steps(samples: int) -> int:
    """Calls of `advance` in a case that passes."""
    return 4 + samples


def run_case(
    spec: CaseSpec,
    worker: Worker,
    device: torch.device,
    samples: int,
    measured: int = MEASURED,
    advance: Callable[[str], None] = lambda step: None,
    imported: Callable[[Path], None] = lambda folder: None,
    timed: Callable[[], None] = lambda: None,
) -> Outcome:
    """Runs the solver of a worker on one case and ends the worker; faults are in the outcome.

    `imported` is told of the case's folder once the solver is imported, so that what it has built
    there can be kept for the next case; `timed` is called once nothing more is timed. Raises
    nothing that the solver does.
    """
    case = _Case(spec, worker.folder / "exchange", device, samples, measured, advance)
    seconds: dict[str, float] = {}
    with worker:
        case.worker = worker
        try:
            with _stopwatch(seconds, "import"):
                case.prepare()
            imported(worker.folder)
            with _stopwatch(seconds, "before"):
                case.check_before()
            with _stopwatch(seconds, "timing"):
                case.time()
            timed()
            with _stopwatch(seconds, "after"):
                case.check_after()
            fault = _FaultError("", "")
        except WorkerError as error:
            fault = _FaultError(error.what, error.reason)
        except _FaultError as error:
            fault = error
        except CheckError as error:
            fault = _FaultError(error.what, error.reason)
    return Outcome(
        spec, fault.what, fault.reason, fault.findings, tuple(case.verdicts),
        None if fault.what else case.timing, case.facts, worker.log, seconds,
    )  # fmt: skip


@contextlib.contextmanager
def _stopwatch(seconds: dict[str, float], part: str) -> Iterator[None]:
    begun = time.monotonic()
    try:
        yield
    finally:
        seconds[part] = round(time.monotonic() - begun, 3)


class _Case:
    """The state of one conversation."""

    def __init__(
        self, spec: CaseSpec, exchange: Path, device: torch.device, samples: int, measured: int,
        advance: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.spec, self.exchange, self.device = spec, exchange, device
        self.samples, self.measured, self.advance = samples, measured, advance
        self.worker: Worker
        self.verdicts: list[Verdict] = []
        self.timing: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self._first: list[str] = []  # digests of call 1's outputs
        self._last: list[str] = []  # digests of the last call's outputs
        self._kept: list[tuple[int, _Fetched]] = []  # of samples: seed, outputs

    def prepare(self) -> None:
        """Import first: a solver that builds something does so before it is sent anything."""
        self.advance("import")
        self._ask({"do": "load"}, self.worker.limits.import_seconds)
        self._refuse_strays()

    def check_before(self) -> None:
        """Calls 1 to 3."""
        self.advance("truth")
        self._inputs = materialise(self.spec, self.device)
        self._own_slopes = self._inputs.alibi_slopes.clone()
        self._truth = checking.truth_of(self._inputs)
        self.facts = facts_of(self._inputs, self._truth)
        self._send(self._inputs)
        self.advance("check")
        first = self._call(None, set_up=True, watch=True, hold=True)
        self._first = first["digests"]
        self._measure(self._fetch(), self._truth)
        self._call_and_measure(_new_seed(), watch=True)
        self._repeat(3)

    def time(self) -> None:
        """Calls 4 to 7, warm-up, samples; nothing else runs on the device meanwhile."""
        self._free()
        for number in range(4, _CALLS_BEFORE_TIMING + 1):
            if number in _REPEATS:
                self._repeat(number)
            else:
                self._call(_new_seed(), watch=True)
        warm_up = self._warm_up()
        measured = min(self.measured, self.samples)
        chosen = secrets.SystemRandom().sample(range(self.samples), measured)
        replies = []
        for index in range(self.samples):
            seed = _new_seed()
            replies.append(self._call(seed, timed=True))
            if index in chosen:
                self._kept.append((seed, self._fetch()))
            self.advance("timing")
        self._check_clock(replies)
        self.timing = figures([reply["ms"] for reply in replies], warm_up)

    def check_after(self) -> None:
        """The chosen samples' outputs, then one more call."""
        self.advance("check again")
        self._inputs = materialise(self.spec, self.device)
        for seed, fetched in self._kept:
            self._measure(fetched, self._truth_of(seed))
        self._call_and_measure(_new_seed(), watch=True, profile=True)
        self._refuse_strays()

    def _refuse_strays(self) -> None:
        strays = self.worker.strays()
        if strays:
            raise _FaultError("background-work", f"{len(strays)} processes left running")

    def _call(self, seed: int | None, **options: bool) -> dict[str, Any]:
        reply = self._ask({"do": "call", "seed": seed, **options})
        times = [reply.get(name) for name in ("ms", "host_ms")]
        digests = reply.get("digests")
        named = isinstance(digests, list) and len(digests) == len(OUTPUTS)
        if not named or not all(isinstance(x, float) and x >= 0 for x in times):
            raise _FaultError("reply", "the process answered with garbage")
        self._last = reply["digests"]
        return reply

    def _ask(self, request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
        reply = self.worker.ask(request, seconds)
        findings = reply.get("findings")
        if findings:
            if not _are_findings(findings):
                raise _FaultError("reply", "the process answered with garbage")
            first = findings[0]
            where = f"{first['file']}:{first['line']}: " if first["file"] else ""
            raise _FaultError(first["rule"], f"{where}{first['what']}", findings)
        failure = reply.get("failure")
        if failure:
            failure = failure if isinstance(failure, dict) else {}
            raise _FaultError(str(failure.get("what")), str(failure.get("reason")))
        return reply

    def _call_and_measure(self, seed: int, **options: bool) -> None:
        self._call(seed, **options)
        fetched = self._fetch()
        self._measure(fetched, self._truth_of(seed))

    def _repeat(self, number: int) -> None:
        """The values of call 1 again: its bits, or else as good a result."""
        reply = self._call(None)
        if reply["digests"] == self._first:
            return
        if self._truth is None:
            self._truth = checking.truth_of(materialise(self.spec, self.device))
        try:
            self._measure(self._fetch(), self._truth)
        except CheckError as error:
            reason = f"{error.reason}, in call {number} on the values of call 1"
            raise CheckError(error.what, reason) from None

    def _truth_of(self, seed: int) -> Truth:
        redraw(self._inputs.tensors(), self._own_slopes, seed)
        return checking.truth_of(self._inputs)

    def _send(self, inputs: Inputs) -> None:
        described = {}
        for name, tensor in inputs.tensors().items():
            view = inputs.spec.views.get(name)
            described[name] = {
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                **({"step": view.step, "pad": view.pad} if view else {}),
            }
            write_tensor(self.exchange / f"{name}.in", tensor)
        numbers = list(inputs.arguments()[len(described) :])
        self._ask({"do": "receive", "tensors": described, "numbers": numbers})

    def _fetch(self) -> _Fetched:
        """The last call's outputs, in a new folder, out of the solver's way."""
        self._ask({"do": "fetch"})
        folder = Path(tempfile.mkdtemp(dir=self.exchange.parent, prefix="fetched-"))
        for name in OUTPUTS:
            try:
                os.rename(self.exchange / f"{name}.out", folder / f"{name}.out")
            except OSError as error:
                reason = f"{name}.out: {error.strerror}; a regular file is needed"
                raise _FaultError("reply", reason) from error
        return _Fetched(folder, self._last)

    def _outputs(self, fetched: _Fetched) -> tuple[Tensor, ...]:
        """What was fetched, on the device, if it is what the call returned; the files go."""
        shapes = {
            "q": (self.spec.total_q, self.spec.heads, self.spec.head_dim),
            "k": (self.spec.total_k, self.spec.kv_heads, self.spec.head_dim),
        }
        shapes["v"] = shapes["k"]
        dtype = getattr(torch, self.spec.dtype)
        outputs = []
        for name, told in zip(OUTPUTS, fetched.digests, strict=True):
            shape, pinned = shapes[SHAPED_LIKE[name]], self.device.type == "cuda"
            try:
                output = read_tensor(fetched.folder / f"{name}.out", dtype, shape, pinned)
            except ValueError as error:
                raise _FaultError("reply", str(error)) from error
            outputs.append(output.to(self.device))
            if digest(outputs[-1]) != told:
                raise _FaultError(name, "was changed after the call had returned")
        shutil.rmtree(fetched.folder, ignore_errors=True)
        return tuple(outputs)

    def _measure(self, fetched: _Fetched, truth: Truth) -> None:
        outputs = self._outputs(fetched)
        self.verdicts = tolerance.check_all(outputs, truth.exact, truth.same_precision)
        for verdict in self.verdicts:
            if not verdict.passed:
                raise CheckError(verdict.name, verdict.reason)

    def _free(self) -> None:
        """Leaves the device's memory to the solver while it is timed."""
        self._truth = self._inputs = None
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.empty_cache()

    def _warm_up(self) -> int:
        calls, begun = 3, time.monotonic()
        wanted = timing.WARM_UP_SECONDS[self.device.type]
        while time.monotonic() - begun < wanted and calls < _MOST_WARM_UP:
            self._call(_new_seed(), timed=True)
            calls += 1
        return calls

    def _check_clock(self, replies: list[dict[str, Any]]) -> None:
        device, host = (
            statistics.median(float(reply[name]) for reply in replies) for name in ("ms", "host_ms")
        )
        if not 0 < device <= host or host > _CLOCK_RATIO * device + _CLOCK_SLACK_MS:
            reason = f"calls take {host:.4g} ms by the host's clock, {device:.4g} ms by the events"
            raise _FaultError("patched-timer", reason)


def facts_of(inputs: Inputs, truth: Truth) -> dict[str, Any]:
    """What tells whether a case and its truth are the same elsewhere: digests, and norms."""
    return {
        "inputs": inputs.digests(),
        "truth": {
            name: {"digest": digest(exact.contiguous()), "norm": float(exact.norm())}
            for name, exact in zip(OUTPUTS, truth.exact, strict=True)
        },
    }


def figures(samples_ms: list[float], warm_up_calls: int) -> dict[str, Any]:
    """Of samples in ms; `spread` is the interquartile range over the median."""
    low, median, high = statistics.quantiles(samples_ms, n=4, method="inclusive")
    return {
        "median_ms": median,
        "spread": (high - low) / median,
        "min_ms": min(samples_ms),
        "max_ms": max(samples_ms),
        "samples": len(samples_ms),
        "warm_up_calls": warm_up_calls,
    }


def _are_findings(value: Any) -> bool:
    keys = {"rule", "file", "line", "what"}
    return isinstance(value, list) and all(isinstance(f, dict) and f.keys() == keys for f in value)


def _new_seed() -> int:
    return secrets.randbits(_SEED_BITS)
