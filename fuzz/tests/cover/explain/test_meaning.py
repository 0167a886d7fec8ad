"""What a contract says otherwise is said in plain words, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fuzz.explain.stages.counterfactuals import Fitting
from fuzz.explain.stages.forms import meaning
from fuzz.report.brief import brief_of
from fuzz.report.words import contract_words
from fuzz.tests.cover.findings.test_codec import FULL
from oracles.formula.contract import Contract
from oracles.neighbours import Neighbour, neighbours
from oracles.ops import OPS
from oracles.summation import Lanes, Sequential


@pytest.mark.parametrize(
    ("op", "field", "now", "before", "said"),
    [
        ("rms_norm", "points", {"h": "maybe input"}, {}, "h = x * rstd rounded to the dtype of the inputs, or not"),
        ("rms_norm", "points", {}, {"h": "input"}, "h = x * rstd not rounded on its way"),
        ("rms_norm", "points", {"eps": "bf16", "h": "bf16"}, {"h": "f16"}, "eps and h = x * rstd rounded to bf16"),
        ("matmul", "points", {"a": "tf32"}, {}, "a rounded to tf32"),
        ("layer_norm", "algorithm", {"var": "moments"}, {}, "var = mean(x * x) - (mean * mean)"),
        ("layer_norm", "algorithm", {"mean": "welford"}, {}, "mean = running mean of x"),
        ("layer_norm", "dtypes", {"rstd": "f64"}, {}, "rstd = rsqrt(var + eps) calculated in f64"),
        ("softmax", "sums", {"n": Lanes(8, 4, "scalar")}, {"n": Sequential()}, "sums over n in 32 lanes"),
        ("softmax", "accuracy", {"exp": 4.0, "log": 2.0}, {"log": 2.0}, "exp off by up to 4 ulp"),
        ("softmax", "compute", "input", "f32", "all calculated in the dtype of the inputs"),
        ("matmul", "addend", "any", "last", "terms that are added one by one in any order"),
    ],
)
def test_what_a_field_says_is_said_in_words(op: str, field: str, now: Any, before: Any, said: str) -> None:
    contract, declared = (Contract(**{field: value}) for value in (now, before))
    assert meaning(OPS[op], contract, declared, (field,)) == said


@pytest.mark.some(2)
@pytest.mark.parametrize("name", OPS)
def test_all_neighbours_have_a_meaning(name: str) -> None:
    for each in neighbours(OPS[name], Contract()):
        said = meaning(OPS[name], each.contract, Contract(), each.changed)
        assert said
        assert not {*said} & {*"{}'\""}


def test_it_stands_beside_the_declaration() -> None:
    op, contract = OPS["rms_norm"], Contract(points={"h": "maybe input"})
    said = meaning(op, contract, Contract(), ("points",))
    found = Fitting(Neighbour(contract, ("points",)), Contract(), 1.0, 1.0, 0.5, 12, 6, meaning=said).told
    assert contract_words(found).startswith(f"conforms to points={{'h': 'maybe input'}}, that is, with {said}, in all")
    assert brief_of(replace(FULL, contract=found, explained="whole", note="")).evidence.startswith(
        f"that is, with {said}"
    )
