"""A case that `fuzz.check` found is replayed, and made a program, from its file alone and the file of the test."""

from __future__ import annotations

import functools
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fuzz.core.adapters.pack import PackError
from fuzz.core.base.errors import UsageError
from fuzz.tasks.check.retrieval import command_of, excerpt, refuse_alone, retrieved
from fuzz.tasks.check.setup import origin_words
from fuzz.tests.conftest import CHECKOUT, Cli, run_cli
from oracles.ops import OPS

_MODULE = '''
"""Tests and their kernels."""
from __future__ import annotations
import math, sys
from functools import partial
import fuzz_is_not_needed_by_any
SCALE: float = 2.0
OTHER = fuzz_is_not_needed_by_any.thing

if sys.maxsize > 1:
    def helper(x): return x * SCALE
else:
    helper = None

def top(x: float) -> float:
    return helper(x) + math.sqrt(4.0)

def within(offset, function):
    def inner(x):
        return helper(x) + offset
    def bad(x):
        return function(x)
    return inner, lambda x: helper(x) - offset, bad

first, second = (lambda x: 1, lambda x: 2)
bound = partial(top, 1.0)
'''


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """The module, without what it imports in vain."""
    path = tmp_path / "tests_of_mine.py"
    path.write_text(_MODULE)
    found = ModuleType("tests_of_mine")
    sources = {"fuzz_is_not_needed_by_any": ModuleType("no")}
    sources["fuzz_is_not_needed_by_any"].thing = 1  # type: ignore[attr-defined]
    sys.modules |= sources
    try:
        exec(compile(_MODULE, path, "exec"), vars(found))
    finally:
        del sys.modules["fuzz_is_not_needed_by_any"]
    return found


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    text, entry = excerpt(function)
    assert "needed_by_any" not in text
    names: dict[str, Any] = {}
    exec(text, names)
    found: Callable[..., Any] = names[entry]
    return found


def test_a_function_comes_with_what_it_needs_of_its_file_and_no_more(module: ModuleType) -> None:
    text, entry = excerpt(module.top)
    assert entry == "top"
    assert "within" not in text
    inner, minus, _ = module.within(0.5, math.sqrt)
    for function in (module.top, inner, minus):
        assert [_alone(function)(x) for x in (1.0, -3.0)] == [function(x) for x in (1.0, -3.0)]


def test_what_no_file_holds_is_refused_with_what_to_do(module: ModuleType) -> None:
    for function, why in (
        (module.within(0.5, math.sqrt)[2], "the kernel uses 'function' of the function around it"),
        (module.first, "one of several that begin on one line"),
        (module.bound, "the kernel is 'partial', and no function of a file"),
        (functools.partial(module.top), "the kernel is 'partial'"),
    ):
        with pytest.raises(
            UsageError, match=rf"^--script: .*{re.escape(why)}.*; give it to fuzz.check as a function at"
        ):
            excerpt(function)


_TEST = """
import fuzz
import numpy as np
from fuzz import Op, Operand, Parameter


def shifted(x, k):
    '''y = x - k and z = x + k.'''
    return {"y": x - k, "z": x + k}


SHIFTED = Op(shifted, inputs=(Operand("x", "... n"),), outputs=(Operand("y", "... n"), Operand("z", "... n")),
             parameters=(Parameter("k", (0.0, 1.0)),))
FACTOR = 1.5


def mine(x, k):
    with np.errstate(all="ignore"):
        y = (x - np.float32(k)) * np.float32(FACTOR if x.shape[-1] % 4 == 3 else 1)
        return y, x + np.float32(k)
"""
_CHECK = 'fuzz.check(lambda x, k: mine(x, k), op=SHIFTED, arrays="numpy", name="shift", returns=("y", "z"))'


def _shown(cli_here: Cli, folder: Path, case: Path, file: str) -> None:
    """Replay the case, refuse it without the file that has its kernel, show it, and run the program that shows it."""
    OPS.pop("shifted", None)  # a check in this process has made it known
    for verb in ("repro", "show"):
        alone = cli_here(verb, str(case))
        assert alone.returncode == 4
        [line] = alone.stderr.splitlines()
        assert line.endswith(f"kernelfuzz {verb} {case} --pack {file}"), line
    digest = case.stem.rpartition("-")[2]
    # In processes of their own, which know nothing of the op.
    words = ("--findings", str(case.parent), "--pack", file)
    shown = run_cli(folder, "show", digest, *words, NO_COLOR="1")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert shown.stdout.startswith("FAIL  shift  ")
    assert re.search(rf"next: kernelfuzz repro \w+( --findings \.)? --pack {file}", shown.stdout)
    done = run_cli(folder, "repro", digest, *words, "--script", "r.py", NO_COLOR="1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^FAIL_NUMERIC  shift  numpy-shift@cpu$", done.stdout, re.MULTILINE)
    program = (folder / "r.py").read_text()
    assert "import fuzz" not in program
    (folder / file).unlink()
    ran = subprocess.run([sys.executable, "-I", "r.py"], capture_output=True, text=True, check=False, cwd=folder)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (1, "FAILED"), ran.stdout + ran.stderr


