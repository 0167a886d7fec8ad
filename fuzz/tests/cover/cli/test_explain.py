"""Each verdict is explained, and the kernel that stands there as its example causes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from fuzz.base.verdict import Verdict
from fuzz.cli.exits import MEANINGS as EXITS
from fuzz.cli.exits import Exit
from fuzz.cli.explain import RULINGS
from fuzz.findings import casefile
from fuzz.report.verdicts import MEANINGS
from fuzz.tests.conftest import CHECKOUT, Cli
from fuzz.uses.judge.ruling import Said

_PACK = """from pathlib import Path
from fuzz import Capabilities, PythonKernel
HERE = Path(__file__).parent
KERNELS = ({declared},)
"""
_CAUSED = [verdict for verdict, meaning in MEANINGS.items() if meaning.example]


def test_every_word_has_a_row() -> None:
    assert [*MEANINGS] == [*Verdict]
    assert [*EXITS] == [*Exit]
    assert (*RULINGS,) == get_args(Said)
    assert {*Verdict} - {*_CAUSED} == {Verdict.ORACLE_GAVE_UP}
    assert all(3 <= len(MEANINGS[verdict].example.splitlines()) <= 6 for verdict in _CAUSED)


def test_a_narrow_terminal_leaves_each_example_its_lines() -> None:
    """What is wider is broken between words, a line at a time: one text of several lines would become one paragraph."""
    for verdict, meaning in MEANINGS.items():
        lines = [*meaning.lines(verdict.value)]
        assert not any("\n" in line for line in lines)
        for line in meaning.example.splitlines():
            assert f"    {line}".rstrip() in lines
            assert len(line) <= 76, "with its margin it fits into 80 columns"


def test_the_page_is_what_the_tool_prints(cli_here: Cli) -> None:
    page = (CHECKOUT / "fuzz" / "docs" / "verdicts.md").read_text()
    [shown] = re.findall(r"<!-- explain -->\n(.*)<!-- /explain -->", page, re.DOTALL)
    assert shown == cli_here("explain", "--markdown").stdout, "paste the output of: kernelfuzz explain --markdown"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("fail_memory", "FAIL_MEMORY: The kernel reads or writes outside its tensors."),
        ("10", "exit code 10, REQUIRED_NOT_RUN: "),
        ("oracle-gave-up", "exit code 11, ORACLE_GAVE_UP: "),
        ("did not run", "did not run, of kernelfuzz judge: "),
        ("", "next: kernelfuzz explain WORD"),
    ],
)
def test_a_word_is_explained_as_it_may_be_written(cli_here: Cli, word: str, said: str) -> None:
    done = cli_here("explain", *word.split())
    assert done.returncode == 0
    assert said in done.stdout


@pytest.mark.whole
@pytest.mark.parametrize("verdict", _CAUSED, ids=lambda verdict: verdict.value)
def test_the_example_causes_the_verdict(cli_here: Cli, tmp_path: Path, verdict: Verdict) -> None:
    meaning = MEANINGS[verdict]
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "mine.py").write_text(f"import numpy as np\n\n\n{meaning.example}\n")
    (tmp_path / "pack" / "pack.py").write_text(_PACK.format(declared=meaning.declared))
    rare = verdict in (Verdict.FAIL_ACCEPTED_INVALID, Verdict.FAIL_LAW)  # few inputs are invalid, few rows are long
    words = ("--max-cases", "200" if rare else "24", "--seed", "1", "-j", "1", "--no-shrink", "--case-limit", "1s")
    done = cli_here("run", "--pack", "pack", *words)
    found = [casefile.load(path)[1] for path in (tmp_path / "findings").glob("*.json")]
    verdicts = {each.explanation.verdict for each in found if each is not None and each.explanation is not None}
    if verdict is Verdict.NOT_RUN:
        assert "NOT_RUN numpy-mine" in done.stdout.replace("cupy", "numpy")
    elif verdict is Verdict.PASS:
        assert (done.returncode, verdicts) == (0, set())
    else:
        assert done.returncode == 1, done.stdout
        assert verdict in verdicts
