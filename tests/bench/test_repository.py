"""The repository is found from wherever the benchmark runs."""

import sys

import pytest
from ragged_attention.bench.repository import repository


def test_repository_is_found_from_the_working_folder(monkeypatch, tmp_path):
    top = repository()
    module = sys.modules["ragged_attention.bench.repository"]
    monkeypatch.setattr(module, "__file__", str(tmp_path / "repository.py"))
    monkeypatch.setattr("sys.argv", [str(tmp_path / "script.py")])
    monkeypatch.chdir(top / "tests" / "task")
    assert repository() == top
    monkeypatch.setattr("sys.argv", [str(top / "selfcheck.py")])
    monkeypatch.chdir(tmp_path)
    assert repository() == top
    monkeypatch.setattr("sys.argv", [str(tmp_path / "script.py")])
    with pytest.raises(FileNotFoundError, match=r"family\.json: not above any of .* is needed$"):
        repository()
