"""`kernelfuzz nightly` as a user meets it: killed, resumed, stopped, repeated."""

from __future__ import annotations

import json
import re
import resource
import shutil
import signal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fuzz.campaign.corpus.folder import load
from fuzz.tests.common.running import ask, finish, judged, read_until, start, until
from fuzz.tests.common.told import counts_of
from fuzz.tests.common.validity import valid_junit, valid_sarif
from fuzz.tests.conftest import Cli

JUDGED = "SELECT sum(count) FROM counter WHERE what = 'judged'"
_SEARCHED = "SELECT 1 FROM batch JOIN slice ON slice.id = slice_id WHERE night_id = 2 AND op != '' AND judged > 0"
_ROW = "    for (size_t i = 0; i < n; i++) total += x[i] * x[i];"
_HEAD = """
from dataclasses import replace
from fuzz.core.adapters.pack import built_in, load
GENERIC = load(built_in()).kernel("generic")
"""
_LOSES_EPS = """replace(GENERIC, name="loses-eps",
    edits=(("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, 0)"),))"""
_LOSES_TAIL = """replace(GENERIC, name="loses-tail",
    edits=(({!r}, {!r}),))""".format(_ROW, _ROW.replace("i < n", "i < n - (n % 8 == 7)"))
PACK = f"{_HEAD}KERNELS = (GENERIC, {_LOSES_TAIL}, {_LOSES_EPS})\n"
_NOTIFY = "cat > told.json; echo nobody is there >&2; exit 3"
_MENDED = f'{_HEAD}KERNELS = (GENERIC, replace(GENERIC, name="loses-tail"), replace(GENERIC, name="loses-eps"))\n'


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int], str, str, str]:
    """One night with two planted bugs, killed twice; a second nightly tried on the same folder; what each said.

    The second session is killed once both are found, and to the third no time is left: it ends by the limit.
    """
    folder = tmp_path_factory.mktemp("nights")
    (folder / "pack").mkdir()
    (folder / "pack" / "pack.py").write_text(PACK)
    with start(folder, "--max-time", "1h", "--seed", "3") as run:
        until(lambda: judged(folder) > 100, run)
        run.kill()
        run.ended()
    assert ask(folder, "PRAGMA integrity_check") == [("ok",)]
    first = judged(folder)
    with start(folder, "--resume") as run:
        until(lambda: judged(folder) > first + 100 and _both_found(folder), run)
        code, _, refusal = finish(folder)
        assert code == 4
        run.kill()
        _, resumed = run.ended()
    assert ask(folder, "PRAGMA integrity_check") == [("ok",)]
    second, used = judged(folder), ask(folder, "SELECT sum(used_s) FROM session")[0][0]
    reports = ("--report", "junit=night.xml", "--report", "sarif=night.sarif", "--report", "github=night.md")
    code, said, progress = finish(
        folder,
        "--resume",
        "--max-time",
        f"{used + 0.1:.1f}s",
        "--json",
        "night.json",
        *reports,
        "--notify",
        _NOTIFY,
        "--share",
        "disk",
    )
    assert code == 1, progress
    assert progress.count(f"not notified: {_NOTIFY}: exit code 3: nobody is there") == 1
    return folder, [first, second, judged(folder)], refusal, said, resumed


def test_a_night_tells_a_command_what_is_new(nights: Any) -> None:
    told = json.loads((nights[0] / "told.json").read_text())
    assert {bucket["kernel"] for bucket in told["new"]} == {"loses-tail", "loses-eps"}
    assert (told["night"], told["fixed"], told["returned"]) == (1, [], [])
    assert Path(told["page"]).is_file()


def test_a_night_shares_its_findings_and_writes_their_texts(nights: Any) -> None:
    folder = nights[0]
    texts = [path.read_text() for path in (folder / "state" / "issues").iterdir()]
    assert {text.partition(":")[0] for text in texts} == {"# loses-tail", "# loses-eps"}
    [part] = (folder / "disk").iterdir()
    shared = {load(path).case.digest for path in part.iterdir()}
    assert shared == {load(path).case.digest for path in (folder / "state" / "findings").glob("*.json")}


def _both_found(folder: Path) -> bool:
    found = ask(folder, "SELECT kernel, verdict FROM bucket")
    return ("loses-tail", "FAIL_NUMERIC") in found and "loses-eps" in {kernel for kernel, _ in found}


