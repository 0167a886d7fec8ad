"""The exit codes of every verb, and one line for what a user got wrong."""

from __future__ import annotations

import gc
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from fuzz.cli import app, main
from fuzz.findings.casefile import save
from fuzz.tests.common.examples import plain
from fuzz.tests.conftest import CHECKOUT, GENERIC, Cli, run_cli
from oracles.truth import OutputCheck, Truth

Planted = Callable[..., Path]
CASE = str(CHECKOUT / "corpora" / "historical" / "sve-tail-dont-care.json")

WRONG = {
    "judge": (["mine.py"], "--against: name the file of the reference, the function that computes the right result"),
    "buckets": (["split", "/nowhere", "abcdef"], "/nowhere: no night was ever run there"),
    "corpus": (["add", "/nowhere.json"], "/nowhere.json: cannot be read: No such file"),
    "demo": (["--explain-time", "soon"], "'soon' is not a time: write 30s, 5m or 8h"),
    "derive": (["refs.py"], "refs.py: write FILE.py:FUNCTION, such as refs.py:rms_norm"),
    "doctor": (["--pack", "/nowhere"], "/nowhere is not a pack"),
    "explain": (["FAIL_MEMRY"], "FAIL_MEMRY: no report has that word: did you mean 'FAIL_MEMORY'? "),
    "explain-budget": (["/nowhere.json"], "/nowhere.json: cannot be read: No such file"),
    "gate": (["--base", "HEAD", "--known", "/nowhere.toml"], "/nowhere.toml"),
    "header": (["softmx"], "unknown op 'softmx': did you mean softmax"),
    "init": (["pack", "--kind", "fortran"], "--kind fortran: it is one of c, c++, shared, cuda, torch, numpy, triton"),
    "list": (["targets", "--pack", "/nowhere"], "/nowhere is not a pack"),
    "mcp": (["what"], "what"),
    "nightly": (["--state", "state", "--target", "c-nothing@*"], "no target matches --target c-nothing@*"),
    "bisect": (["/nowhere.json", "--good", "HEAD"], "/nowhere.json: cannot be read: No such file"),
    "repro": (["/nowhere.json"], "/nowhere.json: cannot be read: No such file"),
    "report": (["/nowhere"], "/nowhere: no night was ever run there"),
    "run": (["--seed", "-1"], "--seed"),
    "selftest": (["--pack", "/nowhere"], "/nowhere is not a pack"),
    "tolerance": (["softmx"], "unknown op 'softmx': did you mean softmax"),
    "show": (["/nowhere.json"], "/nowhere.json: cannot be read: No such file"),
}
"""by verb: what somebody may write, and what the one line says of it."""


def test_every_verb_is_here() -> None:
    group: Any = typer.main.get_command(app)
    assert set(group.commands) == set(WRONG)


@pytest.mark.some(5)
@pytest.mark.parametrize("verb", list(WRONG))
def test_what_a_user_got_wrong_is_one_line_and_exit_code_4(cli_here: Cli, verb: str) -> None:
    arguments, words = WRONG[verb]
    done = cli_here(verb, *arguments)
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    assert words in done.stderr
    lines = done.stderr.strip().splitlines()
    assert lines[0].startswith("kernelfuzz: ")
    assert not lines[1:] or (len(lines) == 2 and lines[1].startswith("Try: ") and lines[1].endswith(f" {verb} --help"))


def test_a_folder_whose_nights_are_in_a_store_says_so(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "report.html").touch()
    done = cli_here("report", "state")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("kernelfuzz: state: its nights are in the store of --store: kernelfuzz report URL")


@pytest.mark.parametrize("verb", list(WRONG))
def test_every_verb_has_help(cli_here: Cli, verb: str) -> None:
    done = cli_here(verb, "--help")
    assert done.returncode == 0
    assert f"kernelfuzz {verb}" in " ".join(done.stdout.split())


def _commands() -> Iterator[tuple[str, Any]]:
    """Every command, and those of a group, with the words that call it."""
    group: Any = typer.main.get_command(app)
    for verb, command in group.commands.items():
        inner = getattr(command, "commands", None)
        yield from ((f"{verb} {name}", each) for name, each in inner.items()) if inner else [(verb, command)]


_COMMANDS = dict(_commands())


