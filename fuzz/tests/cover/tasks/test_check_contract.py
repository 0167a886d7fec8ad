"""A check of a function that declares nothing may be told some fields of a contract alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fuzz
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tests.common.told import contract_of, fails
from oracles.tests.common.whole import quarter

pytestmark = pytest.mark.usefixtures("quick_checks")


def step(a: Any, b: Any, t: Any) -> Any:
    return a + t * (b - a)


def mixed(a: Any, b: Any, t: Any) -> Any:
    return (1 - t) * a + t * b


def drifting(a: Any, b: Any, t: Any) -> Any:
    return (1 - t) * a + t * b + 1e-6 * a


def _check(kernel: Any, **more: Any) -> None:
    fuzz.check(kernel, reference=step, shapes="a=n,b=n,t=n", max_cases=quarter(24), seed=1, **more)


def test_what_it_says_otherwise_is_allowed_and_nothing_else() -> None:
    _check(mixed, contract={"expanded": True})
    with fails():
        _check(drifting, contract={"expanded": True})


@pytest.mark.whole
@pytest.mark.parametrize("explain_s", [1e-3, 10.0])
def test_a_product_that_is_multiplied_out_is_told_as_one(
    explain_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the time: a weaker contract takes no search."""
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path, explain_s=explain_s))
    with fails() as found:
        _check(mixed)
    assert [contract_of(each) for each in found.value.failures] == ["expanded=True"]
    text = " ".join(str(found.value).split())
    assert "that is, with products of sums that may be multiplied out" in text
    assert "if that is meant, check with contract=dict(expanded=True)" in text


@pytest.mark.whole
@pytest.mark.parametrize("window", [0.5, 1e9])
def test_a_function_is_less_accurate_where_it_is_so_all_over(
    window: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is off by 8 ulp between 1 and 1.5 alone is wrong there, and no contract is an excuse for it."""
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path))

    def sloppy(x: Any) -> Any:
        y = torch.nn.functional.softplus(x)
        return torch.where((x - 1.25).abs() <= window / 2, y * (1 + 1e-6), y)

    with fails() as found:
        fuzz.check(sloppy, reference=torch.nn.functional.softplus, shapes="x=... n", max_cases=100, seed=1)
    told = [contract_of(each) for each in found.value.failures]
    assert [each.startswith("accuracy=") for each in told] == [window > 1]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"expand": True}, "contract: 'expand' is not in a contract; there are compute, dtypes, "),
        ({"compute": "f17"}, "contract: dtype: 'f17' is not one of f32, "),
        ({"dtypes": {"u": "f32"}}, "contract.dtypes: 'u' "),
        ({"dtypes": {"y": 3}}, "contract: y: 3 is no dtype, such as 'f32'"),
        ({"saturate": ["y"]}, "contract: saturate: ['y'] is not one of False, True"),
        ({"accuracy": 1e9}, "contract: accuracy is 1000000000.0; it must be a dict, a value for each name"),
        ({"sums": "pairwise"}, "contract: sums is 'pairwise'; it must be a dict, a value for each name"),
        ({"compute": {}}, "contract: compute is {}; it must be one value"),
        ({"mean": "half"}, "contract: mean: 'half' is not one of 'divide', 'reciprocal'"),
    ],
)
def test_what_is_no_field_is_said_in_a_line(said: dict[str, Any], words: str) -> None:
    with pytest.raises(fuzz.CheckError) as found:
        _check(mixed, contract=said)
    assert words in str(found.value)
    assert "\n" not in str(found.value)


def _base_2(x: Any) -> Any:
    units = x * 1.4426950408889634
    e = torch.exp2(units - units.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def _softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def test_a_weaker_way_is_allowed_where_it_is_declared_and_not_unasked() -> None:
    weaker = {"algorithm": {"e": "base 2"}}
    fuzz.check(_base_2, reference=_softmax, shapes="x=... n", contract=weaker, seed=1, max_cases=quarter(40))
    with fails():
        fuzz.check(_base_2, reference=_softmax, shapes="x=... n", seed=1, max_cases=40)


@pytest.mark.whole
def test_an_op_has_the_same_way() -> None:
    able, weaker = fuzz.Capabilities(empty=False), fuzz.Contract(algorithm={"e": "base 2"})
    fuzz.check(_base_2, op="softmax", contract=weaker, capabilities=able, seed=1, max_cases=quarter(24))
