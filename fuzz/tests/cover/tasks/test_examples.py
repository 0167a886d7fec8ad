"""What examples of inputs always are is kept by cases, and told with what a kernel does beyond."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.references.derive import FINITE, derive
from fuzz.references.dims import UnreadableError
from fuzz.references.examples import square_in
from fuzz.references.replay.cases import meant_of
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tasks.judge.written import derived
from fuzz.tasks.readers.formats import statements_of
from fuzz.tests.common.told import fails
from fuzz.tests.conftest import Cli


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path, explain_s=1e-3))


def product(a: Any, b: Any) -> Any:
    return a @ b


def of_the_triangle(a: Any, b: Any) -> Any:
    return a.tril() @ b


def check_triangle(**options: Any) -> None:
    given = [torch.randn(9, 9).tril(), torch.randn(9, 4)]
    fuzz.check(of_the_triangle, reference=product, shapes="a=m k, b=k n", example_inputs=given,
               max_cases=16, seed=1, **options)  # fmt: skip


def test_a_kernel_that_takes_what_examples_always_are_passes(capsys: pytest.CaptureFixture[str]) -> None:
    check_triangle()
    said = " ".join(capsys.readouterr().err.split())
    assert "kept as in the examples: a lower triangular" in said
    assert "right for inputs as the examples have them (a lower triangular); wrong beyond: " in said


def test_any_values_draws_beyond_what_examples_are() -> None:
    with fails():
        check_triangle(any_values=True)


class Model(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.relu(x) * 2.0


class Unchecked(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x * 2.0


@pytest.mark.some(1)
@pytest.mark.parametrize("random", [torch.rand, torch.randn])
def test_a_sign_that_examples_never_have_is_drawn_and_told(random: Any) -> None:
    """A reference that begins with a ReLU says what negative numbers mean, whatever get_inputs() draws."""
    with pytest.raises(fuzz.CheckFailed) as failed:
        fuzz.check_module(Unchecked, Model, lambda: [random(8, 12)], max_cases=16, seed=1)
    said = " ".join(str(failed.value).split())
    assert ("right for inputs as the examples have them (x from 0 to 1)" in said) is (random is torch.rand)


_TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b

n = 64

def get_inputs():
    a = torch.rand(n, n)
    return [a + a.T, torch.randn(n, n)]
"""


