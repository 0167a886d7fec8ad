"""Each verdict is explained, and the kernel that stands there as its example causes it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from fuzz.cli.exits import MEANINGS as EXITS
from fuzz.cli.exits import Exit
from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate.capabilities import undeclared
from fuzz.core.generate.given import VALUES
from fuzz.core.generate.layouts import LAYOUT_CLASSES
from fuzz.core.generate.menus import FACTORS, recipes
from fuzz.core.laws.registry import LAWS
from fuzz.findings import casefile
from fuzz.report.glossary import FIELDS, GIVEN, LABELS, MEANINGS, RULINGS, RUNS, glossary
from fuzz.report.words import PHRASES, rule_lines
from fuzz.tasks.judge.ruling import Said
from fuzz.tests.conftest import CHECKOUT, Cli
from oracles.ops import OPS

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
        ("Bad elements", "bad elements, a line of a failure: where in the output"),
        (f"{PHRASES[Verdict.FAIL_NUMERIC]} when n mod 4 != 0", "FAIL_NUMERIC: A value is further"),
        ("values hide it in 17 of 310", "values hide it, a word of a report: "),
        ("", "next: kernelfuzz explain WORD"),
    ],
)
def test_a_word_is_explained_as_it_may_be_written(cli_here: Cli, word: str, said: str) -> None:
    done = cli_here("explain", *word.split())
    assert done.returncode == 0
    assert said in done.stdout


def _texts(tree: ast.AST) -> Iterator[str]:
    yield from (each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def test_every_label_of_a_failure_is_explained_and_no_other() -> None:
    """A label is the first argument of `_line`, or one of those that are chosen there; some come from a tuple."""
    source = ast.parse((CHECKOUT / "fuzz" / "report" / "failure.py").read_text())
    calls = [each for each in ast.walk(source) if isinstance(each, ast.Call) and ast.unparse(each.func) == "_line"]
    assert {text for each in calls for text in _texts(each.args[0])} - {"", "twin's "} <= {*LABELS}
    rules = ast.parse(inspect.getsource(rule_lines))
    pairs = [
        each.value.elts for each in ast.walk(rules) if isinstance(each, ast.Yield) and isinstance(each.value, ast.Tuple)
    ]
    assert {label.value for label, _ in pairs if isinstance(label, ast.Constant)} <= {*LABELS}
    written = {*_texts(source), *_texts(ast.parse(inspect.getsource(rule_lines))), "fails when"}
    assert {*LABELS} <= written, "no report has that label"


def test_every_word_that_a_report_prints_is_explained() -> None:
    known = glossary()
    assert {*GIVEN} == {*VALUES}
    assert {*FIELDS} <= {each.name for each in fields(Capabilities)}
    for name in OPS:
        assert {*undeclared(Capability(name, Capabilities()))} <= {*FIELDS}
    assert {each for each in Verdict if each.is_finding} == {*PHRASES}
    assert {*recipes(), *FACTORS, *LAWS, *LAYOUT_CLASSES, *VALUES, *LABELS, *FIELDS} <= {*known}


def test_no_word_of_a_run_is_explained_that_none_prints() -> None:
    folders = [CHECKOUT / "fuzz" / each for each in ("report", "campaign", "tasks", "core")]
    texts = [path.read_text() for each in folders for path in each.rglob("*.py") if path.name != "glossary.py"]
    words = " ".join(texts)
    assert [word for word in RUNS if word not in words] == []


@pytest.mark.parametrize(("page", "mark", "rows"), [("reading-a-failure", "labels", LABELS), ("words", "given", GIVEN)])
def test_pages_have_the_tables(page: str, mark: str, rows: Mapping[str, str]) -> None:
    text = (CHECKOUT / "fuzz" / "docs" / f"{page}.md").read_text()
    [shown] = re.findall(rf"<!-- {mark} -->\n\|.*?\n\| --- \| --- \|\n(.*)<!-- /{mark} -->", text, re.DOTALL)
    assert shown == "".join(f"| `{word}` | {meaning} |\n" for word, meaning in rows.items())


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
