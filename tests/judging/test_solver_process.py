"""Solvers that misbehave fail their case, and the judge goes on."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import run_in, write_plain
from vjp_task import paths

GIB = 1 << 30


FORGED = b'{"ms": 0.1, "host_ms": 0.1, "digests": []}\n'

# Name: (in each call, at import, limits, what is blamed, part of the reason).
FAULTS = {
    "hangs": ("time.sleep(600)", "", {"seconds": 1.5}, "time limit", "no answer within"),
    "hangs at import": ("", "time.sleep(600)", {"import_seconds": 4}, "time limit", "within 4 s"),
    "aborts": ("os.abort()", "", {}, "crash", "the process was ended by SIGABRT"),
    "exits": ("os._exit(3)", "", {}, "crash", "the process ended with exit code 3"),
    "exits politely": ("sys.exit(0)", "", {}, "call", "SystemExit: 0"),
    "does not import": ("", "import nobody_has_this", {}, "import", "ModuleNotFoundError"),
    "takes memory": ("hog = torch.ones(1 << 29)", "", {"memory": GIB}, "memory limit", "1024 are"),
    "answers itself": (
        "[os.write(n, ANSWER) for n in range(3, 40) if os.path.exists(f'/proc/self/fd/{n}') "
        "and 'pipe' in os.readlink(f'/proc/self/fd/{n}') and n not in reads()]",
        f"import fcntl\nANSWER = {FORGED!r}\nreads = lambda: [n for n in range(40) "
        "if os.path.exists(f'/proc/self/fd/{n}') and not fcntl.fcntl(n, fcntl.F_GETFL) & 3]",
        {},
        "reply",
        "answered with garbage",
    ),
    "wrong shape": ("dq = dq[:-1]", "", {}, "dq", "is needed"),
    "NaN": ("dv[0, 0, 3] = float('nan')", "", {}, "dv", "NaN or infinity where the truth has"),
    "a view of q": ("dq = q", "", {}, "dq", "shares memory with q; memory of its own is needed"),
    "forks": ("vars(os)['krof'[::-1]]()", "", {}, "background-work", "starts a process (os.fork)"),
    "uses the interpreter itself": (
        "ctypes.pythonapi.Py_IsTrue", "import ctypes", {}, "hidden-code",
        "calls Py_IsTrue of the process itself",
    ),
    "starts a thread by its old name": (
        "_thread.start_new(print, ())", "import _thread", {}, "background-work", "starts a thread",
    ),
    "leaves a process": (
        "", "import subprocess\nsubprocess.Popen(['sleep', '300'])", {},
        "background-work", "1 processes left running",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(request, harness_root, tiny_cases, tmp_path_factory):
    """Outcomes of all faults that are asked for, two at a time."""
    test = test_fault_fails_the_case
    here = [item for item in request.session.items if getattr(item, "function", None) is test]
    top = tmp_path_factory.mktemp("faults")

    def run(number, name):
        in_call, at_import, limits, _, _ = FAULTS[name]
        folder = top / str(number)
        folder.mkdir()
        submission = write_plain(folder / "submission", in_call, at_import)
        return run_in(folder, harness_root, submission, tiny_cases[0], **limits)

    names = [item.callspec.params["name"] for item in here]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(run, range(len(names)), names), strict=True))


@pytest.mark.parametrize("name", FAULTS)
def test_fault_fails_the_case(name, outcomes):
    _, _, _, what, reason = FAULTS[name]
    outcome = outcomes[name]
    assert (outcome.what, outcome.passed) == (what, False), outcome.reason
    assert reason in outcome.reason
    assert outcome.timing is None


def test_what_it_starts_ends_with_it(write_solver, run_case, tmp_path):
    """A child in a session of its own, while the solver itself hangs."""
    start = (
        "import subprocess\nchild = subprocess.Popen(['sleep', '301'], start_new_session=True)\n"
    )
    tell = "print('child', child.pid, flush=True)\ntime.sleep(600)"
    outcome = run_case(write_solver("", start + tell), import_seconds=5)
    assert outcome.what == "time limit"
    child = int(outcome.log.split("child ")[1].split()[0])
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_garbage_on_its_outputs_does_no_harm(write_solver, run_case):
    garbage = "os.write(1, b'\\xff\\n{' * 500_000); print('[]'); print('{}', file=sys.stderr)"
    outcome = run_case(write_solver(garbage))
    assert outcome.passed, outcome.reason
    assert len(outcome.log) <= 8 << 10
    assert "{}" in outcome.log


def test_strided_results_of_its_own_are_taken(write_solver, run_case):
    spread = "wide = out.new_empty(*out.shape, 2); wide[..., 0] = out; out = wide[..., 0]"
    outcome = run_case(write_solver(spread))
    assert outcome.passed, outcome.reason


SPY = """
import json
seen = {"cwd": os.getcwd(), "path": sys.path, "argv": sys.argv, "environment": dict(os.environ)}
seen["modules"] = [name for name in sys.modules if name.startswith(("harness", "vjp", "ragged"))]
print("SEEN", json.dumps(seen))
"""


def test_it_knows_no_path_to_the_evaluation(write_solver, run_case, monkeypatch, tmp_path):
    repository = str(paths.repository())
    monkeypatch.setenv("A_SECRET", repository)
    monkeypatch.setenv("PYTHONPATH", f"{repository}/python")
    outcome = run_case(write_solver("", SPY))
    assert outcome.passed, outcome.reason
    seen = json.loads(outcome.log.split("SEEN ")[1].splitlines()[0])
    assert seen["modules"] == []
    assert seen["argv"] == ["solver"]
    assert Path(seen["cwd"]) == tmp_path / "case" / "tmp"
    prefix = os.path.realpath(sys.prefix)
    named = [*seen["path"], *seen["environment"].values()]
    inside = [p for p in named if p.startswith(repository)]
    assert all(os.path.realpath(p.partition(":")[0]).startswith(prefix) for p in inside)
    assert {"A_SECRET", "PYTHONPATH", "PWD"} & seen["environment"].keys() == set()
    assert Path(seen["environment"]["HOME"]).parent == tmp_path / "case"


def test_it_gets_tensors_and_nothing_else(write_solver, run_case, tmp_path):
    files = []
    look = tmp_path / "case" / "exchange"
    outcome = run_case(write_solver(), imported=lambda f: files.append(sorted(os.listdir(look))))
    assert outcome.passed
    assert files == [[]]  # nothing before it is imported
    sent = sorted(path.name for path in look.iterdir())
    assert sent == sorted(
        f"{name}.in" for name in ("q", "k", "v", "dout", "cu_q", "cu_k", "alibi_slopes")
    )


def test_every_call_gets_new_values_at_the_same_addresses(write_solver, run_case):
    say = "print('CALL', q.data_ptr(), float(q.double().sum()), float(arguments[5].sum()))"
    outcome = run_case(write_solver(say))
    calls = [line.split()[1:] for line in outcome.log.splitlines() if line.startswith("CALL")]
    assert len(calls) == 7 + 3 + 1
    assert len({address for address, _, _ in calls}) == 1
    sums = [value for _, value, _ in calls]
    assert sums[0] == sums[2] == sums[6]  # calls 1, 3 and 7
    assert len(set(sums)) == len(calls) - 2


def test_it_stops_computing_while_it_is_timed_only(write_solver, run_case):
    """Every sample is wrong, every other call right; only a sample's own outputs show it."""
    forge = "state.update({len(state): 0}); dk = dk * (not 7 < len(state) < 11)"
    outcome = run_case(write_solver(forge, at_import="state = {}"))
    assert (outcome.what, outcome.timing) == ("dk", None)
    assert "relative error" in outcome.reason
