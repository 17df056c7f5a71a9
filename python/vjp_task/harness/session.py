"""One case in the solver's process: its tensors, its calls, its outputs."""

import gc
import math
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .auditing import CALLS, HARNESS, SET_UP, Auditor
from .clock import Sample, make_clock
from .digest import digest
from .findings import Findings
from .pristine import Pristine
from .standing import Standing
from .structure import OUTPUTS, SHAPED_LIKE, CheckError, check_structure, overlap
from .transport import read_tensor, write_tensor
from .values import DRAWN, redraw
from .watch import watched

# The operator's tensor arguments, in its order; the numbers follow.
ARGUMENTS = ("q", "k", "v", "cu_q", "cu_k", "alibi_slopes", "dout")

_TIMERS = ("time.", "torch.cuda.", "torch._C._cuda", "gc.")  # what a clock is made of
_LONGEST_REASON = 2000  # characters of an exception's text

Solve = Callable[..., Any]


class Session:
    """Answers the judge's requests; every answer is plain data."""

    def __init__(
        self, load: Callable[[], Solve], device: torch.device, exchange: Path, auditor: Auditor,
        findings: Findings,
    ) -> None:  # fmt: skip
        self._load, self._device, self._exchange = load, device, exchange
        self._auditor, self._findings = auditor, findings
        self._clock = make_clock(device)
        self._pristine, self._standing = Pristine(), Standing()
        self._gc_on, self._gc_off = gc.enable, gc.disable
        self._solve: Solve | None = None
        self._tensors: dict[str, Tensor] = {}
        self._storages: dict[str, Tensor] = {}
        self._first: dict[str, Tensor] = {}  # values of call 1, on the host
        self._numbers: list[Any] = []
        self._slopes = torch.empty(0)
        self._outputs: tuple[Tensor, ...] = ()
        self._held: tuple[tuple[Tensor, ...], list[str]] = ((), [])

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Does what the request says; a solver's fault is in the answer, never raised."""
        actions = {"load": self.load, "receive": self.receive, "call": self.call}
        actions |= {"fetch": self.fetch}
        reply = actions[request["do"]](**{k: v for k, v in request.items() if k != "do"})
        self._look_around()
        return {**reply, "findings": self._findings.to_json()}

    def load(self) -> dict[str, Any]:
        """Imports the solver; what it builds, it builds here."""
        try:
            self._solve = self._guarded(self._load_solver)
        except CheckError as error:
            return {"failure": {"what": "import", "reason": error.reason}}
        return {}

    def receive(self, tensors: Mapping[str, Any], numbers: list[Any]) -> dict[str, Any]:
        """Makes the case's tensors from files: views of storages that hold NaN elsewhere."""
        self._numbers = numbers
        for name, entry in tensors.items():
            dtype, shape = getattr(torch, entry["dtype"]), entry["shape"]
            pinned = self._device.type == "cuda"
            values = read_tensor(self._exchange / f"{name}.in", dtype, shape, pinned)
            if name in DRAWN:
                self._first[name] = values
            if "step" not in entry:
                self._tensors[name] = values.to(self._device, copy=True)
                continue
            tokens, heads, width = values.shape
            step, pad = entry["step"], entry["pad"]
            shape = (tokens * step, heads, width + pad)
            storage = torch.full(shape, math.nan, dtype=values.dtype, device=self._device)
            self._storages[name] = storage
            self._tensors[name] = storage[::step, :, :width].copy_(values)
        self._slopes = self._tensors["alibi_slopes"].clone()
        return {}

    def call(
        self, seed: int | None, set_up: bool = False, watch: bool = False, profile: bool = False,
        timed: bool = False, hold: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Calls the solver once, on values drawn from the seed, or on those first received.

        `set_up` lets it still build things, `watch` looks for forbidden operators, `profile` with
        the profiler too, `timed` leaves out the poison, `hold` keeps the outputs to see that no
        later call writes or returns them.
        """
        self._outputs = ()
        self._gc_off()  # or what a solver left to the collector runs before or after the clock
        try:
            return self._call(seed, set_up, watch, profile, timed, hold)
        finally:
            self._gc_on()

    def _call(
        self, seed: int | None, set_up: bool, watch: bool, profile: bool, timed: bool, hold: bool
    ) -> dict[str, Any]:  # fmt: skip
        self._renew(seed)
        before = self._input_digests()
        threads = threading.active_count()
        if not timed:
            self._poison()
        try:
            ms, host_ms, result = self._sample(SET_UP if set_up else CALLS, watch, profile)
            if threading.active_count() > threads:
                self._findings.add("background-work", "leaves a thread running after the call")
            self._check_inputs(before)
            taken = {**self._tensors, **self._storages}
            self._outputs = check_structure(result, self._tensors, taken)
            self._check_held()
        except CheckError as error:
            return {"failure": {"what": error.what, "reason": error.reason}}
        del result
        digests = [digest(output.contiguous()) for output in self._outputs]
        if hold:
            self._held = (self._outputs, digests)
        return {"ms": ms, "host_ms": host_ms, "digests": digests}

    def fetch(self) -> dict[str, Any]:
        """Writes the last call's outputs into the exchange folder."""
        for name, output in zip(OUTPUTS, self._outputs, strict=True):
            write_tensor(self._exchange / f"{name}.out", output)
        return {}

    def _sample(self, phase: str, watch: bool, profile: bool) -> Sample:
        # new objects in every call: what is left on them, or made of them, stays behind
        tensors = (self._tensors[name].detach() for name in ARGUMENTS)
        arguments = [*tensors, *self._numbers]
        solve, enter, findings, device = (
            self._solve,
            self._auditor.enter,
            self._findings,
            self._device,
        )

        def call() -> Any:
            enter(phase)
            try:
                return solve(*arguments)
            finally:
                enter(HARNESS)

        if watch:
            result = self._guarded(lambda: watched(call, findings, device, profile))
            return 0.0, 0.0, result
        return self._guarded(lambda: self._clock(call))

    def _load_solver(self) -> Solve:
        self._auditor.enter(SET_UP)
        try:
            return self._load()
        finally:
            self._auditor.enter(HARNESS)

    def _guarded(self, run: Callable[[], Any]) -> Any:
        """Runs code of the solver's; what it raises, even SystemExit, becomes a CheckError."""
        try:
            result = run()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
            traceback.print_exc()
            raise CheckError("call", text) from None
        self._look_around()  # at once, before anything that was left or replaced can run
        return result

    def _look_around(self) -> None:
        for name in self._pristine.replaced():
            rule = "patched-timer" if name.startswith(_TIMERS) else "patched-module"
            self._findings.add(rule, f"{name} was replaced")
        for rule, what in self._standing.left():
            self._findings.add(rule, what)

    def _renew(self, seed: int | None) -> None:
        if seed is not None:
            redraw(self._tensors, self._slopes, seed)
            return
        for name, values in self._first.items():
            self._tensors[name].copy_(values)
        self._tensors["alibi_slopes"].copy_(self._slopes)

    def _poison(self) -> None:
        """Leaves NaN in memory that the next call is likely to get, so unwritten outputs show."""
        like = [self._tensors[name] for name in SHAPED_LIKE.values()]
        filled = [torch.full_like(t, math.nan, memory_format=torch.contiguous_format) for t in like]
        filled.clear()

    def _input_digests(self) -> dict[str, tuple[Any, ...]]:
        """Per argument: digest of its whole storage, and where the view of it lies."""
        return {
            name: (digest(self._storages.get(name, t)), t.data_ptr(), t.shape, t.stride())
            for name, t in self._tensors.items()
        }

    def _check_inputs(self, before: dict[str, tuple[Any, ...]]) -> None:
        for name, value in self._input_digests().items():
            if value != before[name]:
                raise CheckError(name, "this input was changed by the call; it must stay as it was")

    def _check_held(self) -> None:
        """An earlier call's results are still its own."""
        outputs, digests = self._held
        for name, held, kept in zip(OUTPUTS, outputs, digests, strict=False):
            for other, output in zip(OUTPUTS, self._outputs, strict=True):
                if overlap(held, output):
                    reason = f"shares memory with an earlier call's {name}; results must be new"
                    raise CheckError(other, reason)
            if digest(held.contiguous()) != kept:
                raise CheckError(name, "an earlier call's result was changed by a later call")
