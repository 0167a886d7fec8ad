"""`explain-budget` as a user meets it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fuzz.tests.conftest import CHECKOUT, Cli

CASE = str(CHECKOUT / "corpora" / "historical" / "sve-tail-dont-care.json")


def test_explain_budget_prints_exact_value_interval_and_every_term(cli_here: Cli) -> None:
    done = cli_here("explain-budget", CASE, "--output", "y", "--index", "0,17", "--target", "c-avx512@native:gcc-O2")
    assert done.returncode == 0, done.stderr
    assert "y[0, 17] under the contract of c-avx512@native:gcc-O2" in done.stdout
    exact = re.search(r"exact +(0\.99999\d+)", done.stdout)
    assert exact is not None
    assert len(exact[1]) >= 30
    assert abs(float(exact[1]) - 1 / (1 + 9.999999747378752e-06) ** 0.5) < 1e-15
    for term in ("mean_square", "rstd", "rounding"):
        assert re.search(rf"^ +(budget +)?{term} +\d\.\d+e[+-]\d+ +\S", done.stdout, re.MULTILINE), term
    assert "multiply 1 u, sum over n 8 u (h = 8, worst case), divide 1 u in f32, u = 2^-24" in done.stdout
    assert "2.5 u x |rstd| 1 x 1: add 1 u, rsqrt 2 u in f32" in done.stdout
    assert "allowed" in done.stdout


def test_the_allowance_depends_on_the_declared_order_of_the_sum(cli_here: Cli) -> None:
    def allowed(target: str) -> str:
        named = ("sve-tail", "--findings", str(Path(CASE).parent))
        return cli_here("explain-budget", *named, "--target", target).stdout.split("allowed")[1].splitlines()[0]

    assert allowed("c-generic@native:gcc-O2") != allowed("c-sve@qemu:vl=2048,gcc-O2")


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--output", "z"], "--output z: the case has y"),
        (["--index", "0"], "y has the shape [1, 65]"),
        (["--index", "0,65"], "y has the shape [1, 65]"),
        (["--index", "a,b"], "write integers"),
        (["--target", "c-nothing@*"], "no target matches"),
    ],
)
def test_explain_budget_refuses_what_is_not_there(cli_here: Cli, arguments: list[str], words: str) -> None:
    done = cli_here("explain-budget", CASE, *arguments)
    assert done.returncode == 4
    assert words in done.stderr
