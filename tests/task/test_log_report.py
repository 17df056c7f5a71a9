"""The report: its history, its page and charts, and how a browser shows them."""

import base64
import datetime
import itertools
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from versions import SUBJECT, edit, figures, make_tree
from vjp_task import paths
from vjp_task import record as recording
from vjp_task.cli import main
from vjp_task.log_report import figures as figures_module
from vjp_task.log_report.command import write_report
from vjp_task.log_report.history import (
    KEPT,
    NO_SCORE,
    REVERTED,
    TURNING,
    read_history,
    read_judged,
)
from vjp_task.log_report.page import held_out_rows
from vjp_task.panel import load_visible_panel
from vjp_task.record import Outcome, record
from vjp_task.reward import reward

CARD = "NVIDIA H200"
CASES = [case.name for case in load_visible_panel().cases]

# Speedup (None: failed, 0: killed), status, note; half an hour of work and six minutes of run each.
STEPS = [
    (2.1, "kept", "heads packed into rows, explicit gradients instead of autograd"),
    (9.8, "kept", "tensor-core kernels: forward, dQ and dK/dV, one CTA barrier per tile"),
    (None, "failed", "one sweep over the keys; dk above its budget in bfloat16"),
    (14.6, "kept", "full and empty mbarriers in place of CTA barriers"),
    (13.9, "reverted", "persistent row kernel"),
    (0, "", "96-key tiles <b>& role split</b>"),
    (27.2, "kept", "role split: one warp owns S and dV, its partner dP and dK"),
    (28.4, "kept", "magic division for row / heads"),
    (28.1, "reverted", "two tiles ahead"),
    (29.3, "kept", "tile width by key length"),
]


def case_figures(mean, scale=1.0):
    """selfcheck's figures with this mean over six cases that spread by a factor."""
    spread = [0.7, 1 / 0.7, 0.8, 1 / 0.8, 1.0, 1.0]
    cases = [
        {"name": name, "passed": True, "speedup": mean * factor, "candidate_ms": 40 / mean / factor}
        for name, factor in zip(CASES, spread, strict=True)
    ]
    return {**figures(mean), "scale": scale, "cases": cases}