@pytest.mark.whole
def test_nothing_that_was_saved_is_lost_to_a_kill(nights: Any) -> None:
    folder, (first, second, third), _, _, resumed = nights
    assert 100 < first < second <= third, "each session goes on from what the one before had saved"
    assert ask(folder, "SELECT ended FROM session ORDER BY id") == [("",), ("",), ("limit",)]
    assert "night 1 goes on: seed 3, 3,5" in resumed, "the second session kept the hour that the first was given"
    assert ask(folder, "SELECT id, seed, ended FROM night") == [(1, 3, "limit")]
    seeds = ask(folder, "SELECT seed FROM slice")
    assert len(set(seeds)) == len(seeds), "no session repeats what another has searched"


def test_both_bugs_are_there_once_at_the_end(nights: Any) -> None:
    folder, _, _, said, _ = nights
    rows = ask(folder, "SELECT kernel, verdict, case_file FROM bucket ORDER BY kernel")
    assert {row[0] for row in rows} == {"loses-eps", "loses-tail"}
    assert len({row[:2] for row in rows}) == len(rows), "a bucket is there once, however many sessions saw it"
    assert {row[2] for row in rows} <= case_files(folder), "the case file of every bucket is there"
    record = json.loads((folder / "night.json").read_text())
    assert record["judged"] == judged(folder)
    assert record["sessions"] == 3
    assert {bucket["status"] for bucket in record["buckets"]} == {"new"}
    assert re.search(r"^new:\nFAIL  loses-tail  ", said, re.MULTILINE), said
    assert ": weight, rstd (takes); " in said
    assert {"weight", "rstd"} == {*record["undeclared"]["rms_norm"]["generic"]["takes"]}


def case_files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "state" / "findings").iterdir()}


