"""Words that others wrote, in a case file or from a kernel: shown wherever people read, obeyed nowhere."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fuzz.campaign.reproducing import ChosenCase, write_script
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.case import CaseError
from fuzz.core.base.outcome import Outcome, Status
from fuzz.core.base.text import printable
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.explanation import Counterfactual, Explanation
from fuzz.findings.casefile import FoundRecord, load
from fuzz.findings.codec import decoded, encoded
from fuzz.report import console
from fuzz.report.formats import FORMATS
from fuzz.report.github import commands
from fuzz.report.outline import Failure, Outline, TargetLine
from fuzz.report.source import Location
from fuzz.report.use_outcome import UseOutcome
from fuzz.tests.common.hunting import PACK, given_case
from fuzz.tests.common.programs import run_c, run_program, target_on
from fuzz.tests.common.strangers import CANARY, TEXTS
from fuzz.tests.common.told import NOTHING
from fuzz.tests.conftest import Cli

CASE = given_case((2, 7), 1, "contiguous")
COMMAND = re.compile(r"^\s*::[A-Za-z-]+(\s.*)?::|##\[", re.MULTILINE)
"""What GitHub takes for a command: blanks before it do not matter, and the old form may stand anywhere."""


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_words_of_others_are_one_plain_line(text: str) -> None:
    for said in (printable(text), Outcome("t", Status.DIED, detail=text).detail, NotRun(text).reason):
        assert said.isprintable()
        assert len(said.splitlines()) <= 1
        assert COMMAND.search(said) is None
        assert len(said) < 10_000
    assert "\n" not in str(CaseError(text))


def test_a_password_in_a_url_is_shown_nowhere() -> None:
    for password in ("hunter2", "hun@ter2", ":hunter2", "hunter%2F2"):
        said = printable(f"got unexpected argument (postgresql://me:{password}@host/found?x=1)")
        assert said == "got unexpected argument (postgresql://me:***@host/found?x=1)" == printable(said)


def test_plain_words_stay_as_they_are() -> None:
    for text in (
        "wrote 4 bytes outside y: row 3",
        "std::vector<float>: größer als 1 µs, 値 😀",
        "50% [bold] \\x1b C:\\a",
    ):
        assert printable(text) == text
        assert printable(printable(text + "\n\u202e::error::")) == printable(text + "\n\u202e::error::")


def with_notes(words: Sequence[str]) -> Explanation:
    """An explanation with these words, as it is read of a file."""
    return decoded(
        encoded(replace(NOTHING, counterfactuals=tuple(Counterfactual(each, 1, (2,), ()) for each in words)))
    )


def with_words(folder: Path, name: str, target: Target, *words: str) -> Path:
    """The program of a case whose judgement and explanation have these words."""
    judgement = Judgement(target.id, CASE.digest, Verdict.FAIL_NUMERIC, reason=words[0])
    found = FoundRecord(target.id, "FAIL_NUMERIC", 1, "0", explanation=with_notes(words))
    write_script(folder / name, ChosenCase(CASE, found), judgement, target)
    return folder / name


@pytest.mark.some(1)
@pytest.mark.parametrize("standard", ["gnu11", "c99"])  # the older one has trigraphs
def test_words_are_no_code_in_a_c_program(tmp_path: Path, standard: str) -> None:
    target = target_on(PACK.kernel("generic"), "native:gcc-O2")

    def code(*words: str) -> str:
        path = with_words(tmp_path, "repro.c", target, *words)
        command = ["gcc", f"-std={standard}", "-D_GNU_SOURCE", "-E", "-P", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    plain = code("harmless")
    for text in (*TEXTS, "*/", "*\\", "*??/", "\\", "??/", "/*"):
        assert code(text) == plain, text
    for words in (TEXTS, ("*\\", "/ int x;", "*??/", "/ int y;", "*", "/ int z;")):
        assert code(*words) == plain


@pytest.mark.whole
def test_words_are_no_code_in_a_python_program(tmp_path: Path) -> None:
    target = target_on(PACK.kernel("vector-generic"), "@interpret")

    def code(*words: str) -> str:
        return ast.dump(ast.parse(with_words(tmp_path, "repro.py", target, *words).read_bytes()))

    plain = code("harmless")
    for text in (*TEXTS, "coding: utf-7", "vim: set fileencoding=latin-1 :", "\\", '"""'):
        assert code(text) == plain, text
    assert code(*TEXTS) == plain


