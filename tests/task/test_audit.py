"""The audit: a sound tree passes, and each tampering breaks the rule that it should."""

import json
import re
import shutil
from dataclasses import replace

import pytest
from versions import SUBJECT, commit_all, edit, figures, make_tree, record_in
from vjp_task import audit, paths
from vjp_task.cli import main
from vjp_task.experiment_log import read_rows
from vjp_task.record import Outcome, record


@pytest.fixture
def methods(tmp_path):
    """v0 to v3: the baseline, one kept, one that failed and one reverted; main is v1's."""
    methods = make_tree(tmp_path)
    solver = methods / "main" / "solver.py"
    kept = solver.read_bytes()
    record_in(methods, 2.0, note="kept")
    edit(methods)
    record_in(methods, failure="above the budget", note="failed")
    edit(methods)
    record_in(methods, 1.5, note="reverted", status="reverted")
    solver.write_bytes(kept)
    commit_all(tmp_path)
    return methods


def faults(methods):
    """The rules that are broken, with what breaks them."""
    return {rule: found for rule, found in audit.audit(methods.parent).items() if found}


def change(file, old, new):
    text = file.read_text()
    assert re.search(old, text)
    file.write_text(re.sub(old, new, text, count=1))


def test_a_sound_tree_passes(methods, monkeypatch, capsys):
    assert faults(methods) == {}
    monkeypatch.setattr(paths, "repository", lambda: methods.parent)
    assert main(["audit"]) == 0
    output = capsys.readouterr()
    assert [line.split() for line in output.out.splitlines()] == [[r, "ok"] for r in audit.RULES]
    assert output.err == ""


def test_a_broken_rule_is_named_and_the_exit_code_is_1(methods, monkeypatch, capsys):
    edit(methods)
    monkeypatch.setattr(paths, "repository", lambda: methods.parent)
    assert main(["audit"]) == 1
    output = capsys.readouterr()
    assert "main       FAILED\n  methods/main/solver.py: " in output.out
    assert output.err == "audit FAILED: main\n"


LOG = "experiment_log.md"

