"""What a solver leaves behind that would run its code outside the calls that are timed.

A mode of torch sees every operator, the harness's too; a timer's signal and a callback of the
garbage collector come whenever they like.
"""

import gc
import signal
from collections.abc import Iterator

import torch

MODES, SIGNALS = "patched-module", "background-work"  # the rules

_TIMERS = tuple(getattr(signal, name) for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF"))


class Standing:
    """Remembers what stands when it is made."""

    def __init__(self) -> None:
        self._functions = torch._C._len_torch_function_stack
        self._operators = torch._C._len_torch_dispatch_stack
        self._handler_of, self._timer_of = signal.getsignal, signal.getitimer
        self._signals = sorted(signal.valid_signals())
        self._callbacks, self._before = gc.callbacks, tuple(map(id, gc.callbacks))
        self._handlers = self._all_handlers()
        self._modes = (self._functions(), self._operators())

    def left(self) -> Iterator[tuple[str, str]]:
        """(rule, what) of each that was not there before."""
        if (self._functions(), self._operators()) != self._modes:
            yield MODES, "leaves a mode on that sees or replaces operators of torch"
        if self._all_handlers() != self._handlers:
            yield SIGNALS, "leaves a handler of a signal"
        if any(self._timer_of(timer)[0] for timer in _TIMERS):
            yield SIGNALS, "leaves a timer running"
        if tuple(map(id, self._callbacks)) != self._before:
            yield SIGNALS, "leaves a callback of the garbage collector"

    def _all_handlers(self) -> list[object]:
        return [self._handler_of(number) for number in self._signals]