@pytest.mark.whole
def test_programs_with_hostile_words_run_and_do_nothing_else(tmp_path: Path) -> None:
    for folder, kernel, place in (("c", "generic", "native:gcc-O2"), ("python", "vector-generic", "@interpret")):
        (tmp_path / folder).mkdir()
        path = with_words(tmp_path / folder, "repro.c" if folder == "c" else "repro.py",
                          target_on(PACK.kernel(kernel), place), *TEXTS)  # fmt: skip
        code, said = run_c(path) if folder == "c" else run_program([sys.executable, "-I", path.name], path.parent)
        assert (code, said.strip()) == (0, "passed")
        assert not list(tmp_path.rglob(CANARY))


def test_the_injection_of_the_audit_runs_nothing(tmp_path: Path, cli_here: Cli) -> None:
    """A file whose explanation goes on in a second line, which was code in the exported Python program."""
    (tmp_path / "case.json").write_text(INJECTION)
    done = cli_here("repro", "case.json", "--target", "c-generic@native:gcc-O2", "--script", "repro.c", "-v")
    assert done.returncode == 0, done.stderr
    assert "looks harmless\\nimport os" in done.stdout
    assert run_c(tmp_path / "repro.c") == (0, "passed\n")
    _, found = load(tmp_path / "case.json")
    assert found is not None
    target = target_on(PACK.kernel("vector-generic"), "@interpret")
    assert found.explanation is not None
    words = [each.subject for each in found.explanation.counterfactuals]
    lines = with_words(tmp_path, "repro.py", target, *words).read_text().splitlines()
    assert not [line for line in lines if line.startswith("import os;")]
    assert not list(tmp_path.rglob(CANARY))


ONES = " ".join(["3f800000"] * 16)
INJECTION = json.dumps({
    "kernelfuzz case": 3, "digest": "bade65624eeef29be1deafc12f8dcbdf7f398fc94c832bbb73195ac07d78e4d0",
    "op": "rms_norm",
    "params": {"eps": {"decimal": "9.999999747378752e-06", "hex": "0x1.4f8b580000000p-17"}},
    "structured": True,
    "inputs": {"x": {"dtype": "f32", "dims": "... n", "shape": [1, 65], "strides": [65, 1], "guard": "after",
                     "offset": 0, "bits": [*[ONES] * 4, "3f800000"]}},
    "outputs": {"y": {"dtype": "f32", "dims": "... n", "shape": [1, 65], "strides": [65, 1], "guard": "after",
                      "offset": 0, "alias": None}},
    "found": {"target": "torch-eager@cpu", "verdict": "FAIL_NUMERIC", "run_seed": 1, "version": "1",
              "explanation": encoded(replace(NOTHING, counterfactuals=(
                  Counterfactual(f"looks harmless\nimport os; os.system('touch {CANARY}')\n#", 1, (2,), ()),)))},
})  # fmt: skip


def test_what_a_file_says_was_found_is_plain_when_it_is_loaded(tmp_path: Path) -> None:
    record = json.loads(INJECTION)
    (tmp_path / "case.json").write_text(json.dumps(record))
    for text in TEXTS:
        words = dict.fromkeys(("target", "verdict", "version", "original"), text)
        told = replace(NOTHING, reason=text, note=text)
        record["found"] = {**words, "run_seed": 1, "explanation": encoded(told)}
        record["origin"] = {"recipe": text, "layout": text}
        (tmp_path / "case.json").write_text(json.dumps(record))
        case, found = load(tmp_path / "case.json")
        assert found is not None
        assert found.explanation is not None
        known = found.explanation
        said = (found.target, found.verdict, found.version, found.original, known.reason, known.note)
        for word in (*said, case.origin.recipe, case.origin.layout):
            assert word == printable(text)