@pytest.mark.whole
def test_a_case_of_a_test_is_replayed_by_naming_its_file(
    suite: Callable[..., pytest.RunResult], pytester: pytest.Pytester, cli_here: Cli, tmp_path: Path
) -> None:
    """Its op and its kernel, a lambda, are in the test and nowhere else."""
    file = pytester.makepyfile(test_mine=f"{_TEST}\n\ndef test_shift():\n    {_CHECK}\n")
    shown = suite("--kernelfuzz-output", "kept", here=True)
    shown.assert_outcomes(failed=1)
    [case] = Path("kept").glob("*.json")
    told = [line for line in shown.outlines if re.match("E  ", line)]
    assert told[0].startswith("E       fuzz.CheckFailed: FAIL  shift  ")
    assert len(told) <= 7, "its first lines, and nothing of bits and pages"
    named = f"{case.stem.rpartition('-')[2][:6]} --findings kept --pack test_mine.py"
    assert told[-2:] == [f"E         next: kernelfuzz repro {named}", f"E         everything: kernelfuzz show {named}"]
    for path in (file, case):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    _shown(cli_here, tmp_path, Path(case.name), "test_mine.py")


@pytest.mark.whole
def test_a_case_of_a_program_is_replayed_by_naming_it(cli_here: Cli, tmp_path: Path) -> None:
    unexplained = "from fuzz.tasks.check.setup import GIVEN, Options\nGIVEN.options = Options(explain_s=0.0)\n"
    (tmp_path / "mine.py").write_text(f"{_TEST}\n{unexplained}\nif __name__ == '__main__':\n    {_CHECK}\n")
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    words = [sys.executable, "mine.py"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert "fuzz.CheckFailed: FAIL  shift  " in ran.stderr
    [case] = (tmp_path / "findings").glob("*.json")
    _shown(cli_here, tmp_path, case.relative_to(tmp_path), "mine.py")


def test_a_program_has_the_arguments_that_are_named_with_it_and_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my program.py").write_text(f"{_TEST}\nimport sys\nif sys.argv[1:] == ['a b', '-j']:\n    {_CHECK}\n")
    Path("case.json").write_text('{"check": {"program": "my program.py"}}')
    monkeypatch.setattr("fuzz.tasks.check.setup.program", lambda: "my program.py")
    monkeypatch.setattr("fuzz.tasks.check.setup.running_test", lambda: "")
    monkeypatch.setattr(sys, "argv", ["my program.py"])
    assert origin_words() == ("--pack", "my program.py")
    monkeypatch.setattr(sys, "argv", [started := "my program.py", "a b", "-j"])
    [_, named] = origin_words()
    monkeypatch.setattr(sys, "argv", ["kernelfuzz", "a b", "-j"])
    assert command_of(Path(named)) == [started, "a b", "-j"]
    assert retrieved(command_of(Path(named)), Path("case.json")).here is not None
    assert sys.argv[0] == "kernelfuzz"
    without = r"^my program.py: no check was made when it was run without arguments, which --pack 'my program.py ARG"
    with pytest.raises(PackError, match=without):
        retrieved(command_of(Path("my program.py")), Path("case.json"))
    with pytest.raises(PackError, match=r"^my program.py: no check was made when it was run with other$"):
        retrieved(["my program.py", "other"], Path("case.json"))
    assert command_of(tmp_path) == command_of(Path("none.py 'a")) == command_of(Path("none.py a")) == []


@pytest.mark.whole
def test_a_file_without_the_check_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "test_none.py"
    file.write_text("def test_nothing():\n    raise RuntimeError('of mine')\n")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    with pytest.raises(PackError, match=r"test_none.py: no check was made: RuntimeError: of mine"):
        retrieved([str(file)], None)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"check": {"test": "a\\nb.py::t; rm x"}}', r"--pack 'a\\nb.py'$"),
        ('{"check": {"program": "--help\\u001b[2J"}}', r"--pack '--help\\x1b\[2J'$"),
        ('{"check": {"test": ["a"]}}', r"--pack '\['"),
        ('{"check": 3}', ""),
        ("[1]", ""),
        ("no JSON", ""),
    ],
)
def test_what_a_file_says_of_its_check_is_words_and_never_run(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "case.json").write_text(text)
    if line:
        with pytest.raises(UsageError, match=line) as error:
            refuse_alone(tmp_path / "case.json", "repro")
        assert str(error.value).isprintable()
    else:
        refuse_alone(tmp_path / "case.json", "repro")
