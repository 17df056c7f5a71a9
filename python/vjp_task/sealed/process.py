"""The solver's process: started clean, asked through pipes, limited, and ended with all it left."""

import contextlib
import json
import os
import resource
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

_START = "import sys; sys.path.insert(0, {folder!r}); from harness.main import main; main()"

# What the solver's process keeps of the judge's environment.
_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CC", "CXX")
_KEPT_PREFIXES = ("CUDA_VISIBLE_", "NVIDIA_")

_POLL_SECONDS = 0.05
_MOST_KILLS = 100
_LONGEST_REPLY = 1 << 20  # bytes
_LOG_BYTES = 8 << 10  # of what the solver prints, from the end
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Limits:
    """What one case may take."""

    seconds: float = 300.0  # of the solver's process, import and building left out
    import_seconds: float = 900.0
    memory: int = 32 << 30  # bytes of host memory, of the process and all it starts
    device_memory: int = 40 << 30  # bytes of GPU memory that torch may take there


class WorkerError(Exception):
    """The process did not answer: `what` is crash, time limit, memory limit or reply."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what, self.reason = what, reason


class Worker:
    """One process for one case; use it as a context manager."""

    def __init__(self, harness: Path, folder: Path, device: torch.device, limits: Limits) -> None:
        """`harness` is the folder that holds the copied package, `folder` the case's own.

        `folder / "solver"` has to be there when it is asked to load.
        """
        self.folder, self.limits = folder, limits
        self._left = limits.seconds
        self._token = f"CASE_TOKEN={secrets.token_hex(16)}"
        own = {name: folder / name for name in ("home", "tmp")}
        for path in (*own.values(), folder / "exchange"):
            path.mkdir(exist_ok=True)
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        settings = {
            "solver": str(folder / "solver" / "solver.py"),
            "exchange": str(folder / "exchange"),
            "own": [str(path) for path in own.values()],
            "device": str(device),
            "device_memory": limits.device_memory,
            "requests": requests,
            "replies": replies,
        }
        start = _START.format(folder=str(harness))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-u", "-c", start, json.dumps(settings)],
            cwd=own["tmp"],
            env=_environment(own["home"], own["tmp"], self._token),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(requests, replies),
            start_new_session=True,
        )
        _limit_core(self._process.pid)
        os.close(requests)
        os.close(replies)
        self._log = b""
        self._drain = threading.Thread(target=self._read_log, daemon=True)
        self._drain.start()
        self._buffer = b""

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def ask(self, request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """Sends a request and waits for the answer.

        Waiting counts against the case's time unless `seconds` gives this request its own. Raises
        WorkerError where the process ends, takes too long or too much, or answers garbage.
        """
        number = secrets.token_hex(8)  # what a forged answer can't know
        try:
            os.write(self._requests, json.dumps({**request, "id": number}).encode() + b"\n")
        except BrokenPipeError:
            raise self._crash() from None
        begun = time.monotonic()
        limit = self._left if seconds is None else seconds
        try:
            line = self._line(begun + limit, limit)
        finally:
            if seconds is None:
                self._left -= time.monotonic() - begun
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict) or reply.pop("id", None) != number:
            raise WorkerError("reply", "the process answered with garbage")
        return reply

    def strays(self) -> list[int]:
        """Processes that the solver started and that still run."""
        return [pid for pid in _with_token(self._token) if pid != self._process.pid]

    def close(self) -> None:
        """Ends the process and everything it left."""
        for name in ("_requests", "_replies"):
            handle = getattr(self, name)
            if handle >= 0:
                os.close(handle)
                setattr(self, name, -1)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for _ in range(_MOST_KILLS):  # again for what was started meanwhile
            left = _with_token(self._token)
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        self._drain.join(timeout=5)

    @property
    def log(self) -> str:
        """The end of what the solver printed."""
        return self._log.decode(errors="replace")

    def _line(self, deadline: float, limit: float) -> bytes:
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._replies], [], [], _POLL_SECONDS)
            if ready:
                part = os.read(self._replies, 1 << 16)
                if not part:
                    raise self._crash()
                self._buffer += part
                if len(self._buffer) > _LONGEST_REPLY:
                    raise WorkerError("reply", "the process answered without end")
                continue
            if self._process.poll() is not None:
                raise self._crash()
            if time.monotonic() > deadline:
                raise WorkerError("time limit", f"no answer within {limit:.3g} s")
            used = _resident(self._process.pid)
            if used > self.limits.memory:
                raise WorkerError(
                    "memory limit",
                    f"{_mib(used)} MiB; at most {_mib(self.limits.memory)} are given",
                )
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _crash(self) -> WorkerError:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return WorkerError("crash", "the process closed its pipe")
        if code < 0:
            return WorkerError("crash", f"the process was ended by {signal.Signals(-code).name}")
        return WorkerError("crash", f"the process ended with exit code {code}")

    def _read_log(self) -> None:
        """Keeps the pipe empty, so that a solver which prints without end is not blocked."""
        stream = self._process.stdout
        while part := stream.read1(1 << 16):
            self._log = (self._log + part)[-_LOG_BYTES:]


def _environment(home: Path, temporary: Path, token: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    name, _, value = token.partition("=")
    return {
        **kept,
        name: value,
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "TRITON_CACHE_DIR": str(temporary / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(temporary / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "CUDA_CACHE_PATH": str(temporary / "cuda"),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),
        "OMP_WAIT_POLICY": "passive",
    }


def _limit_core(pid: int) -> None:
    """No core file when it crashes."""
    with contextlib.suppress(OSError, AttributeError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))


def _resident(pid: int) -> int:
    """Bytes of host memory of a process and its descendants; 0 where the system does not say."""
    total, waiting = 0, [pid]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            waiting += [int(child) for child in children.split()]
    return total


def _with_token(token: str) -> list[int]:
    """Processes whose environment holds the token: a fork keeps it, whatever its session."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if token.encode() in Path(f"/proc/{entry}/environ").read_bytes():
                    found.append(int(entry))
    return found


def _mib(count: int) -> int:
    return count >> 20


def copy_harness(target: Path) -> None:
    """Puts the harness's package into `target`, where a worker imports it from."""
    source = Path(__file__).resolve().parent.parent / "harness"
    shutil.copytree(source, target / "harness", ignore=shutil.ignore_patterns("__pycache__"))


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """A new folder outside the repository, removed at the end."""
    return tempfile.TemporaryDirectory(prefix="judge-", ignore_cleanup_errors=True)
