"""A Python kernel that cannot be called as it is declared is told of, and the others run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.conftest import Cli

PACK = """
from pathlib import Path
from fuzz import Op, Operand, PythonKernel

def doubled(x):
    return {"y": x + x}

X, Y = Operand("x", "... n"), Operand("y", "... n")
OPS = (Op(doubled, (X,), (Y,)),)
KERNELS = tuple(
    PythonKernel(path.stem, "doubled", path, "numpy")
    for path in sorted(Path(__file__).parent.glob("mine*.py"))
)
"""
FAILS = "def doubled(x):\n    return x * 3\n"
MISUSED = {
    "returns": ("def doubled(x, y):\n    y[...] = x + x\n    return x + x\n", "return nothing, or drop the parameter"),
    "keyword": (
        "def undo(of):\n    return lambda *given: of(*given)\n\n\n@undo\ndef doubled(x):\n    return x + x\n",
        "wrap it: def doubled(x): return mine(x)",
    ),
}


@pytest.fixture(params=[*MISUSED])
def misused(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A pack with such a kernel, and what is said of it."""
    text, said = MISUSED[request.param]
    (tmp_path / "pack.py").write_text(PACK)
    (tmp_path / "mine_odd.py").write_text(text)
    return said


@pytest.mark.some(1)
def test_it_ends_no_run_and_hides_nothing_of_others(misused: str, cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine_bad.py").write_text(FAILS)
    words = ["--explain-time", "300s"] if "wrap" in misused else ["--no-shrink"]
    with unknown_afterwards():
        done = cli_here("run", "--pack", ".", "-j", "1", "--max-cases", "32", "--seed", "1", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^mine_bad +1 of 1 +32 ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^FAIL +mine_bad ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(rf"^CRASH  mine_odd  .*\n  what .*{re.escape(misused)}", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^1 .* in 1 kernel.*, broken: mine_odd: ", done.stdout, re.MULTILINE)
    assert "internal error" not in done.stdout


@pytest.mark.some(1)
def test_it_fails_a_run_in_which_nothing_else_does(misused: str, cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine_good.py").write_text(FAILS.replace("3", "2"))
    with unknown_afterwards():
        done = cli_here("run", "--pack", ".", "-j", "1", "--max-cases", "16", "--seed", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert ", broken: mine_odd: " in done.stdout
    assert misused in done.stdout


@pytest.mark.some(1)
def test_where_it_is_the_only_kernel_the_run_ends_at_once(misused: str, cli_here: Cli) -> None:
    with unknown_afterwards():
        done = cli_here("run", "--pack", ".", "-j", "1", "--max-cases", "16", "--seed", "1")
    assert done.returncode == 4, done.stdout + done.stderr
    assert re.fullmatch(rf"kernelfuzz: .*mine_odd.*{re.escape(misused)}.*\n", done.stderr), done.stderr
