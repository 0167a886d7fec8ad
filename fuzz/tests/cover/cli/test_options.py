"""Options are declared once: what the help shows, what a verb is given, and how errors are told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from fuzz.cli import app, options
from fuzz.cli.exits import Exit, describe, leave
from fuzz.cli.options import seconds, written
from fuzz.core.adapters.target import AttestationError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.selection import SelectionError
from fuzz.quality.__main__ import app as quality
from fuzz.tests.conftest import Cli
from oracles.summation import NumericsError


@dataclass(frozen=True)
class _Inner:
    limit: Annotated[float, typer.Option("--limit", parser=options.duration)] = 5.0


@dataclass(frozen=True)
class _Outer:
    path: Annotated[Path, typer.Argument()]
    word: Annotated[tuple[str, ...], typer.Option("--word")] = ()
    inner: _Inner = field(default_factory=partial(_Inner, 90.0))


def _filled(*arguments: str) -> _Outer:
    given: list[_Outer] = []

    def verb(options: _Outer) -> Exit:
        """Keep what it is given."""
        given.append(options)
        return Exit.NOTHING_RAN

    app = typer.Typer()
    app.callback()(lambda: None)
    options.add_verbs(app, [verb])
    assert app(["verb", *arguments], standalone_mode=False) == 5
    return given[0]


def test_a_verb_is_given_its_options_with_groups_and_tuples() -> None:
    assert _filled("here") == _Outer(Path("here"), (), _Inner(90.0))
    given = _filled("here", "--word", "a", "--word", "b", "--limit", "8h")
    assert given == _Outer(Path("here"), ("a", "b"), _Inner(28800.0))


@pytest.mark.parametrize("text", ["8h", "90s", "5m", "0.5s"])
def test_times_are_written_as_they_are_read(text: str) -> None:
    assert seconds(written(seconds(text))) == seconds(text)
    assert written(8 * 3600.0) == "8h"


def test_the_help_shows_times_as_people_write_them(cli_here: Cli) -> None:
    for verb, time in (("nightly", "8h"), ("run", "45s"), ("gate", "5s")):
        assert f"default: {time}" in cli_here(verb, "--help").stdout.replace("Default", "default")


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["repro", "no-such-finding"], "no case file"),
        (["repro", "1:rms_norm:0:0"], "the search has no case of that number"),
        (["repro", "1:no_such_op:0:1"], "; an op of a pack needs --pack FOLDER"),
        (["repro", "1:rms_norm:0:1", "--script", "a.rs"], "must end in .c, .cu or .py"),
        (["gate", "--base", "no-such-commit"], "git knows no such commit"),
        (["gate", "--report", "pdf"], "the formats are"),
        (["nightly"], "--state"),
        (["nightly", "--state", "/proc/nowhere"], "cannot be written"),
        (["nightly", "--state", "empty", "--report-only"], "no night was ever run there"),
        (["nightly", "--state", "s", "--max-time", "a night"], "30s, 5m or 8h"),
        (["corpus", "verify", "--corpora", "/nowhere"], "no such folder"),
        (["corpus", "merge", "/nowhere"], "no such folder"),
        (["run", "--sanitize", "--target", "c-generic@*"], "it watches kernels on a GPU, and none is chosen"),
        (["run", "--case-limit", "-1"], "30s, 5m or 8h"),
        (["bench", "oracle"], "No such command 'bench'"),
        (["corpus"], "kernelfuzz: a command is missing"),
        (["selftest", "postgresql://u:PW@h/d"], "(postgresql://u:***@h/d)"),
        (["run", "--engine", "postgresql://u:P:W@@h/d"], "--engine postgresql://u:***@h/d: "),
        (["repro", "http://h/?password=PW&a=b"], "'http://h/?password=***&a=b'"),
    ],
)
def test_what_an_option_cannot_be_is_one_line_and_exit_code_4(cli_here: Cli, arguments: list[str], words: str) -> None:
    done = cli_here(*arguments)
    assert done.returncode == 4, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.replace("\n    ", " ").strip().splitlines()) <= 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["oracle", "--dtype", "f8"], "unknown dtype"),
        (["power", "--pack", "/nowhere"], "is not a pack"),
        (["nothing"], "No such command"),
    ],
)
def test_what_measures_ourselves_has_the_same_errors(cli_here: Cli, arguments: list[str], words: str) -> None:
    done = cli_here(*arguments, app=quality)
    assert (done.returncode, "Traceback" in done.stderr) == (4, False), done.stderr
    assert words in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (SelectionError("no such thing"), 4, "kernelfuzz: no such thing"),
        (NumericsError("compute: what is that?"), 4, "kernelfuzz: compute: what is that?"),
        (AttestationError("a stranger"), 3, "kernelfuzz: internal error: a stranger"),
        (OSError(28, "No space left", "/full"), 3, "kernelfuzz: /full: No space left"),
        (ZeroDivisionError("oops"), 3, "please report the text above"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 4, "this needs torch: pip install torch"),
        (ModuleNotFoundError("No module named 'fuzz.gone'", name="fuzz.gone"), 3, "please report the text above"),
    ],
)
def test_an_error_is_told_by_its_kind(error: Exception, code: int, words: str) -> None:
    message, found = describe(error)
    assert found == code
    assert words in message


def test_an_interruption_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*, standalone_mode: bool) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        leave(interrupted)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "kernelfuzz: interrupted\n"


def test_a_command_that_ends_looks_for_no_cycles_in_all_that_it_has_imported() -> None:
    program = (
        "import atexit, gc\nfrom fuzz.cli.exits import leave\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 1000))\nleave(lambda *, standalone_mode: 0)"
    )
    # What is registered first is called last.
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "True\n"
    )


_ADDING_UP = ("--argument", "--extent", "--fixed", "--op", "--report", "--require", "--set", "--target")
_NOT_THERE = {("init", "--op"), ("explain-budget", "--target")}
"""The options that add up if they are given twice, and the verbs where one of that name does not."""


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*path, name))


_ALL = dict(_commands(typer.main.get_command(app)))


@pytest.mark.some(6)
@pytest.mark.parametrize("path", list(_ALL), ids=" ".join)
def test_an_option_that_is_given_twice_adds_up_or_is_an_error(path: tuple[str, ...]) -> None:
    parameters = [each for each in _ALL[path].params if "--help" not in each.opts]
    word = "ops" if path == ("list",) else "1"
    arguments = [word for each in parameters if each.param_type_name == "argument" and each.required]
    options = [each for each in parameters if each.param_type_name == "option"]
    for option in options:
        name = option.opts[-1]
        assert option.envvar is None or name == "--store", "a variable is cut at its blanks, which no URL has"
        assert not option.secondary_opts, "it and its opposite could both be given"
        if option.is_flag or (name in _ADDING_UP and (path[-1], name) not in _NOT_THERE):
            continue
        needed = [text for each in options if each.required and each is not option for text in (each.opts[-1], "1")]
        with pytest.raises(UsageError, match=f"^{name} was given twice: 1s? and 1s?; give one"):
            app([*path, *needed, name, "1", option.opts[0], "1", "--", *arguments], standalone_mode=False)


def test_ops_add_up() -> None:
    assert options.Selection(op=("softmax", "a*,b")).repeated("run") == "kernelfuzz run --op 'softmax,a*,b'"
    assert options.Selection().ops == "*"
