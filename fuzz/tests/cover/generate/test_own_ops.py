"""Ops that the engine has never heard of, with other names, are drawn, realised and covered as the built-in ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Draw, Part
from fuzz.core.base.dtypes import numbers
from fuzz.core.base.errors import UsageError
from fuzz.core.base.feature import Feature
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.stream import Dice, Stream
from fuzz.core.base.validity import check_case
from fuzz.core.generate.aliasing import aliased_as
from fuzz.core.generate.big import big_case, series
from fuzz.core.generate.capabilities import anything, out_of_capability, undeclared
from fuzz.core.generate.coverage import Ledger
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.gaps import corners_of
from fuzz.core.generate.menus import PLACED, menus_of
from fuzz.core.generate.realise import draw_of, realise
from fuzz.core.generate.relatives import CHANGES, sequence, varied
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.sketch import Sketch
from fuzz.core.generate.space import space_of
from fuzz.core.generate.steering import steer
from oracles import ops
from oracles.dtypes import COMPUTED, FLOATS
from oracles.formula.trace import Node, Outputs, avg, erf, rsqrt
from oracles.op import Op
from oracles.operand import Operand, Parameter


def fused_gelu(a: Node, bias: Node, residual: Node) -> Outputs:
    """gelu(a + bias) * residual; no parameter at all."""
    shifted = a + bias
    return {"gated": shifted * (erf(shifted * 0.7071067811865476) + 1.0) * 0.5 * residual}


def clamped_affine(
    rows: Node, gain: Node | None = None, mean: Node | None = None, *, low: Node, slope: Node | float = 1.0
) -> Outputs:
    """Names that a search has words of its own for, a parameter that may be absent, an input that is a local."""
    if mean is None:
        mean = avg(rows, "k")
    spread = rows - mean
    scale = rsqrt(avg(spread * spread, "k") + low)
    return {"n": spread * scale * slope if gain is None else spread * scale * (slope * gain), "axes": scale}


def opposite(scene: Any, stream: Any) -> Any:
    """The first input of the other sign."""
    return -scene.values["a"]


GELU = Op(
    fused_gelu,
    inputs=(Operand("a", "... n"), Operand("bias", "n"), Operand("residual", "... n", values="addend opposite")),
    outputs=(Operand("gated", "... n"),),
    aliases=(("gated", "a"),),
    recipes={"opposite": opposite},
)
AFFINE = Op(
    clamped_affine,
    inputs=(
        Operand("rows", "... k"),
        Operand("gain", "k", optional=True, values="factor", stackable=True),
        Operand("mean", "...", optional=True, values="local", dtype="f32"),
    ),
    outputs=(Operand("n", "... k"), Operand("axes", "...", optional=True, dtype="gain", only_with="gain")),
    parameters=(
        Parameter("low", (1e-5, 1e-3, 1.0), least=1e-6, power=2),
        Parameter("slope", (1.0, 2.0, -1.0), neutral=1.0, only_with="gain"),
    ),
    aliases=(("n", "rows"),),
    scaling={"rows": 1, "mean": 1, "axes": -1},
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    ops.register(GELU)
    ops.register(AFFINE)
    yield
    del ops.OPS[GELU.name], ops.OPS[AFFINE.name]


def _first(capability: Capability, count: int) -> list[Case]:
    search = Search(capability.op, 7)
    search.capabilities = (capability,)
    made = (each.case for batch in batches(search) for each in batch)
    return list(islice(made, count))


@pytest.mark.some(1)
@pytest.mark.parametrize("op", [GELU, AFFINE], ids=lambda op: op.name)
def test_a_search_draws_valid_cases_of_any_op(op: Op) -> None:
    capability = anything(op.name)
    cases = _first(capability, 200)
    assert len({case.digest for case in cases}) > 180
    for case in cases:
        check_case(case)
        assert capability.refusal(case) is None
        assert realise(draw_of(case)).digest == case.digest
    assert [case.digest for case in cases] == [case.digest for case in _first(capability, 200)]
    ledger = Ledger(space_of([capability]))
    wanted = ledger.size
    for case in cases:
        ledger.see(case.origin.labels)
    assert ledger.size < wanted / 2
    for name in [each.name for each in op.parameters]:
        assert set(ledger.counts[Feature("parameter", name)]) >= set(ledger.space[Feature("parameter", name)])


@pytest.mark.some(1)
@pytest.mark.parametrize("op", [GELU, AFFINE], ids=lambda op: op.name)
def test_every_corner_of_any_op_can_be_reached(op: Op) -> None:
    capability = anything(op.name)
    gaps = corners_of(capability).gaps(0, 0)
    missed = []
    for turn, (kind, value) in enumerate((kind, v) for kind, vs in space_of([capability]).items() for v in vs):
        is_placed = kind.kind == "recipe" and (value in PLACED or isinstance(value, tuple))
        if is_placed or (kind.kind in ("n", "rows", "tail") and isinstance(value, int) and value > 300):
            continue  # which only values and luck decide, or a large case
        sketch = Sketch(capability, 40, 3, 2, 1, False, {}, "normal", turn)
        case = realise(steer(sketch, capability, gaps, [(kind, value)], turn))
        if kind.kind == "memory" and isinstance(value, tuple):
            case = aliased_as(case, value, turn)
        assert capability.refusal(case) is None
        if (kind, value) not in case.origin.labels:
            missed.append((kind, value))
    assert missed == []


def _kernel(op: Op, **able: Any) -> Kernel:
    return CKernel("k", op.name, Path("k.c"), capabilities=Capabilities(**able))


def test_a_kernel_is_given_no_parameter_that_it_does_not_take() -> None:
    plain, whole = _kernel(AFFINE, takes=("gain",)), _kernel(AFFINE, takes=("gain",), params=("slope",))
    case = next(case for case in _first(whole.capability, 200) if "slope" in case.params)
    assert plain.capability.refusal(case) == f"slope {case.params['slope']}"
    assert not any("slope" in case.params for case in _first(plain.capability, 200))
    assert undeclared(plain.capability)["params"] == ("slope",)
    assert undeclared(plain.capability)["stacked"] == ("gain of rank 2",)
    assert "params" not in undeclared(whole.capability)
    assert all(case.params["low"] for case in _first(plain.capability, 50)), "it is of every case"


def test_what_has_rank_1_is_given_with_rank_2_where_that_is_promised_to_be_rejected() -> None:
    kernel = _kernel(GELU, outside="rejects")
    flat = [
        each for each in out_of_capability([kernel.capability]) if each.able == replace(kernel.able, stacked=("bias",))
    ]
    (capability,) = flat
    drawn = [realise(draw_from(Sketch(capability, 9, 6, 3, 2, False, {}, "normal", seed))) for seed in range(20)]
    assert {kernel.capability.refusal(case) for case in drawn} == {None, "bias: rank 2"}


def test_what_only_stores_is_given_by_mistake_to_who_takes_such() -> None:
    """A kernel of e4m3fn may read e5m2 as that; one of f32 is hardly given either."""
    wide, narrow = _kernel(GELU, outside="rejects"), _kernel(GELU, dtypes=("e4m3fn",), outside="rejects")
    assert out_of_capability([wide.capability])[0].able.dtypes == COMPUTED
    assert out_of_capability([narrow.capability])[0].able.dtypes == FLOATS
    assert undeclared(wide.capability)["dtypes"] == tuple(each for each in COMPUTED if each != "f32")
    assert undeclared(narrow.capability)["dtypes"] == tuple(each for each in FLOATS if each != "e4m3fn")


def test_calls_in_a_row_differ_in_each_parameter() -> None:
    capability = anything(AFFINE.name)
    assert {"low value", "slope value"} < {*varied(capability)}
    seen = set()
    for turn in range(24):
        first, *others, _ = sequence(
            draw_from(Sketch(capability, 20, 3, 2, 1, False, {"low": 1.0}, "normal", turn)), capability, turn
        )
        seen |= {
            name for case in others for name in ("low", "slope") if case.params.get(name) != first.params.get(name)
        }
    assert seen == {"low", "slope"}
    assert "low value" not in varied(anything(GELU.name))


def test_guidance_changes_parameters_and_drops_with_a_tensor_what_needs_it() -> None:
    capability = anything(AFFINE.name)
    drawn = [
        draw_from(Sketch(capability, 20, 3, 2, 1, False, {"low": 1.0, "slope": 2.0}, "normal", seed))
        for seed in range(40)
    ]
    dice = Dice(Stream(3))
    changed = [CHANGES["parameter"](draw, capability, dice) for draw in drawn]
    assert {*(draw.parameters["low"] for draw in changed)} == {*AFFINE.parameter("low").values}
    for draw in drawn:
        less = CHANGES["less"](draw, capability, dice)
        assert capability.refusal(realise(less)) is None
        if "slope" in draw.params and not any(part.name == "gain" for part in less.parts):
            assert "slope" not in less.params


def test_big_cases_are_there_for_every_op() -> None:
    for op in (GELU, AFFINE):
        names = [due.big.name for due in series(op.name)]
        assert {"rows65537", "pitch2^32"} < {*names}
        case = big_case(next(due.big for due in series(op.name)), op.name, True)
        check_case(case)
        assert {*case.tensors} == {operand.name for operand in op.operands}


def test_an_input_that_the_formula_finds_itself_is_what_it_finds() -> None:
    for seed, recipe in enumerate(("normal", "spike", "row_scales", "one_nan")):
        parts = (Part("rows", "f64", recipe=recipe), Part("mean", "f64", recipe="true"), Part("n", "f64"))
        case = realise(Draw(AFFINE.name, 37, (9,), {"low": 1.0, "axis": 1}, seed, parts))
        rows, mean = (numbers(each.bits, "f64", each.layout.shape).astype(np.float64) for each in case.inputs.values())
        assert np.allclose(mean, rows.mean(axis=1), rtol=1e-12, atol=0, equal_nan=True)


def test_what_the_formula_finds_of_the_smallest_numbers_may_be_infinite() -> None:
    parts = (
        Part("x", "f64", recipe="subnormal"),
        Part("dy", "f64", recipe="along"),
        Part("rstd", "f32", recipe="true"),
    )
    for seed in range(3):
        params = {"eps": 0.0, "axis": 1}
        case = realise(Draw("rms_norm_backward", 5, (9,), params, seed, (*parts, Part("dx", "f64"))))
        assert np.frombuffer(case.inputs["rstd"].bits, np.float32).max() == np.inf
        assert np.isfinite(np.frombuffer(case.inputs["dy"].bits)).all()


def test_an_op_draws_values_of_its_own() -> None:
    parts = (
        Part("a", "f32", recipe="normal"),
        Part("bias", "f32", recipe="ones"),
        Part("residual", "f32", recipe="opposite"),
    )
    case = realise(Draw(GELU.name, 8, (3,), {"axis": 1}, 5, (*parts, Part("gated", "f32"))))
    a, residual = (np.frombuffer(case.inputs[name].bits, np.float32) for name in ("a", "residual"))
    assert (residual == -a).all()
    assert menus_of(GELU)["residual"].often.count("opposite") == 2
    assert case.structured, "whether its rounding errors are random is not known"


_A, _B = Operand("a", "... n"), Operand("y", "... n")


@pytest.mark.parametrize(
    ("inputs", "parameters", "message"),
    [
        ((_A, Operand("b", "... n", values="weights")), (), "broken: b: values 'weights' is not one of any, addend,"),
        ((_A, Operand("b", "... n", values="any huge")), (), "broken: b: the op has no recipe 'huge' of its own"),
        (
            (_A, Operand("b", "... n", values="flags")),
            (),
            "broken: b: values 'flags' do not go with its dtype",
        ),
        ((_A, Operand("b", "...", values="local")), (), "broken: b: values 'local' are for an optional input"),
        ((_A, Operand("b", "...", True, "local")), (), "broken: b: the formula has no local 'b'"),
        ((_A,), (Parameter("c", ()),), "broken: c: write what it is drawn from"),
    ],
)
def test_an_op_that_cannot_be_drawn_is_told_why(
    inputs: tuple[Operand, ...], parameters: tuple[Parameter, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(a: Node, **rest: Node | None) -> Outputs:
        return {"y": a + 1.0}

    monkeypatch.setitem(ops.OPS, "broken", Op(broken, inputs, (_B,), parameters))
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        Search("broken", 1)
