"""At 80 columns no report has a longer line, but for a command or a path, and no word is cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fuzz
from fuzz.cli import app
from fuzz.report.wrapping import wrapped_text
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tasks.judge.bugs import summary
from fuzz.tasks.judge.ruling import Ruling, SolutionRuling

_WIDTH = 80
_NAME = "a_root_mean_square_of_rows_that_has_a_name_of_many_columns"
_PACK = """from pathlib import Path
from fuzz import Capabilities, PythonKernel
KERNELS = (PythonKernel("{name}", "rms_norm", Path(__file__).parent / "{name}.py", "numpy",
                        capabilities=Capabilities(dtypes=("f32",), empty=False)),)
"""
_KERNEL = """import numpy as np

def rms_norm(x, weight, y, *, eps):
    y[...] = x / np.sqrt((x * x).mean(-1, keepdims=True) + 2 * eps) * weight
"""
_IN_ONE_PIECE = re.compile(r" *([\w ]+: |[a-z ]{1,14} )?(kernelfuzz|python3 -m|pytest) .*|\S+")
"""A command with its label, or a word."""


def _is_narrow(said: str) -> None:
    long = [line for line in said.splitlines() if len(line) > _WIDTH and not _IN_ONE_PIECE.fullmatch(line.strip())]
    assert not long, "\n".join(long)


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(_WIDTH))
    (tmp_path / "pack.py").write_text(_PACK.format(name=_NAME))
    (tmp_path / f"{_NAME}.py").write_text(_KERNEL)
    return tmp_path


def test_what_commands_print_is_broken_between_words(pack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--pack", str(pack), "--max-cases", "8", "--no-shrink"]
    for command in (["run", *few, "--seed", "1", "-v"], ["gate", *few, "--verbose"]):
        assert app(command, standalone_mode=False) == 1
        shown = capsys.readouterr()
        assert _NAME in shown.out
        _is_narrow(shown.out + shown.err)
    [case, *_] = sorted(pack.rglob("*fail_numeric*.json"))
    assert app(["repro", str(case), "--pack", str(pack)], standalone_mode=False) == 1
    _is_narrow("".join(capsys.readouterr()))


def test_what_a_check_and_a_judge_say_is_broken_between_words(
    quick_checks: None, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=pack / "findings", explain_s=1e-3))
    with pytest.raises(fuzz.CheckFailed) as found:
        fuzz.check(
            lambda x: x.relu() * 1.01, reference=lambda x: x.relu(), shapes="x=batch_of_rows columns", max_cases=8
        )
    _is_narrow(str(found.value))
    solution = SolutionRuling(f"{_NAME}.py", "undecided", 4, 4, {}, (), " ".join([_NAME] * 4))
    ruling = Ruling(
        6, "undecided", "reference.py", "said", "formula", "", 1, 4, f"/tmp/{_NAME}", {}, {"f32": 1e-6, "f16": 1e-3},
        {}, ("larger cases", "several threads", "autograd", "evaluation mode"), (f"left out: {_NAME}",) * 3,
        (solution,), "", "", 11, {},
    )  # fmt: skip
    _is_narrow(wrapped_text(summary(ruling, 1.0), _WIDTH))


def test_a_command_stays_in_one_piece() -> None:
    said = f"nothing of {_NAME} ran here: kernelfuzz run --pack a/pack --target 'c-*@qemu' --max-cases 8; then again"
    lines = wrapped_text(said, 40).splitlines()
    assert "    kernelfuzz run --pack a/pack --target 'c-*@qemu' --max-cases 8;" in lines
    assert " ".join(" ".join(lines).split()) == said