@pytest.fixture
def methods(tmp_path, monkeypatch):
    """A log of STEPS, with a clock of its own."""
    return make_log(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The files of its report, with a judge's result."""
    folder = tmp_path_factory.mktemp("log")
    with pytest.MonkeyPatch.context() as monkeypatch:
        methods = make_log(folder, monkeypatch)
    return write_report(methods, folder / "report", judged_file(folder))


def make_log(folder, monkeypatch):
    methods = make_tree(folder)
    start = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    minutes = itertools.accumulate(itertools.cycle([30, 6]))
    clock = (start + datetime.timedelta(minutes=m) for m in minutes)
    monkeypatch.setattr(recording, "_now", lambda: next(clock).isoformat(timespec="seconds"))
    for speedup, status, note in STEPS:
        edit(methods)
        add(methods, speedup, status, note)
    return methods


def add(methods, speedup, status="kept", note="", card=CARD, scale=1.0):
    def evaluate(solver):
        if speedup == 0:
            raise SystemExit
        if speedup is None:
            return Outcome(1, figures(failure="relative error 6e-3 is above 3e-3"))
        return Outcome(0, case_figures(speedup, scale))

    subject = replace(SUBJECT, card=card)
    try:
        record(methods, subject, evaluate, note, status)
    except SystemExit:
        recording._now()  # the run that was killed took its time as well


def judged_file(folder, **changes):
    cases = [
        {"name": name, "speedup": 20.0 + 3 * n, "reward": 0.61 + n / 100}
        for n, name in enumerate(CASES)
    ]
    data = {"score": 27.0, "reward": 0.635, "passed": True, "machine": {"card": CARD}}
    file = folder / "judged.json"
    file.write_text(json.dumps({**data, "cases": cases, **changes}))
    return file


def test_marks(methods):
    versions = read_history(methods).versions
    assert [(v.row.version, v.mark) for v in versions] == [
        ("v0", KEPT), ("v1", TURNING), ("v2", TURNING), ("v3", NO_SCORE), ("v4", TURNING),
        ("v5", REVERTED), ("v6", NO_SCORE), ("v7", TURNING), ("v8", KEPT), ("v9", REVERTED),
        ("v10", KEPT),
    ]  # fmt: skip


def test_what_each_version_bought(methods):
    history = read_history(methods)
    versions = {v.row.version: v for v in history.versions}
    assert versions["v2"].gain == pytest.approx(9.8 / 2.1)
    assert versions["v5"].gain == 1.0  # reverted
    assert versions["v3"].gain is None
    assert versions["v7"].before == 14.6
    assert versions["v8"].gain == pytest.approx(28.4 / 27.2)
    assert versions["v1"].hours == pytest.approx(0.6)
    assert versions["v2"].spent == pytest.approx(0.6)
    assert versions["v6"].spent == pytest.approx(0.5)  # up to its start: it has no end
    assert versions["v10"].hours == pytest.approx(6.0)
    assert history.best.row.version == "v10"
    assert [v.row.version for v in history.last(3)] == ["v8", "v9", "v10"]
    assert sum(v.spent for v in history.versions) == pytest.approx(versions["v10"].hours)


def test_latency_is_a_geometric_mean(methods):
    versions = read_history(methods).versions
    assert versions[0].latency_ms is None  # the baseline was never timed
    assert [v.latency_ms for v in versions[1:3]] == pytest.approx([40 / 2.1, 40 / 9.8])
    assert versions[3].latency_ms is None  # it failed


def test_only_one_setting_is_compared(methods):
    """A faster figure from another card or from reduced cases is no gain."""
    add(methods, 50.0, card="another card")
    add(methods, 60.0, scale=0.15)
    add(methods, 30.0)
    history = read_history(methods)
    assert history.setting.card == CARD
    assert history.best.row.version == "v13"
    assert history.versions[-1].before == 29.3
    assert {v.row.version for v in history.versions} - {v.row.version for v in history.shown} == {
        *("v11", "v12")
    }


def test_a_log_with_the_baseline_alone(tmp_path):
    methods = make_tree(tmp_path)
    files = write_report(methods, tmp_path / "report")
    assert [file.name for file in files] == ["index.html", "time.png", "version.png"]
    assert "not judged yet" in files[0].read_text()


class Page(HTMLParser):
    """What a page's tables say, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.loads, self.opened = [], [], []
        self.feed(text)
        assert self.opened == []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in ("meta", "img", "source"):
            self.opened.append(tag)
        self.loads += [attributes[n] for n in ("src", "srcset", "href") if n in attributes]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        if "tr" in self.opened and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_page(report):
    assert [file.name for file in report] == [
        *("index.html", "time.png", "version.png", "case.png", "last.png")
    ]
    for file in report[1:]:
        assert file.read_bytes().startswith(b"\x89PNG\r\n")
    text = report[0].read_text()
    page = Page(text)
    by_name = {row[0]: row for row in page.rows}
    notes = [note for _, _, note in STEPS]
    rows = [row for row in page.rows if len(row) == 10][1:]
    assert [row[0] for row in rows] == [f"v{n}" for n in range(11)]
    assert [row[-1] for row in rows[1:]] == notes
    assert [row[1] for row in rows[5:8]] == [*("▼ reverted", "✕ no score", "★ turning point")]
    assert rows[2][2:7] == ["9.80x", "4.08", "4.67", "1.2 h", "36 min"]
    assert rows[3][2].startswith("FAILED one: dq: relative error")
    assert rows[6][2] == "stopped before its end"
    assert by_name["baseline (by definition)"][1:] == ["1.00x", "0.00"]
    assert by_name["human reference (published, RTX A6000)"][1:] == ["13.78x", "0.60"]
    assert by_name["upper proxy (published, RTX A6000)"][1:] == ["210.39x", "1.00"]
    assert by_name[f"this run ({CARD})"][1:] == ["27.00x", "0.64"]
    assert "The last 8 versions took 4.8 h and multiplied the best speedup by 2.99; 2 of" in text


def test_page_needs_nothing_else(report):
    text = report[0].read_text()
    loads = Page(text).loads
    assert len(loads) == 4 * 4
    assert all(load.startswith("data:image/svg+xml;base64,") for load in loads)
    for load in loads:
        assert base64.b64decode(load.partition(",")[2]).startswith(b"<?xml")
    assert not re.search(r"https?://", text)
    assert len(text) < 3e6


def test_rewards_without_marks_are_by_the_published_ones(tmp_path):
    judged = read_judged(judged_file(tmp_path, reward=None))
    mean = sum(reward(20.0 + 3 * n, 13.78, 210.39) for n in range(6)) / 6
    assert held_out_rows(judged)[-1] == (f"this run ({CARD})", "27.00x", f"{mean:.2f}")


def test_a_failed_judgement_is_shown(methods, tmp_path):
    cases = [{"name": CASES[0], "speedup": 0.0, "reward": 0.0}]
    file = judged_file(tmp_path, score=0.0, reward=0.0, passed=False, cases=cases)
    rows = held_out_rows(read_judged(file))
    assert rows[-1] == (f"this run ({CARD})", "0.00x", "0.00")
    draw = figures_module.by_case(read_history(methods), {CASES[0]: 0.0})
    assert figures_module.as_png(draw).startswith(b"\x89PNG\r\n")


def test_wrong_calls_say_so(methods, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "methods", lambda: methods)
    other = tmp_path / "other.json"
    other.write_text("{}")
    out = ["--out", str(tmp_path / "out")]
    assert main(["report", *out, "--judged", str(other)]) == 2
    assert capsys.readouterr().err == (
        f"error: judged: {other} has no cases; the JSON of judge is needed\n"
    )
    assert main(["report", *out, "--judged", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.startswith(f"error: judged: {tmp_path}/none.json (")
    text = (methods / "experiment_log.md").read_text()
    (methods / "experiment_log.md").write_text(text.replace("| kept |", "| reverted |"))
    assert main(["report", *out]) == 2
    assert capsys.readouterr().err == (
        "error: experiment log: no version was kept with a score; one is needed\n"
    )


def test_this_repository(tmp_path, capsys):
    out = tmp_path / "report"
    assert main(["report", "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == str(out / "index.html")


HEIGHT = 9000  # pixels


def test_one_version_beside_the_baseline(tmp_path):
    methods = make_tree(tmp_path)
    record(methods, replace(SUBJECT, card=CARD), lambda solver: Outcome(0, case_figures(2.0)))
    page = write_report(methods, tmp_path / "out")[0].read_text()
    assert re.search(r"The last version took .* and multiplied the best speedup by 2.00\.", page)


WIDTHS = {"desktop": 1100, "phone": 390}
GROUNDS = {"light": (255, 255, 255), "dark": (20, 24, 31)}


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("chromium is not on PATH; on Debian, run apt-get install chromium")
    return found


def screenshot(browser, page, picture, width, dark):
    """The page as it looks in a window of that width: a frame, since windows have a least width."""
    frame = page.with_name(f"{picture.stem}.html")
    frame.write_text(
        f"<body style='margin:0'><iframe src='{page.name}' style='border:0;width:{width}px;"
        f"height:{HEIGHT}px'></iframe>"
    )
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-background-networking", "--hide-scrollbars", "--allow-file-access-from-files"),
        *([] if dark is None else [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]),
        *(f"--user-data-dir={picture}.profile", f"--window-size={max(600, width)},{HEIGHT}"),
        *(f"--screenshot={picture}", frame.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert picture.is_file(), done.stderr


@pytest.mark.parametrize("theme", GROUNDS)
@pytest.mark.parametrize("device", WIDTHS)
def test_how_a_browser_shows_it(browser, report, tmp_path, device, theme):
    """Its ground is of the theme, charts included, nothing sticks out on the right."""
    from matplotlib import image

    picture = tmp_path / f"{device}-{theme}.png"
    screenshot(browser, report[0], picture, WIDTHS[device], theme == "dark")
    pixels = (255 * image.imread(picture)[:, : WIDTHS[device], :3]).round().astype(int)
    at_ground = (abs(pixels - GROUNDS[theme]) <= 2).all(axis=-1)
    assert at_ground.mean() > 0.6
    assert at_ground[:, :8].all()
    assert at_ground[:, -8:].all()
    inked = ~at_ground.all(axis=1)
    assert inked[:3000].mean() > 0.2
    assert not inked[-20:].any()  # the page ends within the picture
