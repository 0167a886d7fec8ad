"""Bisecting: which commit made a kept case fail. `git bisect` chooses the commits, in a worktree that is removed in the
end; a new process judges the case at each, since a pack can be loaded only once."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from fuzz.campaign.search.stopping import SIGNALS
from fuzz.core.adapters.pack import built_in
from fuzz.core.base.errors import UsageError
from fuzz.core.base.exits import Exit
from fuzz.core.base.git import GitError, git, root_of, said_of
from fuzz.core.base.text import counted, printable
from fuzz.core.base.verdict import Verdict
from fuzz.core.transport.fork_server import finding_us
from fuzz.findings import document

_LAST_LINES = re.compile(r"^# (?:possible )?first bad commit: \[(\w+)\]", re.MULTILINE)
"""The lines of git's log that name the result. A translated git writes them in English, too."""
_ONLY_SKIPPED = 2
"""The exit code of `git bisect skip` if every commit that is left was skipped."""


class CommitAnswer(StrEnum):
    """What the case says of a commit, in git's words."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class JudgedCommit:
    """A commit at which the case was run."""

    commit: str
    subject: str
    answer: CommitAnswer
    why: str
    """The verdict if the case fails, or why it cannot be judged."""

    @property
    def name(self) -> str:
        """The short name of the commit, and its subject."""
        return f"{self.commit[:10]} {self.subject}"

    @property
    def line(self) -> str:
        """The line about the commit in a log."""
        return f"{self.answer:4}  {self.name}{f': {self.why}' if self.why else ''}"


@dataclass(frozen=True)
class Bisection:
    """The commits that may be the first bad one, latest first, and all that were judged, in this order."""

    suspects: Sequence[tuple[str, str]]
    """Pairs of a commit and its subject; one pair if the first bad commit is known."""
    judged: Sequence[JudgedCommit]

    @property
    def lines(self) -> Iterator[str]:
        """The lines that tell the result."""
        names = [f"{commit[:10]} {subject}" for commit, subject in self.suspects]
        if len(names) == 1:
            yield f"first bad commit: {names[0]}"
        else:
            yield f"the first bad commit is one of {len(names)}, since what lies between could not be judged:"
            yield from (f"  {name}" for name in names)
        skipped = sum(each.answer is CommitAnswer.SKIP for each in self.judged)
        last = f"; {skipped} could not be judged" if skipped else ""
        yield f"judged: {counted(len(self.judged) - skipped, 'commit')}{last}"

    @property
    def facts(self) -> dict[str, Any]:
        """The same as the JSON record has it."""
        return {
            "first_bad": self.suspects[0][0] if len(self.suspects) == 1 else None,
            "suspects": [{"commit": commit, "subject": subject} for commit, subject in self.suspects],
            "judged": [
                {"commit": each.commit, "subject": each.subject, "answer": each.answer.value, "why": each.why}
                for each in self.judged
            ],
        }


@dataclass(frozen=True)
class CaseRun:
    """How a case is run at a commit: its file, the pack, and further options of `kernelfuzz repro`."""

    case: Path
    pack: Path
    options: Sequence[str]

    def at(self, root: Path, place: Path) -> JudgedCommit:
        """Run the case with the pack that is checked out in `place` instead of in `root`."""
        commit, subject = _named(place, "HEAD")
        record = place.parent / "record.json"
        record.unlink(missing_ok=True)
        words = ("repro", str(self.case), "--pack", str(place / self.pack.relative_to(root)), "--json", str(record))
        surroundings = finding_us({name: value for name, value in os.environ.items() if name != "KERNELFUZZ_EVENTS"})
        done = subprocess.run(
            [sys.executable, "-m", "fuzz", *words, *self.options],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, env=surroundings,
        )  # fmt: skip
        if done.returncode == Exit.INTERRUPTED:
            raise KeyboardInterrupt
        if done.returncode == Exit.OK:
            return JudgedCommit(commit, subject, CommitAnswer.GOOD, "")
        if done.returncode == Exit.FINDINGS and record.exists():  # a Python that cannot start ends with the same code
            return JudgedCommit(commit, subject, CommitAnswer.BAD, _failure(record))
        return JudgedCommit(commit, subject, CommitAnswer.SKIP, _reason(done.stderr.decode("utf-8", "replace")))


def bisected(run: CaseRun, good: str, tell: Callable[[str], None]) -> Bisection | str:
    """Return the first commit after `good` at which the case fails, or why the case cannot be judged at `good` or at
    HEAD. `tell` is told of each commit. Raises UsageError, and GitError."""
    root = root_of(run.pack)
    if root is None:
        raise UsageError(f"{run.pack}: is in no git repository, so it has no commits")
    root, first = root.resolve(), said_of(root, "rev-parse", "--verify", "--quiet", f"{good}^{{commit}}")
    if first is None:
        raise UsageError(f"--good {good}: no such commit in {root}")
    head = git(root, "rev-parse", "HEAD")
    count = int(git(root, "rev-list", "--count", f"{first}..{head}"))
    if said_of(root, "merge-base", "--is-ancestor", first, head) is None or not count:
        raise UsageError(f"--good {good}: HEAD does not descend from it, so no commit between them can be at fault")
    judged = list[JudgedCommit]()

    def judge(place: Path) -> JudgedCommit:
        judged.append(run.at(root, place))
        tell(judged[-1].line)
        return judged[-1]

    with _worktree(root, head) as place:
        tell(f"{counted(count, 'commit')} after {good}: about {math.ceil(math.log2(count)) + 2} are judged")
        last = judge(place)
        if last.answer is CommitAnswer.GOOD:
            changed = said_of(root, "status", "--porcelain", "--", str(run.pack))
            why = ": what changes it is not committed" if changed else ""
            raise UsageError(f"{run.case}: passes at HEAD, {last.name}{why}")
        _check_out(place, first)
        before = judge(place) if last.answer is CommitAnswer.BAD else last
        if before.answer is CommitAnswer.BAD:
            raise UsageError(f"--good {good}: the case fails there too ({before.why}): name an earlier commit")
        if before.answer is CommitAnswer.SKIP:
            return f"cannot be judged at {before.name}: {before.why}"
        git(place, "bisect", "start", head, first)
        while not (suspects := _LAST_LINES.findall(git(place, "bisect", "log"))):
            _mark(place, judge(place).answer)
        return Bisection([_named(place, each) for each in suspects], judged)


def pack_of(named: Path | None) -> Path:
    """Return the whole path of a pack, by default of the built-in one. Raises PackError and UsageError."""
    pack = (named or built_in()).resolve()
    if not pack.exists():
        raise UsageError(f"--pack {named}: does not exist")
    return pack


def target_of(case: Path) -> str | None:
    """Return the target on which the case was found, None if its file names none. The case itself is not read, since
    its op may be one of the pack's. Raises CaseError."""
    record = document.read(case)
    found = record.get("found") if isinstance(record, dict) else None
    target = found.get("target") if isinstance(found, dict) else None
    return target if isinstance(target, str) else None


