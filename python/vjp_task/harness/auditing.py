"""An audit hook: sees files, processes, threads, sockets and imports however they are reached."""

import _thread
import importlib.abc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from .findings import PACKAGE_FOLDERS, Findings
from .names import EVALUATOR_FILES, EVALUATOR_PACKAGES, is_attention_package

SET_UP, CALLS, HARNESS = "set-up", "calls", "harness"

_PROCESSES = {
    "subprocess.Popen",
    "os.system",
    "os.posix_spawn",
    "os.spawn",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
}
_NEVER = {"os.fork", "os.forkpty", "os.exec", "pty.spawn"}  # not even to build something
_THREADS = {"_thread.start_new_thread", "_thread.start_joinable_thread"}
_NETWORK = {"socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"}
_IMPORT = "find"  # by our own finder: the event named import misses importlib's functions
_FOLDERS = {"os.listdir", "os.scandir"}
_INSPECTION = {
    "sys._getframe",
    "sys._current_frames",
    "sys.settrace",
    "sys.setprofile",
    "gc.get_objects",
    "gc.get_referrers",
}
_INSPECTORS = ("inspect.py", "traceback.py", "threading.py")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/tty", "/dev/nvidia")
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/sys", "/proc/self", "/proc/driver")
_CUDA_LIBRARIES = ("libcuda", "libnvrtc", "libcublas", "libnvJitLink", "libnvidia")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC


class RefusedError(Exception):
    """Raised into a solver that does what no rule allows; the breach is noted first."""


