"""An op that a user's pack brings, with a kernel in C and one in Python: from the first search to a passing gate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fuzz
from fuzz.core.base.verdict import Verdict
from fuzz.tests.common.own_pack import ARGUMENTS, PACK, RIGHT, WRONG, unknown_afterwards, write_pack
from fuzz.tests.common.told import fails, told_in
from fuzz.tests.conftest import Cli
from oracles.formula.trace import Node, Outputs
from oracles.op import Op
from oracles.operand import Flip, Operand, Parameter


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with unknown_afterwards():
        yield


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_pack(tmp_path, WRONG)


def test_a_bug_in_a_kernel_of_an_own_op_is_found_and_kept_out_by_the_gate(pack: Path, cli_here: Cli) -> None:
    """Explained and shown by a script it is in fuzz/docs/adding-an-op.md, whose listings are executed."""
    done = cli_here("run", *ARGUMENTS, "--max-cases", "48", "--seed", "1", "--target", "*O2,*@cpu", "--no-shrink", "-v")
    assert done.returncode == 1, done.stdout + done.stderr
    every = told_in(pack / "findings")
    assert {each.kernel for each in every} == {"bent"}, "it may show in infinities, too"
    assert Verdict.FAIL_NUMERIC in {each.verdict for each in every}
    assert {name: told for each in every for name, told in each.verdicts.items()} == {"numpy-bent-numpy@cpu": "PASS"}
    (pack / "corpora").mkdir()
    found = [str(path) for path in sorted((pack / "findings").glob("*.json"))]
    for verb in (["add", *found], ["list"], ["prune", "--dry-run"], ["merge", "findings"], ["verify"]):
        kept = cli_here("corpus", *verb, "--pack", ".", "--corpora", "corpora")
        assert kept.returncode == 0, kept.stderr
    gate = ("gate", *ARGUMENTS, "--corpora", "corpora", "--max-cases", "8", "--target", "*O2", "--no-shrink")
    refused = cli_here(*gate)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    (pack / "bent.c").write_text(RIGHT)
    passed = cli_here(*gate)
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_it_is_listed_with_what_it_is(pack: Path, cli_here: Cli) -> None:
    shown = cli_here("list", "ops", "--pack", ".").stdout
    assert shown.splitlines()[1].startswith("leaky_gate"), "the pack's own ops come first"
    own, _, _ = shown.partition("\nrms_norm")
    for words in (
        'return {"bent": bent if gate is None else bent * gate + floor}', "signal[..., n], offset[n], gate[..., n]?",
        "slope, floor = 0 if absent", "bent, bent-numpy",
    ):  # fmt: skip
        assert words in own


BAD = {
    "OPS = (Op(leaky_gate, inputs=(Operand('signal', '...'),), outputs=(Operand('bent', '...'),)),)": (
        "leaky_gate: its first input must always be there"
    ),
    "OPS = (Op(lambda x: {'y': x if x < 1 else 1}, inputs=(Operand('x', N),), outputs=(Operand('y', N),)),)": "small",
    "def own(x): return {'y': x if x < 1 else x}\n"
    "OPS = (Op(own, inputs=(Operand('x', N),), outputs=(Operand('y', N),)),)": "own: a formula cannot branch",
}


@pytest.mark.parametrize("bad", list(BAD))
def test_a_bad_op_is_one_line_and_a_usage_error(bad: str, pack: Path, cli_here: Cli) -> None:
    (pack / "pack.py").write_text(PACK + bad + "\n")
    done = cli_here("run", *ARGUMENTS, "--max-cases", "1")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert BAD[bad] in done.stderr


def doubled(signal: Node, *, level: Node) -> Outputs:
    return {"twice": signal * 2.0 + level}


DOUBLED = Op(
    doubled,
    inputs=(Operand("signal", "... n"),),
    outputs=(Operand("twice", "... n"),),
    parameters=(Parameter("level", (0.0, 1.0), power=1),),
    scaling={"signal": 1, "twice": 1},
)


@pytest.mark.usefixtures("unexplained")
def test_a_function_is_checked_against_an_op_of_ones_own() -> None:
    def right(signal: np.ndarray, level: float) -> np.ndarray:
        return signal * np.float32(2) + np.float32(level)

    fuzz.check(right, op=DOUBLED, arrays="numpy", laws=("rerun", "scaling"), max_cases=40, seed=1)
    with fails("lambda"):
        fuzz.check(lambda signal, level: signal + signal, op=DOUBLED, arrays="numpy", max_cases=40, seed=1)
    with pytest.raises(fuzz.CheckError, match="it has no parameter 'level'"):
        fuzz.check(lambda signal: signal, op=DOUBLED, arrays="numpy")
    wrong = Op(doubled, DOUBLED.inputs, DOUBLED.outputs, DOUBLED.parameters, flips=(Flip(("signal",), ("twice",)),))
    with pytest.raises(fuzz.CheckError, match="doubled: flips: with signal negated twice is another number"):
        fuzz.check(right, op=wrong, arrays="numpy")