@pytest.mark.parametrize("words", _COMMANDS)
def test_every_help_ends_with_an_example_that_can_be_typed(words: str) -> None:
    command = _COMMANDS[words]
    *_, last = command.help.split("\n\n")
    example = re.fullmatch(rf"For example: kernelfuzz {words}\b(.*)", last)
    assert example is not None, last
    given = shlex.split(example[1].partition(" > ")[0])
    command.make_context(words, given)  # raises where an option or an argument is none


def test_nothing_ran_and_cannot_be_judged_have_codes_of_their_own(cli: Cli, planted: Planted) -> None:
    """5 ends a run that ran nothing; 125 tells `git bisect run` to skip a commit."""
    pack, without = str(planted(GENERIC)), {"PATH": "/nowhere"}
    done = cli("run", "--pack", pack, "--max-cases", "16", "--target", "c-*@native:gcc-*", **without)
    assert done.returncode == 5, done.stderr
    assert "gcc is not installed" in done.stdout
    done = cli("repro", CASE, "--pack", pack, "--target", "c-*@native:gcc-*", **without)
    assert done.returncode == 125, done.stderr
    assert "nothing could be judged: no chosen target ran\n" in done.stderr
    assert "gcc is not installed" in done.stderr


def test_doctor_says_which_programs_are_missing_in_a_record_too(cli: Cli, planted: Planted) -> None:
    """`.ci/setup --wheels` reads it."""
    done = cli("doctor", "--json", "--pack", str(planted(GENERIC)), PATH="/nowhere")
    record = json.loads(done.stdout)
    tools = {tool["name"]: tool for tool in record["tools"]}
    assert (tools["gcc"]["version"], tools["gcc"]["optional"]) == (None, False)
    assert "gcc" in tools["gcc"]["package"].split()
    assert tools["clang"]["optional"]
    assert not any(target["runs"] for target in record["targets"])
    assert done.returncode == 5


def test_an_oracle_that_gave_up_never_passes(
    cli_here: Cli, tmp_path: Path, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Truth.check

    def gave_up(self: Truth, *arguments: Any) -> list[OutputCheck]:
        return [replace(each, result="gave_up") for each in check(self, *arguments)]

    words = ("--pack", str(planted(GENERIC)), "--target", "c-planted@native:gcc-O2")
    save(tmp_path / "case.json", plain(5))
    assert cli_here("repro", "case.json", *words).returncode == 0
    monkeypatch.setattr(Truth, "check", gave_up)
    monkeypatch.setattr(
        "fuzz.campaign.search.examiner.settle", lambda asked: None
    )  # what passes would be settled there
    assert cli_here("repro", "case.json", *words).returncode == 125
    assert cli_here("run", *words, "--max-cases", "16", "--seed", "1").returncode == 11


class _Left:
    """What closes a descriptor when it is collected, and is not reachable."""

    def __init__(self) -> None:
        self.own, self.descriptor = self, os.dup(2)

    def __del__(self) -> None:
        os.close(self.descriptor)


def test_what_a_test_has_left_to_be_collected_closes_no_file_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of the tests is a fork of theirs, and its descriptors have the numbers of what was open there."""

    def main() -> None:
        opened = [os.dup(2) for _ in range(256)]
        gc.collect()
        for each in opened:
            os.fstat(each)
        raise SystemExit(0)

    monkeypatch.setattr("fuzz.tests.common.running.main", main)
    gc.disable()
    try:
        for _ in range(8):
            _Left()
        done = run_cli(tmp_path)
    finally:
        gc.enable()
    assert done.returncode == 0, done.stderr


def test_what_is_no_linux_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(SystemExit, match=r"^kernelfuzz: it runs on Linux, and this is Darwin: use a container"):
        main()


_LATE = """import os, sys
from fuzz.core.base.errors import UsageError
from fuzz.cli.exits import leave


class Late:
    def __del__(self, write=os.write):
        write(2, b"leaked")


def app(standalone_mode):
    sys.late = Late()
    raise UsageError("no such thing")


leave(app)
"""


def test_nothing_follows_the_line_of_an_error(tmp_path: Path) -> None:
    """Libraries complain of what an error left alive while Python takes itself apart."""
    done = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, text=True, check=False, cwd=CHECKOUT)
    assert (done.returncode, done.stderr) == (4, "kernelfuzz: no such thing\n")


@pytest.mark.whole
def test_nothing_follows_the_line_of_an_error_where_triton_is_imported(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(
        "import triton\nimport triton.language\n\n\ndef f(x):\n    return x.median(-1).values\n"
    )
    done = cli_here("derive", "ref.py:f")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
