"""`kernelfuzz bisect`, and `git bisect run kernelfuzz repro`: what a commit does not let it judge is skipped, and never
blamed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.cli.exits import Exit
from fuzz.findings.casefile import FoundRecord, save
from fuzz.findings.database import open_state
from fuzz.findings.database_views import Bracket
from fuzz.findings.state import DATABASE
from fuzz.tests.common.examples import plain
from fuzz.tests.common.planted import HANGS
from fuzz.tests.common.running import KERNELFUZZ, Running, read_until
from fuzz.tests.conftest import CHECKOUT, GENERIC, HANG_S, Cli, edited

Planted = Callable[..., Path]

BUG = edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n + 1, eps)")
NO_KERNEL = "KERNELS = ()\n"
FOUND = FoundRecord("c-planted@native:gcc-O2", "FAIL_NUMERIC", 1, "0.1.0")


class History:
    """A git repository with a pack of one kernel, whose commits the tests write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet")

    def git(self, *words: str) -> str:
        names = {f"GIT_{who}_{what}": "kf@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "PYTHONPATH": str(CHECKOUT)}
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def commit(self, says: str, kernel: str | None = None, pack: str | None = None) -> str:
        """A commit that changes what is given; its name."""
        if kernel is not None:
            (self.folder / "planted.c").write_text(kernel)
        if pack is not None:
            (self.folder / "pack.py").write_text(pack)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", says)
        return self.git("rev-parse", "HEAD").strip()

    def left(self) -> str:
        """What a bisection could leave behind: worktrees, refs, changes, and files of git's own."""
        asked = (("worktree", "list"), ("for-each-ref",), ("status", "--porcelain"))
        # whenever git deletes a ref, of a worktree too, it may begin this file
        kept = sorted({path.name for path in (self.folder / ".git").iterdir()} - {"packed-refs"})
        return "".join(self.git(*each) for each in asked) + str(kept)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A case file, found on the planted kernel, outside of what git checks out."""
    save(tmp_path / "case.json", plain(5), FOUND)
    return tmp_path / "case.json"


@pytest.mark.whole
def test_git_blames_the_commit_with_the_bug_and_skips_what_cannot_be_judged(planted: Planted, case: Path) -> None:
    history = History(planted(GENERIC))
    pack = (history.folder / "pack.py").read_text()
    good = history.commit("Begin")
    history.commit("Break the build", kernel=f"{GENERIC}\n#error not today\n")
    history.commit("Break the pack too", pack="KERNELS = (undefined,)\n")
    history.commit("Take the kernel away", pack=NO_KERNEL)
    history.commit("Mend all", kernel=GENERIC, pack=pack)
    culprit = history.commit("Forget how long a row is", kernel=BUG)
    history.commit("Say more", kernel=f"{BUG}\n/* more */\n")
    history.git("bisect", "start", "HEAD", good)
    command = f"{shlex.quote(sys.executable)} -m fuzz repro {case} --pack ."
    said = history.git("bisect", "run", "sh", "-c", command)
    assert f"{culprit} is the first bad commit" in said
    log = history.git("bisect", "log")
    assert "# skip: " in log, "none of those that cannot be judged was tried"


@pytest.mark.parametrize(
    ("kernel", "pack", "words"),
    [
        (f"{GENERIC}\n#error not today\n", None, "not today"),
        (GENERIC, "KERNELS = (undefined,)\n", "undefined"),
        (GENERIC, NO_KERNEL, "declares no kernels"),
        (None, "", "planted.c"),
    ],
    ids=["does not compile", "pack cannot be loaded", "no kernel", "no source"],
)
def test_what_cannot_be_built_or_loaded_cannot_be_judged(
    cli_here: Cli, planted: Planted, case: Path, kernel: str | None, pack: str | None, words: str
) -> None:
    folder = planted(kernel or GENERIC)
    if kernel is None:
        (folder / "planted.c").unlink()
    if pack:
        (folder / "pack.py").write_text(pack)
    done = cli_here("repro", str(case), "--pack", str(folder))
    assert done.returncode == Exit.CANNOT_JUDGE, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_target_that_is_not_there_cannot_be_judged(cli_here: Cli, planted: Planted, case: Path) -> None:
    done = cli_here("repro", str(case), "--pack", str(planted(GENERIC)), "--target", "c-nothing@*")
    assert (done.returncode, done.stdout) == (Exit.CANNOT_JUDGE, "")
    assert done.stderr.startswith("kernelfuzz: no target matches --target c-nothing@*")


def test_other_kernels_that_pass_say_nothing_of_the_one_it_was_found_on(
    cli_here: Cli, planted: Planted, case: Path
) -> None:
    """Unless they are asked for by name. One that fails is a finding in any case."""
    words = ("repro", str(case), "--pack", str(planted(GENERIC, "other")))
    done = cli_here(*words)
    assert done.returncode == Exit.CANNOT_JUDGE, done.stderr
    assert "c-planted@native:gcc-O2, on which the case was found, is not among the targets here" in done.stderr
    assert cli_here(*words, "--target", "c-other@*").returncode == Exit.OK
    assert cli_here("repro", str(case), "--pack", str(planted(BUG, "bad"))).returncode == Exit.FINDINGS


@pytest.mark.parametrize(("verdict", "code"), [("FAIL_NUMERIC", Exit.CANNOT_JUDGE), ("TIMEOUT", Exit.FINDINGS)])
def test_a_hang_hides_another_failure(
    cli_here: Cli, planted: Planted, tmp_path: Path, verdict: str, code: Exit
) -> None:
    hangs = edited("reciprocal_rms(total, n, eps)", f"({{ {HANGS} 1.0f; }})")
    save(tmp_path / "case.json", plain(5), FoundRecord(FOUND.target, verdict, 1, "0.1.0"))
    words = ("--pack", str(planted(hangs)), "--target", FOUND.target, "--case-limit", "1s")
    done = cli_here("repro", "case.json", *words)
    assert done.returncode == code, done.stderr
    assert ("whether it fails as it was found" in done.stderr) == (code is Exit.CANNOT_JUDGE)


@pytest.mark.whole
def test_the_first_bad_commit_is_named_and_nothing_is_left(
    cli_here: Cli, planted: Planted, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be judged lies where git looks first, and the kernel on disk is neither run nor changed."""
    history = History(planted(GENERIC))
    pack = (history.folder / "pack.py").read_text()
    history.commit("Begin")
    history.git("tag", "fine")
    history.commit("Say something", kernel=f"{GENERIC}\n/* a */\n")
    culprit = history.commit("Forget how long a row is", kernel=BUG)
    broken = history.commit("Break the build", kernel=f"{BUG}\n#error not today\n")
    history.commit("Take the kernel away", pack=NO_KERNEL)
    history.commit("Mend all", kernel=f"{BUG}\n/* mended */\n", pack=pack)
    history.commit("Say more", kernel=f"{BUG}\n/* more */\n")
    (history.folder / "planted.c").write_text(GENERIC)
    temporary, before = tmp_path / "temporary", history.left()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    done = cli_here("bisect", str(case), "--good", "fine", "--pack", str(history.folder), "--json", "told.json")
    assert done.returncode == Exit.OK, done.stderr
    assert f"first bad commit: {culprit[:10]} Forget how long a row is" in done.stdout
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["first_bad"] == culprit
    assert {each["commit"]: each["answer"] for each in told["judged"]}[broken] == "skip"
    assert (history.left(), list(temporary.iterdir())) == (before, [])


@pytest.mark.whole
def test_what_was_skipped_beside_the_first_failure_is_named_too(cli_here: Cli, planted: Planted, case: Path) -> None:
    history = History(planted(GENERIC))
    good = history.commit("Begin")
    skipped = history.commit("Break the build", kernel=f"{GENERIC}\n#error not today\n")
    bad = history.commit("Forget how long a row is", kernel=BUG)
    done = cli_here("bisect", str(case), "--good", good, "--pack", str(history.folder))
    assert done.returncode == Exit.CANNOT_JUDGE, done.stderr
    assert skipped[:10] in done.stdout
    assert bad[:10] in done.stdout


def test_what_cannot_be_bisected_is_said_in_a_line(cli_here: Cli, planted: Planted, case: Path, tmp_path: Path) -> None:
    history = History(planted(GENERIC))
    history.commit("Begin")
    history.git("tag", "old")
    history.git("checkout", "--quiet", "--orphan", "other")
    head = history.commit("Begin anew")
    for finding, good, pack, words in (
        ("abcdef", "old", history.folder, "no finding of that name"),
        (str(case), "none", history.folder, "--good none: no such commit"),
        (str(case), "old", history.folder, "--good old: HEAD does not descend from it"),
        (str(case), head, history.folder, "HEAD does not descend from it"),
        (str(case), "old", tmp_path, "is in no git repository"),
        (str(case), "old", tmp_path / "nowhere", "does not exist"),
    ):
        done = cli_here("bisect", finding, "--good", good, "--pack", str(pack))
        assert (done.returncode, done.stdout) == (Exit.USAGE, ""), done.stderr
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    history.commit("Change nothing of note", kernel=f"{GENERIC}\n/* more */\n")
    (history.folder / "planted.c").write_text(BUG)
    before = history.left()
    done = cli_here("bisect", str(case), "--good", head, "--pack", str(history.folder))
    assert done.returncode == Exit.USAGE
    assert "passes at HEAD" in done.stderr.splitlines()[-1]
    assert done.stderr.endswith("what changes it is not committed\n")
    assert history.left() == before


def test_a_commit_that_fails_already_is_not_good(cli_here: Cli, planted: Planted, case: Path) -> None:
    history = History(planted(BUG))
    good = history.commit("Begin")
    history.commit("Say more", kernel=f"{BUG}\n/* more */\n")
    done = cli_here("bisect", str(case), "--good", good, "--pack", str(history.folder))
    assert done.returncode == Exit.USAGE
    assert "the case fails there too (FAIL_NUMERIC): name an earlier commit" in done.stderr


@pytest.mark.whole
def test_so_it_is_of_one_that_comes_from_the_nights_of_a_state(
    cli_here: Cli, planted: Planted, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(planted(BUG))
    good = history.commit("Begin")
    history.commit("Say more", kernel=f"{BUG}\n/* more */\n")
    unnamed = ("bisect", str(case), "--pack", str(history.folder), "--findings", str(tmp_path))
    assert "no night is known in which it passed: name a commit with --good" in cli_here(*unnamed).stderr
    open_state(tmp_path / DATABASE).dispose()
    monkeypatch.setattr("fuzz.findings.database_views.bracket_of", lambda engine, name: Bracket(good[:7], "d4"))
    assert f"--good {good[:7]}: the case fails there too" in cli_here(*unnamed).stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_bisection_leaves_nothing(
    planted: Planted, case: Path, tmp_path: Path, number: signal.Signals
) -> None:
    history = History(planted(GENERIC))
    good = history.commit("Begin")
    history.commit("Say more", kernel=f"{GENERIC}\n/* more */\n")
    temporary, before = tmp_path / "temporary", history.left()
    temporary.mkdir()
    command = [*KERNELFUZZ, "bisect", str(case), "--good", good, "--pack", str(history.folder)]
    with Running(command, tmp_path, TMPDIR=str(temporary)) as run:
        read_until("about", run.stderr)
        assert history.git("worktree", "list").count("\n") == 2
        run.send_signal(number)
        run.ended()
    assert run.returncode == Exit.INTERRUPTED
    assert (history.left(), list(temporary.iterdir())) == (before, [])
