"""What `kernelfuzz tolerance` says is what the oracle says, of simulated correct kernels and of values that are off."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.campaign.tolerance import DTYPES, NUMPY, OURS, SEED, TORCH, Needs, Tolerance, needs, plain, usual
from fuzz.cli.mcp import tolerance as asked_by_agents
from fuzz.quality.subjects import simulated
from fuzz.tasks.check.setup import GIVEN
from fuzz.tests.common.told import fails
from fuzz.tests.conftest import Cli
from oracles.dtypes import FORMATS
from oracles.ops import OPS
from oracles.rounding import round_to, stored_as
from oracles.summation import AnyOrder
from oracles.tiers.problem import FormulaProblem
from oracles.truth import Truth

_ROWS, _N = 4, 96


def _one(op: str, dtype: str, n: int = _N) -> tuple[Needs, Truth]:
    [found] = needs(OPS[op], dtype, n, _ROWS)
    return found, Truth(plain(OPS[op], dtype, _ROWS, n, SEED))


def _pair(found: Needs, whose: str = OURS) -> Tolerance:
    [ruler] = [each for each in found.rulers if each.whose == whose]
    return Tolerance(whose, ruler.absolute, ruler.relative)


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", ["bf16", "f32", "f16"])
@pytest.mark.parametrize("op", ["softmax", "layer_norm", "matmul"])
def test_correct_kernels_keep_the_pair_that_is_told(op: str, dtype: str) -> None:
    found, truth = _one(op, dtype)
    contract, own = usual(OPS[op], dtype, AnyOrder()), usual(OPS[op], dtype)
    places = [index for index in np.ndindex(truth.op.shape(found.output)) if sum(index) % 29 == 0]
    told = [truth.explain(contract, found.output, index) for index in places]
    expected = np.array([each.expected.value for each in told])
    for end in ("low", "high"):
        ends = np.array([getattr(each, end).value for each in told])
        right = expected == 0  # of a relative error of 0 nothing is said
        assert not (_pair(found).failing(ends, expected) & ~right).any()
    problem = FormulaProblem(truth.problem)
    for seed in range(3):
        got = simulated(problem, own, seed)[found.output]
        exact = round_to(
            np.asarray(truth.enclosures(contract, False)[found.output].centre, float), FORMATS[found.dtype]
        )
        assert not (_pair(found).failing(got, exact) & (exact != 0)).any()


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_errors_are_seen_from_the_size_on_that_is_told(factor: float) -> None:
    found, truth = _one("rms_norm", "f32")
    contract = usual(OPS["rms_norm"], "f32", AnyOrder())
    exact = np.asarray(truth.enclosures(contract, False)["y"].centre, float)
    off = (exact * (1 + factor * found.floor)).astype(stored_as("f32")).reshape(truth.op.shape("y"))
    [check] = truth.check(contract, {"y": off})
    assert (check.failing > exact.size / 2) == (factor > 1)


def test_what_is_said_to_be_refused_is_right() -> None:
    """An end of what correct kernels may return: the oracle passes it, and the defaults of torch do not."""
    found, truth = _one("rms_norm", "f32", 4096)
    [torch] = [each for each in found.rulers if each.whose == "torch"]
    contract = usual(OPS["rms_norm"], "f32", AnyOrder())
    enclosure = truth.enclosures(contract, False)["y"]
    highest = enclosure.inner[1]
    [check] = truth.check(contract, {"y": highest.astype(np.float32).reshape(truth.op.shape("y"))})
    exact = round_to(np.asarray(enclosure.centre, float), FORMATS["f32"])
    failing = _pair(found, "torch").failing(highest, exact)
    assert check.result == "pass"
    assert 0 < failing.sum() <= torch.refuses


def test_a_kernel_that_rounds_nothing_needs_nothing() -> None:
    [found] = needs(OPS["row_max"], "bf16", _N, _ROWS)
    assert (found.typical, found.worst, _pair(found)) == (0.0, 0.0, Tolerance(OURS, 0.0, 0.0))


def test_the_defaults_of_numpy_are_those() -> None:
    given = inspect.signature(np.allclose).parameters
    assert (given["atol"].default, given["rtol"].default) == (NUMPY.absolute, NUMPY.relative)


@pytest.mark.whole
def test_the_defaults_of_torch_are_those() -> None:
    import torch
    from torch.testing._comparison import default_tolerances

    for dtype, each in TORCH.items():
        rtol, atol = default_tolerances(getattr(torch, FORMATS[dtype].spelling))
        assert (atol, rtol) == (each.absolute, each.relative), dtype


@pytest.mark.whole
@pytest.mark.parametrize("op", [*OPS])
def test_every_op_has_an_answer(cli_here: Cli, op: str) -> None:
    for dtype in DTYPES:
        for n in (1, 7, 64):
            done = cli_here("tolerance", op, "--dtype", dtype, "--n", str(n), "--rows", "2")
            assert done.returncode == 0, done.stderr


def test_it_is_told_as_a_table_and_as_json(cli_here: Cli) -> None:
    done = cli_here("tolerance", "softmax", "--dtype", "bf16", "--n", "64", "--rows", "2")
    assert "torch.testing.assert_close" in done.stdout
    assert "next: assert_close(mine, right, atol=" in done.stdout
    told = json.loads(cli_here("tolerance", "softmax", "--n", "64", "--rows", "2", "--json").stdout)
    [output] = told["outputs"]
    assert (told["schema"], output["output"], len(output["rulers"])) == (1, "y", 3)
    wrong = cli_here("tolerance", "softmax", "--dtype", "f8")
    assert (wrong.returncode, "--dtype f8: it is one of f32, f16, bf16, f64" in wrong.stderr) == (4, True)


def test_a_longer_sequence_needs_no_less() -> None:
    """The number of keys is none of the row, which is a head."""
    few, many = (next(needs(OPS["attention"], "f32", 16, 2, extents={"j": keys})) for keys in (2, 256))
    assert few.floor < many.floor


def test_a_longer_sequence_is_asked_for_by_its_name(cli_here: Cli) -> None:
    words = ("tolerance", "attention", "--n", "16", "--rows", "2", "--json", "--extent")
    told = json.loads(cli_here(*words, "j=64").stdout)
    assert (told["n"], told["rows"], told["extents"]) == (16, 2, {"j": 64})
    wrong = cli_here(*words, "d=3")
    assert (wrong.returncode, "attention has g, h, i, j, e" in wrong.stderr) == (4, True)


@pytest.mark.whole
@pytest.mark.parametrize(("said", "why"), [("j", "j=4096"), ("j=0", "at least 1"), ("j=99999999", "name fewer --rows")])
def test_an_extent_that_cannot_be_had_is_told_in_a_line(cli_here: Cli, said: str, why: str) -> None:
    done = cli_here("tolerance", "attention", "--extent", said)
    assert (done.returncode, why in done.stderr) == (4, True)


@pytest.mark.whole
def test_agents_can_ask_for_a_longer_sequence_too() -> None:
    assert asked_by_agents("attention", n=16, extent="j=8")["extents"] == {"j": 8}


def _padded(x: Any) -> Any:
    n = x.shape[-1]
    e = torch.exp(torch.nn.functional.pad(x - x.amax(-1, keepdim=True), (0, -n % 4)))
    return (e / e.sum(-1, keepdim=True))[..., :n]


def _too_large(x: Any) -> Any:
    return torch.softmax(x, -1) * 1.001


def _doubled(x: Any) -> Any:
    return np.where(x.shape[-1] % 4, 2.0, 1.0).astype(x.dtype) * (x + x)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("kernel", "right", "said"),
    [
        (_padded, lambda x: torch.softmax(x, -1), "assert_close  passes on"),
        (_too_large, lambda x: torch.softmax(x, -1), "assert_close  fails, too, on"),
        (_doubled, lambda x: x + x, "allclose      passes on"),
    ],
)
def test_a_failing_check_says_what_a_usual_test_says(
    kernel: Any, right: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GIVEN, "options", replace(GIVEN.options, explain_s=0.0))
    with fails() as caught:
        fuzz.check(kernel, reference=right, shapes={"x": "... n"}, max_cases=16, seed=1)
    assert f"\n  {said} 64x1024 normal values in f32\n" in str(caught.value)