def _named(place: Path, commit: str) -> tuple[str, str]:
    """Return the whole name of a commit, and its subject."""
    name, _, subject = git(place, "log", "-1", "--format=%H %s", commit).partition(" ")
    return name, printable(subject)


def _check_out(place: Path, commit: str) -> None:
    _clean(place)
    git(place, "checkout", "--quiet", "--detach", commit)


def _clean(place: Path) -> None:
    """Remove what running left in the worktree: it could keep git from checking out another commit, whose modules may
    have the same time and size as those of which the bytecode is there."""
    git(place, "reset", "--quiet", "--hard")
    git(place, "clean", "--quiet", "-ffdx")


def _mark(place: Path, answer: CommitAnswer) -> None:
    """Tell git what the case says of the commit, and have it check out the next one."""
    _clean(place)
    try:
        git(place, "bisect", answer.value)
    except GitError as error:
        if error.code != _ONLY_SKIPPED:
            raise


def _failure(record: Path) -> str:
    """Return the verdict of the first failure in the record of `kernelfuzz repro`."""
    verdicts = [each["verdict"] for each in json.loads(record.read_text(encoding="utf-8"))["judgements"]]
    return next((each for each in verdicts if Verdict(each).is_finding), "")


def _reason(said: str) -> str:
    """Return the line that says why `kernelfuzz repro` did not judge: a message of its own, else the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it ended without a word"]
    chosen = next((line for line in lines if line.startswith("kernelfuzz: ")), lines[-1])
    return printable(chosen.removeprefix("kernelfuzz: ").removeprefix("cannot be judged: ").rstrip(":"))


@contextmanager
def _worktree(root: Path, commit: str) -> Iterator[Path]:
    """Yield a worktree of the repository, in a folder of its own, with the commit checked out. It is removed in the
    end, also after a signal; the progress of `git bisect` in it goes with it."""
    kept = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    try:
        with tempfile.TemporaryDirectory(prefix="kernelfuzz-bisect-") as folder:
            place = Path(folder).resolve() / "worktree"
            try:
                git(root, "worktree", "add", "--quiet", "--detach", str(place), commit)
                yield place
            finally:
                for number in SIGNALS:  # git inherits this, so that another Ctrl-C cannot stop it half way
                    signal.signal(number, signal.SIG_IGN)
                with suppress(GitError):  # git removes what it had not finished adding
                    git(root, "worktree", "remove", "--force", "--force", str(place))
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