def test_the_reports_of_a_night_are_those_that_run_and_gate_write(nights: Any) -> None:
    """Valid by their schemas, with both bugs where their source is; and the same again from the state alone."""
    folder, _, _, said, _ = nights
    suites = valid_junit((folder / "night.xml").read_text())
    failing = {suite.get("name") for suite in suites if suite.get("failures") != "0"}
    assert failing == {"loses-eps", "loses-tail"}
    assert any(case.find("skipped") is None for case in suites.iter("testcase") if "law" in (case.get("name") or ""))
    [run] = valid_sarif((folder / "night.sarif").read_text())["runs"]
    places = {
        (result["locations"][0]["logicalLocations"][0]["name"],
         result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        for result in run["results"]
    }  # fmt: skip
    assert places == {(name, "kernels/rms_norm/c/generic.c") for name in failing}
    assert "## kernelfuzz nightly: FAILED" in (folder / "night.md").read_text()
    assert said.count("::error file=kernels/rms_norm/c/generic.c,line=") == len(run["results"])
    finish(folder, "--report-only", "--report", "sarif=again.sarif", "--report", "text=again.txt")
    assert (folder / "again.sarif").read_bytes() == (folder / "night.sarif").read_bytes()
    assert "kernelfuzz nightly: FAILED" in (folder / "again.txt").read_text()
    assert "::error" not in (folder / "again.txt").read_text()


@pytest.mark.whole
def test_a_second_nightly_on_the_folder_is_refused(nights: Any) -> None:
    _, _, refusal, _, _ = nights
    assert re.search(r"--state state: in use by another nightly, process \d+: wait for it", refusal)
    assert len(refusal.strip().splitlines()) == 1


@pytest.mark.whole
def test_a_full_disk_stops_nothing_and_loses_nothing(tmp_path: Path) -> None:
    """A file that may not grow fails like a full disk."""
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "pack.py").write_text(f"{_HEAD}KERNELS = ({_LOSES_EPS},)\n")
    with start(tmp_path, "--max-time", "1h", "--seed", "3", "-j", "1") as run:
        until(lambda: judged(tmp_path) > 100, run)
        resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        saved = judged(tmp_path)
        told = read_until("not saved: ", run.stderr)
        run.send_signal(signal.SIGTERM)
        said, rest = run.ended()
    assert run.returncode == 3, rest
    assert "FAIL  loses-eps" in said, "what was found is told"
    assert "page: " not in said, "there was no room for it"
    assert counts_of(said)[0] > saved, "what waits in memory is counted"
    plain = " ".join((told + rest).split())
    assert re.search(r"not saved: .*state\.sqlite: .*free some space", plain), plain
    assert "then: kernelfuzz nightly --resume --state state" in plain
    assert "Traceback" not in plain
    assert ask(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert judged(tmp_path) >= saved
    with start(tmp_path, "--resume", "--max-time", "1h", "-j", "1") as run:
        until(lambda: judged(tmp_path) > saved, run)
        run.send_signal(signal.SIGTERM)
        _, progress = run.ended()
    assert run.returncode == 1, progress
    assert "night 1 goes on: seed 3" in progress
    assert ask(tmp_path, "SELECT ended FROM night") == [("signal",)]


class _Page(HTMLParser):
    """What a browser would load, and whether every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []
        self.charts = 0
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "data", "srcset")]
        self.charts += tag == "svg" and ("role", "img") in attrs
        if tag not in ("meta", "br", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_shows_them_and_needs_nothing_from_outside(nights: Any) -> None:
    folder, *_ = nights
    path = folder / "state" / "report.html"
    page = _Page()
    page.feed(path.read_text())
    assert page.open == []
    assert all("href=#" in load for load in page.loads), page.loads
    assert "url(" not in path.read_text()
    assert "@import" not in path.read_text()
    for words in (
        "loses-tail",
        "loses-eps",
        "kernelfuzz repro state/findings/loses-",
        "--op rms_norm --pack pack",
        "3 sessions",
        "2 of them killed",
    ):
        assert words in " ".join(page.words.split()), words
    assert page.charts > 3
    before = path.read_bytes()
    path.unlink()
    assert finish(folder, "--report-only")[0] == 1
    assert path.read_bytes() == before


def test_the_next_night_replays_what_is_known_and_says_what_passes_now(nights: Any, tmp_path: Path) -> None:
    folder = tmp_path / "next"
    shutil.copytree(nights[0], folder)
    (folder / "pack" / "pack.py").write_text(_MENDED)
    orphan = folder / "state" / "findings" / "left-behind.json"
    orphan.write_bytes(next((folder / "state" / "findings").glob("loses-tail-*.json")).read_bytes())
    code, said, refusal = finish(folder, "--resume", "--op", "rms_norm")
    limit = ask(folder, "SELECT limit_s FROM night")[0][0]
    begins = f"nightly --state state --op rms_norm --max-time {limit:g}s --pack pack".split()
    assert (code, said, len(refusal.splitlines())) == (4, "", 1), refusal
    assert "night 1 has ended, and cannot go on; to begin another: kernelfuzz nightly --state state" in refusal
    assert sorted(refusal.split()[-len(begins) :]) == sorted(begins)
    with start(folder) as run:
        until(lambda: bool(ask(folder, _SEARCHED)), run)
        run.send_signal(signal.SIGTERM)
        said, progress = run.ended()
    assert run.returncode == 2, said
    assert "stopping" in progress
    assert ask(folder, "PRAGMA integrity_check") == [("ok",)]
    finish(folder, "--report-only", "--json", "second.json")  # on a busy machine a signal may have left no time for it
    record = json.loads((folder / "second.json").read_text())
    assert record["judged"] == ask(folder, f"{JUDGED} AND night_id = 2")[0][0]
    assert {bucket["status"] for bucket in record["buckets"]} == {"passes now"}
    assert record["seed"] != 3, "fresh seeds every night"
    assert record["ended"] == "signal"
    kept = {name for (name,) in ask(folder, "SELECT case_file FROM bucket")}
    assert case_files(folder) == kept, "a file that no bucket keeps was replayed and removed"
    assert (folder / "state" / "report.html").read_text().count("<h1>Interrupted, ") == 1


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--state", "/proc/state"), "--state /proc/state: cannot be written"),
        (("--state", "fresh", "--report-only"), "no night was ever run there"),
        (("--state", "fresh", "--op", "no-such-op"), "an op 'no-such-op'"),
        ((), "--state"),
    ],
)
def test_bad_input_gets_one_clear_line(cli_here: Cli, options: tuple[str, ...], words: str) -> None:
    done = cli_here("nightly", *options)
    assert done.returncode == 4, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
