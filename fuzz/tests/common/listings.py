"""The listings of a docs page, executed from its top to its end as a reader would, in an empty folder.

What stands behind a listing's language says what is done with it:

- ``file=NAME`` writes the listing into that file; ``more=NAME`` adds it to the end of the file, after two empty lines.
- ``gate``, ``nightly`` or ``gpu`` executes it there: of ``console`` every line that begins with ``$``, whose output
  must then have the lines that follow it (``...`` stands for any others) and whose exit code is 0, or what a line
  ``# exit code N`` says; ``python`` as a program. What costs seconds is for the gate.
- What a command leaves running (a line that ends with ``&``) is ended with the page.
- a language in braces, such as ``{toctree}``, is a directive of the site, and no listing.
- ``patch`` (of the language ``diff``, a place a hunk, without line numbers) is applied to a copy of the checkout, from
  which every later command runs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

COSTS = ("gate", "nightly", "gpu")
_COMMAND_LIMIT_S = 900
"""seconds; only a hang takes longer."""
_EXIT = re.compile(r"# exit code (\d+)")


class ListingError(Exception):
    """A listing that says nothing of what is to be done with it. The message names page and line."""


@dataclass(frozen=True)
class Listing:
    """A fenced block of a page."""

    where: str
    language: str
    mark: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a console listing, with the lines that it must print and its exit code."""

    line: str
    prints: tuple[str, ...]
    code: int


def listings(page: Path) -> tuple[Listing, ...]:
    """Every fenced block of a page, in order. Raises ListingError for one whose mark is missing or unknown."""
    found = []
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type != "fence":
            continue
        language, _, mark = token.info.strip().partition(" ")
        where = f"{page.name}:{(token.map or [0])[0] + 1}"
        known = mark.startswith(("file=", "more=")) or mark in (*COSTS, "patch") or language.startswith("{")
        if not known:
            raise ListingError(f"{where}: say what is done with it: file=NAME, more=NAME, patch, {', '.join(COSTS)}")
        found.append(Listing(where, language, mark, token.content))
    return tuple(found)


def commands(listing: Listing) -> tuple[Command, ...]:
    """The commands of a console listing. Raises ListingError where it begins with output."""
    found: list[Command] = []
    for line in listing.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line.removeprefix("$ "), (), 0))
        elif not found:
            raise ListingError(f"{listing.where}: a console listing begins with a command")
        elif code := _EXIT.fullmatch(line):
            found[-1] = Command(found[-1].line, found[-1].prints, int(code[1]))
        else:
            found[-1] = Command(found[-1].line, (*found[-1].prints, line), found[-1].code)
    return tuple(found)


def edits(listing: Listing) -> tuple[tuple[str, str, str], ...]:
    """The file of each hunk of a diff, and its lines before and after; a new file has none before."""
    found: list[tuple[str, str, str]] = []
    name = ""
    for line in listing.text.splitlines(keepends=True):
        if line.startswith("--- "):
            continue
        if line.startswith("+++ "):
            name = line.split()[1].removeprefix("b/")
        elif line.startswith("@@"):
            found.append((name, "", ""))
        else:
            _, before, after = found[-1]
            kept = line[1:] or "\n"
            found[-1] = name, before + kept * (line[0] != "+"), after + kept * (line[0] != "-")
    return tuple(found)


@dataclass
class Reader:
    """Somebody who follows a page in `folder`; `checkout` is copied where the page changes it."""

    folder: Path
    checkout: Path
    executed: list[str] = field(default_factory=list)
    """what was executed, by place."""
    running: list[int] = field(default_factory=list)
    """the groups of processes that commands have left running."""

    def follow(self, page: Path, costs: Sequence[str]) -> None:
        """Do what the page says, as far as it costs one of `costs`. Fails with the listing's place."""
        try:
            self._follow(page, costs)
        finally:
            for group in self.running:
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)

    def _follow(self, page: Path, costs: Sequence[str]) -> None:
        for listing in listings(page):
            if listing.mark.startswith(("file=", "more=")):
                self._write(listing)
            elif listing.mark == "patch":
                self._patch(listing)
            elif listing.mark in costs:
                self._execute(listing)
                self.executed.append(listing.where)

    def _write(self, listing: Listing) -> None:
        mark, _, name = listing.mark.partition("=")
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") + "\n\n" if mark == "more" else ""
        path.write_text(before + listing.text, encoding="utf-8")

    def _patch(self, listing: Listing) -> None:
        if not self.checkout.is_relative_to(self.folder):
            copy = self.folder / "checkout"
            for part in ("fuzz", "oracles", "kernels", "corpora"):  # with byte code, which is of their time stamps
                shutil.copytree(self.checkout / part, copy / part, ignore=shutil.ignore_patterns("tests"))
            self.checkout = copy
        for name, before, after in edits(listing):
            path = self.checkout / name
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            assert not before or text.count(before) == 1, f"{listing.where}: {name} has not, once, {before!r}"
            path.write_text(text.replace(before, after) if before else after, encoding="utf-8")

    def _execute(self, listing: Listing) -> None:
        if listing.language == "python":
            done = self._run([sys.executable, "-"], self.folder, listing.text)
            assert done.returncode == 0, f"{listing.where}: {done.stdout}"
            return
        for command in commands(listing):
            done = self._run(["bash", "-c", command.line], self.folder)
            said = f"{listing.where}: $ {command.line}\n{done.stdout}"
            assert done.returncode == command.code, f"{said}\nexit code {done.returncode}, not {command.code}"
            assert_prints(done.stdout, command.prints, said)

    def _run(self, command: Sequence[str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
        with subprocess.Popen(
            command, cwd=folder, env=self._environment(), text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                printed, _ = process.communicate(given, _COMMAND_LIMIT_S)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 0)  # it raises where nothing of the group is left
                    self.running.append(process.pid)
                if process.returncode is None:
                    process.kill()
        return subprocess.CompletedProcess(command, process.returncode, printed)

    def _environment(self) -> dict[str, str]:
        """`kernelfuzz`, `python3` and `dask` are those of the checkout that the page is about."""
        programs = self.folder / ".programs"
        programs.mkdir(exist_ok=True)
        for name, arguments in (("kernelfuzz", "-m fuzz "), ("python3", ""), ("dask", "-m dask ")):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
            (programs / name).chmod(0o755)
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        # Beside other tests an explanation takes longer than on a machine of its reader's.
        patience = {"PYTEST_ADDOPTS": "--kernelfuzz-explain-time=5m"}
        plain = {"PYTHONPATH": str(self.checkout), "COLUMNS": "200", "NO_COLOR": "1"}
        return {**os.environ, "PATH": path, **plain, **patience}


def assert_prints(printed: str, wanted: Sequence[str], said: str) -> None:
    """Every wanted line stands in what was printed, in that order; `...` within a line stands for any text."""
    lines = iter(printed.splitlines())
    for line in wanted:
        if line.strip() in ("", "..."):
            continue
        pattern = re.compile(r".*?".join(re.escape(part) for part in line.strip().split("...")))
        assert any(pattern.search(each) for each in lines), f"{said}\nmissing: {line}"
