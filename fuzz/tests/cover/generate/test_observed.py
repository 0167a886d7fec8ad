"""What examples always are is seen, and drawn values are made so; what one example is by chance is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.dtypes import quantise
from fuzz.core.base.stream import Stream, dice_of
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.observed import holds, made_so, words_of
from fuzz.core.generate.properties import PROPERTIES, observed
from fuzz.core.generate.realise import draw_of, holds_in, realise
from fuzz.core.generate.sketch import sketched
from oracles.formula.trace import Node, Outputs, dot
from oracles.op import Op
from oracles.operand import Operand
from oracles.tests.common.judged import known

Values = NDArray[np.float32]
_U = 2.0**-24


def _softmax(x: Values) -> Values:
    e = np.exp(x)
    found: Values = (e / e.sum(-1, keepdims=True)).astype(np.float32)
    return found


_KINDS: dict[str, Callable[[Values], NDArray[np.generic]]] = {
    "causal": lambda x: np.tril(np.ones_like(x)).astype(bool),
    "future": lambda x: np.triu(np.ones_like(x), 1),
    "diagonal": lambda x: np.diag(x[0]),
    "lower": np.tril,
    "upper": np.triu,
    "definite": lambda x: x @ x.T + 9.0 * np.eye(len(x), dtype=x.dtype),
    "symmetric": lambda x: x + x.T,
    "one_hot": lambda x: np.eye(9, dtype=np.float32)[np.argmax(x, -1)],
    "shares": _softmax,
    "ascending": lambda x: np.sort(x, -1),
    "descending": lambda x: -np.sort(x, -1),
    "among": np.sign,
    "whole": lambda x: np.rint(x * 9.0),
    "unit": lambda x: np.abs(np.sin(x)),
    "not_negative": lambda x: np.abs(x) + 1.0,
}


def _samples(kind: str) -> list[NDArray[np.generic]]:
    return [_KINDS[kind](np.random.default_rng(seed).normal(size=(9, 9)).astype(np.float32)) for seed in range(3)]


def test_each_property_is_the_only_one_of_its_examples() -> None:
    seen = {name for name, each in PROPERTIES.items() if each.is_seen}
    assert _KINDS.keys() == seen, "a sample for a new property"
    assert {kind: observed(_samples(kind), _U)[0][0] for kind in _KINDS} == {kind: kind for kind in _KINDS}
    assert all(len(observed(_samples(kind), _U)) == 1 for kind in _KINDS)


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([np.zeros((9, 9))] * 3, id="zeros"),
        pytest.param([np.ones((9, 9))] * 3, id="ones"),
        pytest.param([np.tril(np.ones((2, 2))) * 3.5 - 1] * 3, id="a matrix of two rows"),
        pytest.param([np.tril(np.random.default_rng(1).normal(size=(9, 9))),
                      np.random.default_rng(2).normal(size=(9, 9))], id="one of two samples"),
        pytest.param([np.full((9, 9), -np.inf)] * 3, id="infinities"),
    ],
)  # fmt: skip
def test_what_is_so_by_chance_is_not_taken_for_what_always_is(samples: list[NDArray[np.float64]]) -> None:
    assert observed(samples, _U) == ()


@pytest.mark.parametrize("kind", PROPERTIES)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_any_values_are_made_so_and_stay_so(kind: str, dtype: str) -> None:
    kept = observed(_samples(kind), _U) if PROPERTIES[kind].is_seen else ((kind, ()),)
    for seed, shape in enumerate([(1, 1), (5, 5), (2, 33, 33), (1, 9), (3, 0)]):
        if PROPERTIES[kind].is_square and shape == (1, 9):
            continue
        wide = np.random.default_rng(seed).normal(size=shape) * 4.0
        made = made_so(kept, made_so((), wide.astype(np.float32), "f32"), "f32")
        if dtype == "bf16":
            made = made_so(kept, quantise(wide, dtype), dtype)
        assert holds(kept, made, dtype)
        assert made_so(kept, made, dtype).tobytes() == made.tobytes()


def test_words_name_the_numbers() -> None:
    seen = {"a": observed(_samples("among"), _U), "b": observed(_samples("symmetric"), _U)}
    assert words_of(seen) == "a -1 or 1; b symmetric"


def product(a: Node, b: Node) -> Outputs:
    return {"y": dot(a, b, "k")}


_OPERANDS = (Operand("a", "m k", kept=(("symmetric", ()), ("unit", ()))), Operand("b", "k n"))
_OP = Op(product, _OPERANDS, (Operand("y", "m n"),), square=(("m", "k"),))


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with known(_OP):
        yield


def test_cases_have_what_their_op_keeps_and_square_matrices_but_for_signs() -> None:
    capability = Capability("product", Capabilities())
    signs = set[float]()
    for dice in dice_of(Stream(1), 40):
        draw = draw_from(sketched(capability, dice.below), dice=dice)
        case = realise(draw)
        a = case.inputs["a"]
        assert a.layout.shape[0] == a.layout.shape[1]
        assert holds_in(case)
        assert realise(draw_of(case)).inputs["a"].bits == a.bits
        if a.dtype == "f32" and not any(stride == 0 for stride in a.layout.strides):
            values = np.frombuffer(a.bits, np.float32).reshape(a.layout.shape)
            assert np.array_equal(values, values.T, equal_nan=True)
            signs |= {*np.sign(values[np.isfinite(values)]).tolist()}
    assert -1.0 in signs, "what is of sign or magnitude alone is told, and not kept"


def test_a_case_that_is_otherwise_stays_as_it_is() -> None:
    capability = Capability("product", Capabilities())
    for dice in dice_of(Stream(7), 20):
        drawn = replace(draw_from(sketched(capability, dice.below), dice=dice), kept={})
        case = realise(drawn)
        assert realise(draw_of(case)).inputs["a"].bits == case.inputs["a"].bits
