"""No solution that is wrong under one condition alone is right, for each axis on which it can hide and for pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fuzz.tests.common.conditional import CONDITIONAL, OUTSIDE, REFERENCES
from fuzz.tests.common.solutions import judged, parts_of
from fuzz.tests.conftest import Cli

_PARTS = parts_of(CONDITIONAL, 8)  # each takes some 5 processor seconds


@pytest.mark.parametrize(("problem", "names"), _PARTS, ids=[f"{problem}-{names[0]}" for problem, names in _PARTS])
def test_no_solution_that_is_wrong_under_a_condition_is_right(
    cli_here: Cli, tmp_path: Path, problem: str, names: list[str]
) -> None:
    reference, shapes = REFERENCES[problem]
    texts = {name: CONDITIONAL[name].text for name in names}
    _, ruling = judged(
        cli_here, tmp_path, texts, "--seed", "7", "--no-shrink", shapes=shapes, reference=reference
    )  # fmt: skip
    said = {each["solution"].removesuffix(".py"): each["verdict"] for each in ruling["solutions"]}
    assert said == {name: "right" if name in OUTSIDE else "wrong" for name in names}


_NAMED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ascending": ("", ("n >= 5", "the first row of x is in ascending order")),
    "all_negative": ("", ("x is negative everywhere", "rows * n >= 9")),
    "zero_and_many_rows": ("", ("rows >= 17", "the first row of x is zero in part")),
    "row_large": ("", ("largest magnitude of x / that of its median row > 1000",)),
    "two_threads": ("", ("it runs on several threads",)),
    "later_calls": ("state", ("from call 101 on",)),
}


@pytest.mark.parametrize("name", _NAMED)
def test_the_condition_is_named(cli_here: Cli, tmp_path: Path, name: str) -> None:
    solution = CONDITIONAL[name]
    reference, shapes = REFERENCES[solution.problem]
    words = ("--seed", "7", "--explain-time", "5m")
    _, ruling = judged(cli_here, tmp_path, {name: solution.text}, *words, shapes=shapes, reference=reference)
    first, *_ = ruling["solutions"][0]["bugs"]
    assert (first["cause"], tuple(first["when"])) == _NAMED[name]


_PECULIAR = {"length": "x.shape[-1] == 1237", "size": "3.1 < big(x) < 3.2", "user": "'HOME' in os.environ"}


def test_hints_steer_which_cases_are_drawn_and_accuse_nobody(cli_here: Cli, tmp_path: Path) -> None:
    reference, shapes = REFERENCES["norm"]
    honest = CONDITIONAL["long"].text.replace("y * np.float32(1.25)", "y + np.float32(0)")
    peculiar = {
        f"of_{name}_{kind}": text.replace("x.shape[-1] > 1024", condition)
        for name, condition in _PECULIAR.items()
        for kind, text in {"honest": honest, "cheat": CONDITIONAL["long"].text}.items()
    }
    _, ruling = judged(cli_here, tmp_path, peculiar, "--seed", "7", "--no-shrink", shapes=shapes, reference=reference)
    said = {each["solution"].removesuffix(".py"): each["verdict"] for each in ruling["solutions"]}
    assert said == {name: "right" if name.endswith("honest") else "wrong" for name in peculiar}