class Auditor:
    """Notes breaches in `findings`; `phase` says whose events are the solver's.

    `own` are folders that the solver may read and write, `solver` its own folder, which it may
    write only until its first call has returned.
    """

    def __init__(self, findings: Findings, solver: Path, own: list[Path]) -> None:
        self._findings = findings
        self._solver = str(solver)
        self._own = tuple(str(folder) for folder in own)
        # warnings show the line of a caller, which may be the harness
        harness = str(Path(__file__).resolve().parent)
        self._readable = (
            self._solver, *self._own, harness, *_SYSTEM, *_interpreter_folders()
        )  # fmt: skip
        self._phase = HARNESS
        self._main = threading.get_ident()
        self._local = threading.local()
        self._checks: dict[str, Callable[[str, tuple[Any, ...], FrameType], None]] = {
            "open": self._open,
            _IMPORT: self._import,
            "ctypes.dlopen": self._library,
            "ctypes.dlsym": self._symbol,
            **dict.fromkeys(_FOLDERS, self._folder),
            **dict.fromkeys(_PROCESSES, self._process),
            **dict.fromkeys(_THREADS, self._thread),
            **dict.fromkeys(_NETWORK, self._network),
            **dict.fromkeys(_INSPECTION, self._inspection),
        }

    def install(self) -> None:
        """Hooks in; there is no way back."""
        sys.addaudithook(self._see)
        sys.meta_path.insert(0, _Finder(self))
        if sys.version_info < (3, 12):
            self._wrap_thread_start()

    def enter(self, phase: str) -> None:
        """What runs from here on: SET_UP, CALLS or the HARNESS itself."""
        self._phase = phase

    def see_import(self, name: str, frame: FrameType) -> None:
        """Checks an import of a module that is not loaded yet."""
        self._see(_IMPORT, (name,), frame)

    def _wrap_thread_start(self) -> None:
        """Python before 3.12 has no audit event for new threads."""
        original = _thread.start_new_thread

        def start_new_thread(function: Any, args: Any = (), kwargs: Any = None) -> int:
            self._see("_thread.start_new_thread", (), sys._getframe(1))
            return original(function, args, kwargs or {})

        _thread.start_new_thread = _thread.start_new = start_new_thread  # its older name too
        threading._start_new_thread = start_new_thread

    def _see(self, event: str, arguments: tuple[Any, ...], frame: FrameType | None = None) -> None:
        check = self._checks.get(event)
        if check is None or getattr(self._local, "busy", False):
            return
        if self._phase == HARNESS and threading.get_ident() == self._main:
            return
        self._local.busy = True
        try:
            check(event, arguments, frame or sys._getframe(1))
        finally:
            self._local.busy = False

    def _is_solver_call(self, frame: FrameType) -> bool:
        """Whether the solver asked for it, if through the standard library."""
        return self._findings.is_solver(self._findings.caller(frame))

    def _refuse(self, rule: str, what: str, frame: FrameType) -> None:
        self._findings.add(rule, what, frame)
        raise RefusedError(f"{rule}: {what}")

    def _open(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        path, mode, flags = arguments
        if isinstance(path, int):
            return
        writes = bool((flags or 0) & _WRITES) or any(c in (mode or "") for c in "wax+")
        self._check_path(path, writes, frame)

    def _folder(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        path = arguments[0] if arguments and arguments[0] is not None else "."
        if not isinstance(path, int):
            self._check_path(path, False, frame)

    def _check_path(self, path: Any, writes: bool, frame: FrameType) -> None:
        name = os.path.realpath(os.fsdecode(path))
        if name.startswith(_DEVICES) or name == os.devnull:
            return
        if writes:
            free = self._own + ((self._solver,) if self._phase != CALLS else ())
            if not _inside(name, free):
                self._refuse("outside-files", f"writes {name}", frame)
            return
        name = name.replace(f"/proc/{os.getpid()}", "/proc/self", 1)
        own = _inside(name, (self._solver, *self._own))
        if not own and EVALUATOR_FILES.search(name):
            self._refuse("outside-files", f"reads {name}, which belongs to the evaluation", frame)
        if name.startswith("/proc/") and name.split("/")[2].isalpha():
            return  # cpuinfo, meminfo and the like; a number is another process
        if not _inside(name, self._readable):
            self._refuse("outside-files", f"reads {name}", frame)

    def _import(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        name = str(arguments[0])
        if not self._is_solver_call(frame):
            return
        if name.partition(".")[0] in EVALUATOR_PACKAGES:
            self._refuse("outside-files", f"imports {name}, the evaluation's own package", frame)
        if name.startswith("torch.nn.attention"):
            self._refuse("fused-attention", f"imports {name}", frame)
        beside = Path(self._solver, name.partition(".")[0])
        own = beside.is_dir() or beside.with_suffix(".py").is_file()
        if not own and is_attention_package(name):
            self._refuse("attention-package", f"imports {name}", frame)

    def _library(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        name = os.fsdecode(arguments[0]) if arguments and arguments[0] else ""
        if "/" in name:
            self._check_path(name, False, frame)
        elif self._is_solver_call(frame) and not name.startswith(_CUDA_LIBRARIES):
            what = f"loads {name or 'the process itself'} through ctypes"
            self._refuse("hidden-code", what, frame)

    def _symbol(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        library, name = arguments
        if getattr(library, "_name", "") is None and self._is_solver_call(frame):
            self._refuse("hidden-code", f"calls {name} of the process itself", frame)

    def _process(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        building = self._phase == SET_UP and event not in _NEVER
        if not building and self._is_solver_call(frame):
            self._refuse("background-work", f"starts a process ({event})", frame)

    def _thread(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        if self._is_solver_call(frame):
            self._refuse("background-work", "starts a thread", frame)

    def _network(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        self._refuse("outside-files", f"uses the network ({event})", frame)

    def _inspection(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        outer: FrameType | None = frame
        while outer is not None and outer.f_code.co_filename.endswith(_INSPECTORS):
            outer = outer.f_back
        if self._findings.is_solver(outer):
            self._refuse("inspects-caller", f"looks at its caller ({event})", frame)


class _Finder(importlib.abc.MetaPathFinder):
    """First in the list of finders, and finds nothing: it sees imports of every kind."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Tells the auditor."""
        self._auditor.see_import(fullname, sys._getframe(1))


def _interpreter_folders() -> list[str]:
    """Where Python, its packages and torch lie."""
    import site
    import sysconfig

    import torch

    torch_folder = Path(torch.__file__).parent
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, str(torch_folder)]
    if torch_folder.parent.name in PACKAGE_FOLDERS:  # another environment's: torch's imports, too
        folders.append(str(torch_folder.parent))
    folders += [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    folders += site.getsitepackages()
    return [os.path.realpath(folder) for folder in folders]


def _inside(name: str, folders: tuple[str, ...]) -> bool:
    return any(name == folder or name.startswith(folder + "/") for folder in folders)
