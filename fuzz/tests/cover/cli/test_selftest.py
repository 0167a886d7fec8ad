"""`kernelfuzz selftest` proves that planted bugs are found, and fails when it cannot prove it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.tests.conftest import GENERIC, Cli

Planted = Callable[..., Path]


MUTANT = """
from fuzz import Mutant
MUTANTS = (Mutant("m", "planted", (({old!r}, {new!r}),), ("*@native:gcc-O2",), "n mod 8 = 3", {verdicts!r}, "a test",
    lambda n: n % 8 == 3),)
"""
TOTAL = "total += x[i] * x[i];"


def _with_mutant(pack: Path, new: str, verdicts: tuple[str, ...] = ("FAIL_NUMERIC",)) -> str:
    entry = pack / "pack.py"
    entry.write_text(entry.read_text() + MUTANT.format(old=TOTAL, new=new, verdicts=verdicts))
    return str(pack)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("new", "verdicts", "words"),
    [
        ("total += x[i] * x[i] * 1.0f;", ("FAIL_NUMERIC",), ": survived "),
        ("total += x[i];", ("FAIL_NUMERIC", "FAIL_NONFINITE"), "fails where the defect cannot show (n mod 8 = 3)"),
        ("total += n % 8 == 3 ? 0.0f / (x[i] - x[i]) : x[i] * x[i];", ("FAIL_MEMORY",), "expected FAIL_MEMORY"),
    ],
)
def test_a_mutant_that_survives_or_dies_of_something_else_fails_the_selftest(
    cli_here: Cli, planted: Planted, new: str, verdicts: tuple[str, ...], words: str
) -> None:
    assert GENERIC.count(TOTAL) == 1
    done = cli_here("selftest", "--pack", _with_mutant(planted(GENERIC), new, verdicts), "--max-cases", "320")
    assert done.returncode == 1
    assert words in done.stdout


def test_a_base_that_fails_too_proves_nothing(cli_here: Cli, planted: Planted) -> None:
    pack = planted(GENERIC.replace("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n + 1, eps)"))
    done = cli_here("selftest", "--pack", _with_mutant(pack, "total += n % 8 == 3 ? 1.0f : x[i] * x[i];"))
    assert done.returncode == 1
    assert "its base fails on the same case" in done.stdout


PYTHON = """
def rms_norm(x, *, eps, axis):
    return x / (x.square().mean(axis, keepdim=True) + eps).sqrt()
"""


def test_a_python_mutant_that_only_raises_is_not_killed(cli_here: Cli, tmp_path: Path) -> None:
    """A slip in the planted text, such as a name that nobody has defined, is no defect that was found."""
    (tmp_path / "mine.py").write_text(PYTHON)
    (tmp_path / "pack.py").write_text(
        "from pathlib import Path\nfrom fuzz import Mutant, PythonKernel\n"
        "KERNELS = (PythonKernel('mine', 'rms_norm', Path(__file__).parent / 'mine.py', 'torch', devices=('cpu',)),)\n"
        "EDITS = (('return x', 'return z'),)\n"
        "MUTANTS = (Mutant('m', 'mine', EDITS, ('torch-*@cpu',), 'always', ('FAIL_NUMERIC',), 'a test'),)\n"
    )
    done = cli_here("selftest", "--pack", str(tmp_path), "--max-cases", "16")
    assert done.returncode == 1
    assert "caught as CRASH, expected FAIL_NUMERIC" in " ".join(done.stdout.split())