# Name: (file, pattern, replacement, rule, what is said)
TAMPERINGS = {
    "gap": (LOG, r"\| v2 \|.*\n", "", "rows", "experiment log: v3 in row 2; v2 is needed"),
    "spaces": (LOG, r"\| v2 \|", "|  v2 |", "rows", "experiment log: .*; a row of version, .*"),
    "header": (LOG, r"\| version \|", "| name |", "rows", "experiment log: .* another header; .*"),
    "status": (LOG, "reverted", "dropped", "rows", "experiment log: .*; a row of version, .*"),
    "time": (LOG, r"(?<=\| v1 \| )[^|]*", "yesterday ", "rows", "v1: time yesterday; ISO 8601 .*"),
    "order": (LOG, r"(?<=\| v1 \| )\d+", "2999", "rows", "v1: finished .*, before it started .*"),
    "never_finished": (
        *(LOG, r"(?<=\| v1 \| )([^|]*)\| [^|]*", r"\1| - ", "rows"),
        "v1: status kept, finished never",
    ),
    "digest_cell": (LOG, r"[0-9a-f]{64}", "none", "rows", "v0: solver SHA-256 none; .*"),
    "solver": (
        *("versions/v2/solver.py", "$", "# more\n", "digests"),
        r"v2: solver\.py is \w{12}, but its row says \w{12}",
    ),
    "manifest_digest": (
        *("versions/v1/manifest.json", r'("solver_sha256": ")\w{12}', r"\g<1>000000000000"),
        *("digests", r"v1: solver\.py is \w{12}, but its manifest says 0{12}"),
    ),
    "manifest_version": (
        *("versions/v1/manifest.json", '"v1"', '"v2"', "digests", "v1: its manifest is of v2"),
    ),
    "manifest_commit": (
        *("versions/v1/manifest.json", "0123456789ab", "9", "digests"),
        "v1: commit 0123456789ab, but its manifest says 9",
    ),
    "manifest_form": (
        *("versions/v1/manifest.json", "sources", "files", "digests"),
        r"v1: manifest\.json has \[.*\]; commit, module, .*, version are needed",
    ),
    "manifest_text": (
        *("versions/v1/manifest.json", "{", "", "digests"),
        r"v1: manifest\.json is no JSON \(.*\); JSON is needed",
    ),
    "mean": (
        *(LOG, r"mean 1\.50x", "mean 5.00x", "results"),
        r"v3: geometric mean 5\.00x, but result\.json says 1\.50",
    ),
    "words": (
        *(LOG, r"geometric mean 1\.50x", "1.50x", "results"),
        r"v3: reverted, with result '1\.50x'; 'geometric mean <value>x', or .*, is needed",
    ),
    "no_words_for_a_failure": (
        *(LOG, r"FAILED [^|]*", "oops ", "results", "v2: failed, with result 'oops'; .* is needed"),
    ),
    "row": (LOG, "above the budget", "a trifle", "preserved", r"v2: its row is not what commit .*"),
    "snapshot": (
        *("versions/v3/result.json", "$", "\n", "preserved"),
        r"methods/versions/v3/result\.json: changed or removed since it was committed",
    ),
    "main": (
        *("main/solver.py", "$", "\n", "main"),
        r"methods/main/solver\.py: \w{12}; no version that was kept has these bytes",
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
@pytest.mark.parametrize("committed", [False, True], ids=["", "committed"])
def test_tampering_breaks_its_rule(methods, name, committed):
    file, old, new, rule, said = TAMPERINGS[name]
    change(methods / file, old, new)
    if committed:
        commit_all(methods.parent)
    found = audit.audit(methods.parent)[rule]
    assert any(re.fullmatch(said, fault) for fault in found), found


@pytest.mark.parametrize(
    ("remove", "rule", "said"),
    [
        ("versions/v2", "snapshots", "v2: no solver.py in methods/versions/v2"),
        ("versions/v0/manifest.json", "snapshots", "v0: no manifest.json in methods/versions/v0"),
        ("versions/v1/result.json", "results", "v1: geometric mean 2.00x, but no result.json says"),
        ("main/solver.py", "main", "methods/main: no solver.py"),
    ],
    ids=lambda value: value if "/" in value else "",
)
def test_what_is_missing_is_named(methods, remove, rule, said):
    path = methods / remove
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert audit.audit(methods.parent)[rule][0].startswith(said)


def test_removed_rows_are_missed(methods):
    """The last rows and their snapshots together leave no gap, but they were committed."""
    change(methods / LOG, r"\| v2 \|.*\n\| v3 \|.*\n", "")
    for version in ("v2", "v3"):
        shutil.rmtree(methods / "versions" / version)
    commit_all(methods.parent)
    found = faults(methods)
    assert set(found) == {"preserved"}
    assert [fault.split(":")[0] for fault in found["preserved"][:2]] == ["v2", "v3"]


def test_a_snapshot_without_a_row_is_named(methods):
    shutil.copytree(methods / "versions" / "v3", methods / "versions" / "v5")
    assert faults(methods) == {
        "snapshots": ["v5: in methods/versions, but the log has no such row"]
    }


def test_main_may_not_be_a_version_that_was_reverted_or_failed(methods):
    for version in ("v2", "v3"):
        shutil.copy(methods / "versions" / version / "solver.py", methods / "main")
        assert set(faults(methods)) == {"main"}
    shutil.copy(methods / "versions" / "v0" / "solver.py", methods / "main")
    assert faults(methods) == {}


def test_sources_are_those_of_the_commit(methods, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text("kernel")
    commit = commit_all(tmp_path)
    subject = replace(SUBJECT, commit=commit, sources={"kernel.cu": source})
    record(methods, subject, lambda solver: Outcome(0, figures()))
    assert faults(methods) == {}
    source.write_text("another")
    record(methods, subject, lambda solver: Outcome(0, figures()))
    assert faults(methods) == {"digests": [f"v5: kernel.cu is not what commit {commit} has"]}
    manifest = methods / "versions" / "v5" / "manifest.json"
    change(manifest, "kernel.cu", "nowhere.cu")
    assert faults(methods) == {"digests": [f"v5: nowhere.cu is not what commit {commit} has"]}


def test_a_killed_record_is_no_fault(methods):
    def killed(solver):
        raise SystemExit  # nothing completes the row

    with pytest.raises(SystemExit):
        record(methods, SUBJECT, killed)
    assert read_rows(methods / LOG)[-1].status == "running"
    commit_all(methods.parent)
    assert faults(methods) == {}
    record_in(methods)
    commit_all(methods.parent)
    assert faults(methods) == {}


def test_outside_git_the_rest_is_checked(methods):
    shutil.rmtree(methods.parent / ".git")
    assert faults(methods) == {}
    edit(methods)
    assert set(faults(methods)) == {"main"}


def test_no_log(tmp_path):
    assert "experiment_log.md" in audit.audit(tmp_path)["rows"][0]


def test_this_repository():
    """Sound but for what is being developed and has not been recorded yet."""
    found = audit.audit(paths.repository())
    assert {rule: faults for rule, faults in found.items() if faults and rule != "main"} == {}


def test_results_are_compared_as_they_are_printed(methods):
    file = methods / "versions" / "v1" / "result.json"
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "geometric_mean": 2.004}))
    assert "results" not in faults(methods)
    file.write_text(json.dumps({**data, "geometric_mean": 2.006}))
    assert "results" in faults(methods)