def an_outline() -> Outline:
    """What comes of words that came in where they should."""
    words = [printable(text) for text in TEXTS]
    text = "\n".join(f"  {word}" for word in words)
    failures = tuple(
        Failure("planted", Verdict.CRASH, "", ("c-planted@native",), 1, Location("a.c", 1),
                replace(NOTHING, reason=text, note=word, verdict=Verdict.CRASH), known=word)
        for word in words
    )  # fmt: skip
    lines = tuple(
        TargetLine("planted", "rms_norm", f"c-planted@{n}", 0, 0, {}, {}, word) for n, word in enumerate(words)
    )
    outcome = UseOutcome({}, {word: word for word in words}, complaints=tuple(words))
    return Outline("run", 1, {"kernelfuzz": "0"}, 1, lines, failures, outcome, tuple(words))


def test_no_report_is_broken_or_made_to_command_by_words() -> None:
    outline = an_outline()
    said = {name: write(outline) for name, write in FORMATS.items()}
    ET.fromstring(said["junit"])
    for name in ("json", "sarif"):
        json.loads(said[name])
    for name in ("text", "github"):
        assert COMMAND.search(said[name]) is None
    assert "<script>" not in re.sub(r"(?s)^(`{4,})text\n.*?^\1$", "", said["github"], flags=re.MULTILINE)
    failing = replace(outline, failures=tuple(replace(failure, known="") for failure in outline.failures))
    for line in commands(failing):
        assert line.startswith(("::error ", "::warning "))
        assert line.isprintable()


def test_a_console_prints_words_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    words = "[bold red]markup[/] [link=http://example.org]x[/link] :skull: :bug:"
    for made in (console.results(), console.progress()):
        made.print(words, soft_wrap=True)
        table = console.bare_table()
        table.add_column(words, no_wrap=True)
        table.add_row(words)
        made.print(table)
    shown = capsys.readouterr()
    assert shown.out.count(words) == 3
    assert shown.err.count(words) == 3


SHOUTS = (
    '#include "kernelfuzz.h"\n#include <stdio.h>\n#include <stdlib.h>\n'
    "int kf_rms_norm(const kf_rms_norm_call *call) {\n    (void)call;\n"
    '    fprintf(stderr, "x\\n::error file=/etc/passwd,line=1::injected\\n##[error]x <script>alert(1)</script> %%0A '
    '\\x1b]0;pwn\\x07 \\xe2\\x80\\xae ]]> \\"\'&\\n::stop-commands::t\\n");\n'
    "    fflush(stderr);\n    abort();\n}\n"
)


def test_what_a_kernel_writes_commands_nobody(tmp_path: Path, planted: Callable[..., Path], cli_here: Cli) -> None:
    folder = planted(SHOUTS)
    options = ("--target", "*native:gcc-O2", "--max-cases", "3", "--seed", "1", "--no-shrink")
    reports = [f"--report={name}" for name in ("github", "text", "junit=j.xml", "sarif=s.json", "json=r.json")]
    done = cli_here("run", "--pack", str(folder), *options, *reports, "--json", "log.json")
    assert done.returncode == 1, done.stderr
    assert "injected" in done.stdout
    for line in (done.stdout + done.stderr).splitlines():
        assert line.isprintable()
        if COMMAND.search(line):
            assert line.startswith("::error file=pack-planted/planted.c,line=")
            assert ",title=kernelfuzz CRASH planted::FAIL  planted  crashes" in line
            assert "##[" not in line
    ET.parse(tmp_path / "j.xml")
    for name in ("s.json", "r.json"):
        json.loads((tmp_path / name).read_text())
    for line in (tmp_path / "log.json").read_text().splitlines():
        json.loads(line)
