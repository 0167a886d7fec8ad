"""No right solution is accused of the state that it keeps, or of computing in another way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.tests.common.honest import OPS, PATTERNS, definition, solution
from fuzz.tests.common.honest_tasks import PROBLEMS
from fuzz.tests.common.solutions import judged
from fuzz.tests.conftest import Cli

_PLAIN = [(op, "numpy", dtype) for op in OPS for dtype in ("float32", "float16")]


@pytest.mark.parametrize(
    ("op", "framework", "dtype"),
    [*_PLAIN, ("norm", "numpy", "float64"), ("norm", "torch", "float32"), ("gate", "torch", "bfloat16")],
)
def test_no_right_solution_is_wrong(cli_here: Cli, tmp_path: Path, op: str, framework: str, dtype: str) -> None:
    tried = {pattern: solution(op, framework, pattern) for pattern in PATTERNS}
    code, ruling = judged(
        cli_here, tmp_path, tried, "--no-shrink", "--seed", "11", shapes="", reference=definition(op, dtype)
    )  # fmt: skip
    said = {each["solution"]: (each["verdict"], each["failures"]) for each in ruling["solutions"]}
    assert {name: each for name, each in said.items() if each[0] != "right"} == {}
    assert (code, len(said)) == (0, len(PATTERNS))
    assert min(ruling["probes"].values()) >= len(PATTERNS)


@pytest.mark.parametrize("name", PROBLEMS)
def test_no_right_solution_of_sixty_is_wrong_or_undecided(cli_here: Cli, tmp_path: Path, name: str) -> None:
    problem = PROBLEMS[name]
    code, ruling = judged(
        cli_here, tmp_path, dict(problem.solutions()), "--no-shrink", "--seed", "1",
        shapes=problem.shapes, reference=problem.statement(),
    )  # fmt: skip
    said = {each["solution"]: (each["verdict"], each["headline"]) for each in ruling["solutions"]}
    assert {name: each for name, each in said.items() if each[0] != "right"} == {}
    assert (code, len(said)) == (0, 2)