@pytest.mark.whole
def test_a_judge_keeps_what_get_inputs_draws_and_says_what_is_beyond(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(_TASK)
    (tmp_path / "turned.py").write_text(_TASK.replace("Model(", "ModelNew(").replace("a @ b", "a.T @ b"))
    words = ("--against", "task.py", "--seed", "1", "--no-shrink", "--trusted", "--max-cases", "8", "--json")
    done = cli_here("judge", "turned.py", *words)
    ruling = json.loads(done.stdout)
    [ruled] = ruling["solutions"]
    assert (done.returncode, ruled["verdict"]) == (0, "right"), done.stderr
    assert "kept as in get_inputs(): a symmetric" in ruling["reference"]
    assert ruled["beyond"]["always"] == "a symmetric"
    assert ruled["beyond"]["right_within"]
    assert 0 < ruled["beyond"]["failing"] <= ruled["beyond"]["judged"]
    done = cli_here("judge", "turned.py", *words, "--any-values")
    [ruled] = json.loads(done.stdout)["solutions"]
    assert (done.returncode, ruled["verdict"], ruled["beyond"]["right_within"]) == (1, "wrong", True), done.stderr


_MASKED = """
import torch

class Model(torch.nn.Module):
    def __init__(self, longest):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest)))
        self.register_buffer("mean", torch.zeros(longest))

    def forward(self, a):
        return (a - self.mean).masked_fill(self.mask == 0, 0.0)

def get_inputs():
    return [torch.randn(4, 32, 32)]

def get_init_inputs():
    return [32]
"""


def test_a_buffer_keeps_what_it_always_has_as_inputs_do(tmp_path: Path) -> None:
    """A right solution that takes attention as causal, without looking at the mask, was called wrong."""
    (tmp_path / "task.py").write_text(_MASKED)
    problem = next(statements_of(str(tmp_path / "task.py")))
    assert [*problem.buffers] == ["mask"]
    assert (
        "kept as in get_inputs() and the buffers of Model: mask 1 up to the diagonal" in derived(problem, FINITE).said
    )


def test_a_replay_keeps_it_too() -> None:
    meant = meant_of(product, "a=m k, b=k n", None, {}, "finite", ("f32",))
    kept = {"a": (("lower", ()),)}
    assert square_in(kept, meant.asked.dims, {"a": (9, 9)}, ()) == (("m", "k"),)
    meant = replace(meant, kept=kept, square=(("m", "k"),))
    for case in islice(meant.cases(1), 12):
        a = case.arrays["a"]
        assert a.shape[0] == a.shape[1]
        assert np.array_equal(a, np.tril(a))
    assert any(len(case.arrays["a"]) > 8 for case in islice(meant.cases(1), 12))


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _turned(a: Any, b: Any) -> Any:
    return a.T @ b if len(a) > 4 else a @ b


@pytest.mark.whole
def test_square_matrices_are_read_and_stay_square(capsys: pytest.CaptureFixture[str]) -> None:
    given: Any = {"reference": _product, "example_inputs": (torch.randn(8, 8), torch.randn(8, 8)), "max_cases": 8}
    fuzz.check(_product, seed=1, **given)
    told = " ".join(capsys.readouterr().err.split())
    assert "a[n, m], b[m, k] -> y[n, k], n = m = k as given" in told
    with fails():
        fuzz.check(_turned, seed=1, **given)


def test_dimensions_that_a_reference_takes_alone_as_long_are_one() -> None:
    def both(a: Any, b: Any) -> Any:
        return a * b.T

    op = derive(both, example_inputs=(torch.randn(8, 8), torch.randn(8, 8))).op
    assert [each.dims for each in op.inputs] == ["n m", "m n"]
    assert op.square == (("n", "m"),)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("reference", "shapes", "square", "words"),
    [
        (lambda a: a @ a, "a=n n", (("n", "m"),), "f.dot(a, "),
        (lambda a: (a + a.T) / 2.0, "a=b n", (), ""),
        (lambda a: (a + a.T) / 2.0, "a=n n", (("n", "m"),), "(a + "),
        (lambda a: torch.einsum("bnn->bn", a), "a=b n n", (("n", "m"),), 'f.take(a, f.position("n"), "m")'),
        (lambda x, w: torch.relu(x @ w) @ w, "x=b n, w=n n", (("n", "m"), ("m", "k")), "f.dot(x, "),
        (lambda a, b: a @ b, "a=n n, b=n n", (("n", "m"), ("m", "k")), 'f.dot(a, b, "m")'),
    ],
)
def test_a_tensor_that_has_a_dimension_twice_is_square(reference: Any, shapes: str, square: Any, words: str) -> None:
    if not square:  # of any matrix there is no such sum
        with pytest.raises(UnreadableError):
            derive(reference, shapes)
        return
    found = derive(reference, shapes)
    assert (found.op.square, words in found.formula.text) == (square, True)


def test_both_axes_of_a_square_have_the_extent_that_is_given() -> None:
    """Cases with another extent of one of them ended in a KeyError."""
    reference = torch.nn.functional.conv2d
    op = derive(lambda x, w: reference(x, w), "x=b c h w, w=m c k k, k=3").op
    assert {op.fixed[dim] for dim in op.operand("w").axes[2:]} == {3}
    fuzz.check(lambda x, w: reference(x, w), reference=lambda x, w: reference(x, w),
               shapes="x=b c h w, w=m c k k, k=3", seed=0, max_cases=8)  # fmt: skip
