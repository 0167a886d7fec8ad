"""The search: the same seed gives the same cases, and the cases go where kernels break."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from inspect import unwrap
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fuzz.core.base.case import Case
from fuzz.core.base.feature import Feature
from fuzz.core.base.kernel import capabilities_of
from fuzz.core.base.stream import Stream
from fuzz.core.generate.capabilities import out_of_capability
from fuzz.core.generate.coverage import Ledger
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.layouts import LAYOUT_CLASSES, OVERLAPPING
from fuzz.core.generate.menus import recipes
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Search, batches
from fuzz.core.generate.sketch import ROWS, N, Sketch, drawn_from
from fuzz.core.generate.space import space_of
from fuzz.core.generate.turn import Made
from fuzz.tests.common.examples import first_cases
from fuzz.tests.common.hunting import PACK
from oracles.dtypes import COMPUTED, ITEMSIZE
from oracles.ops import OPS

KERNELS = PACK.kernels


Drawn = Sequence[Made]


def _made(seed: int, count: int) -> list[Made]:
    return list(islice(chain.from_iterable(batches(Search("rms_norm", seed, KERNELS))), count))


def _cases(seed: int, count: int) -> list[Case]:
    return [made.case for made in _made(seed, count)]


@pytest.fixture(scope="module")
def made() -> Drawn:
    """What a search makes, in its order."""
    return _made(1, 4500)


@pytest.fixture(scope="module")
def drawn(made: Drawn) -> list[Case]:
    """Its cases."""
    return [each.case for each in made]


@pytest.fixture(scope="module")
def many(drawn: list[Case]) -> list[Case]:
    """Those that are neither big nor share memory, which have tests of their own."""
    apart = [case for case in drawn if case.apart]
    return [case for case in apart if not any(kind.kind == "big" for kind, _ in case.origin.labels)]


def _row_length(case: Case) -> int:
    return case.inputs["x"].layout.shape[int(case.params["axis"])]


def test_the_same_seed_gives_the_same_cases_in_the_same_order(drawn: list[Case]) -> None:
    first = [case.digest for case in drawn[:80]]
    assert first == [case.digest for case in _cases(1, 80)]
    assert first != [case.digest for case in _cases(8, 80)]


def test_what_else_is_imported_changes_no_case(
    drawn: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hypothesis by itself draws the constants of every module that is neither installed nor a test."""
    (tmp_path / "beside.py").write_text(f"NUMBERS = {[*range(101, 1024, 10)]}\n")
    spec = spec_from_file_location("beside", tmp_path / "beside.py")
    assert spec is not None
    monkeypatch.setitem(sys.modules, "beside", module_from_spec(spec))
    assert [case.digest for case in _cases(1, 256)] == [case.digest for case in drawn[:256]]


@pytest.mark.parametrize("entry", [None, lambda words: None])
def test_a_hypothesis_with_another_entry_for_fuzzers_costs_only_its_own_draws(
    entry: Callable[[bytes], object] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no public interface: where it is gone, or draws nothing, dice draw."""
    monkeypatch.setattr("fuzz.core.generate.sketch.given", lambda strategy: lambda test: _Given(entry))
    monkeypatch.setattr("fuzz.core.generate.sketch.settings", lambda **options: lambda test: test)
    capability = capabilities_of(KERNELS, "rms_norm")[0]
    draws = unwrap(drawn_from)(capability)
    drawn = [draws(Stream(seed)) for seed in range(64)]
    assert drawn == [draws(Stream(seed)) for seed in range(64)]
    assert len({(sketch.n, sketch.rows, sketch.recipe) for sketch in drawn}) > 48


@dataclass
class _Given:
    """What `given` returns, as another version may have it."""

    entry: Callable[[bytes], object] | None

    @property
    def hypothesis(self) -> SimpleNamespace:
        return SimpleNamespace(**({} if self.entry is None else {"fuzz_one_input": self.entry}))


def test_most_cases_differ(many: list[Case]) -> None:
    assert len({case.digest for case in many}) > 0.9 * len(many)


def test_the_search_steers_until_nothing_is_left_to_chance(drawn: list[Case]) -> None:
    ledger = Ledger(space_of(capabilities_of(KERNELS, "rms_norm")))
    for case in drawn:
        ledger.see(case.origin.labels)
    assert ledger.gaps() == {}


def test_the_ledger_counts_what_the_cases_really_are(many: list[Case]) -> None:
    """Labels are claims: they are checked against the tensors."""
    for case in many:
        x, labels = case.inputs["x"], set(case.origin.labels)
        n, rank = _row_length(case), len(x.layout.shape)
        if x.layout.size == 0:
            assert labels == {(Feature("dtype"), x.dtype), (N if n == 0 else ROWS, 0)}
            continue
        assert (N, n) in labels
        assert (Feature("axis"), (case.params["axis"], rank)) in labels
        assert (Feature("alignment", "x", operand=x.dtype), x.layout.alignment(ITEMSIZE[x.dtype])) in labels
        assert (Feature("alias"), ("y", "x") if case.outputs["y"].alias else "none") in labels
        assert ((Feature("tail", operand=48), n % 48) in labels) is (n > 48)


def test_empty_rows_and_no_rows_are_visited(many: list[Case]) -> None:
    shapes = [case.inputs["x"].layout.shape for case in many]
    assert any(_row_length(case) == 0 for case in many)
    assert any(0 in shape for shape in shapes)


def test_expanded_inputs_hold_what_their_memory_holds(many: list[Case]) -> None:
    seen = 0
    for case in many:
        x = case.inputs["x"]
        if 0 not in x.layout.strides or x.layout.size == 0 or case.origin.layout not in OVERLAPPING:
            continue
        values = np.frombuffer(x.bits, f"u{ITEMSIZE[x.dtype]}").reshape(x.layout.shape)
        for axis, stride in enumerate(x.layout.strides):
            if stride == 0:
                assert (values == values.take([0], axis=axis)).all()
                seen += 1
        assert case.outputs["y"].alias is None, "an output must not share its elements' memory"
    assert seen > 10


@pytest.mark.parametrize("block", [4, 8, 16, 32, 64])
def test_every_tail_of_every_block_is_visited_after_a_full_block(many: list[Case], block: int) -> None:
    assert {_row_length(case) % block for case in many if _row_length(case) > block} == set(range(block))


def test_model_widths_and_long_rows_are_visited(many: list[Case]) -> None:
    lengths = {_row_length(case) for case in many}
    assert any(abs(n - 4096) <= 2 for n in lengths)
    assert max(lengths) > 30_000


def test_every_recipe_eps_dtype_layout_and_alignment_is_visited(many: list[Case]) -> None:
    assert {case.origin.recipe for case in many} == set(recipes())
    assert {case.params["eps"] for case in many} == set(OPS["rms_norm"].parameter("eps").values)
    assert {case.inputs["x"].dtype for case in many} == set(COMPUTED), "dtypes that no kernel takes, to be rejected"
    assert {case.origin.layout for case in many} == set(LAYOUT_CLASSES)
    f32 = Counter(case.inputs["x"].layout.alignment(4) for case in many if case.inputs["x"].dtype == "f32")
    assert set(f32) == set(range(0, 64, 4))


@pytest.mark.whole
def test_some_cases_are_in_place_and_some_normalise_another_axis(many: list[Case]) -> None:
    assert {case.outputs["y"].alias for case in many} == {None, "x"}
    assert any(case.params["axis"] != len(case.inputs["x"].layout.shape) - 1 for case in many)


def test_what_a_kernel_promises_to_reject_is_given_to_it_in_every_way(drawn: list[Case]) -> None:
    strict = [capability for capability in capabilities_of(KERNELS, "rms_norm") if capability.able.outside == "rejects"]
    refused = [{each.refusal(case) for case in drawn if each.is_dispatched(case)} - {None} for each in strict]
    kinds = {re.sub(r"^\w+: | \w*\d+$| \(.*\)$", "", reason or "") for reason in set.union(*refused)}
    assert kinds >= {"dtype", "strides", "axis is not the last", "rank", "y overlapping x"}
    plain = next(capability for capability in strict if not capability.able.takes)
    llama = next(capability for capability in strict if capability.able.takes and not capability.able.stacked)
    assert {"x: dtype f64", "x: dtype bf16", "y: dtype f64"} < refused[strict.index(plain)]
    assert {"x: dtype f64", "weight: dtype f64", "rstd: dtype f16", "weight: rank 2"} < refused[strict.index(llama)]


@pytest.mark.some(1)
@pytest.mark.parametrize("op", ["rms_norm_backward", "fused_add_rms_norm_backward"])
def test_weights_of_rank_2_are_given_to_gradients_that_must_reject_them_and_to_no_other(op: str) -> None:
    capabilities = capabilities_of(KERNELS, op)
    strict = [capability for capability in capabilities if capability.able.outside == "rejects"]
    only = [
        each for each in out_of_capability(capabilities) if replace(each.able, stacked=()) in [s.able for s in strict]
    ]
    assert len(only) == len(strict) > 0
    for capability in only:
        sketches = [Sketch(capability, 9, 6, 3, 2, False, {"eps": 1e-5}, "normal", seed) for seed in range(40)]
        drawn = [realise(draw_from(sketch)) for sketch in sketches]
        stacked = [case for case in drawn if "weight" in case.inputs and len(case.inputs["weight"].layout.shape) == 2]
        assert {case.inputs["weight"].layout.shape[0] for case in stacked} == {1, 3}
        for case in stacked:
            given = {each: each.refusal(case) for each in capabilities if each.is_dispatched(case)}
            assert "weight: rank 2" in given.values()
            assert {*given} <= {*strict}
            assert None not in given.values()


def test_without_kernels_gradients_get_only_weights_that_the_oracle_takes() -> None:
    seen = first_cases("rms_norm_backward", 1, count=200)
    assert {len(case.inputs["weight"].layout.shape) for case in seen if "weight" in case.inputs} == {1}


def test_most_cases_are_small_and_some_are_large(many: list[Case]) -> None:
    """Time goes to many cases. A thin tail has long rows, and short rows are many in some."""
    sizes = sorted(case.inputs["x"].layout.size for case in many)
    assert sizes[len(sizes) // 2] < 1200
    assert sizes[len(sizes) * 9 // 10] < 5000
    assert 0.03 < sum(size > 4096 for size in sizes) / len(sizes) < 0.15
    rows = [case.inputs["x"].layout.size // max(_row_length(case), 1) for case in many]
    assert sum(count > 1 for count in rows) > 0.45 * len(many)
    assert sum(count > 4 for count in rows) > 0.08 * len(many)


@pytest.mark.whole
def test_every_capability_gets_its_share_of_the_cases(made: Drawn) -> None:
    """Alike, however many kernels declare it: what nobody asked for is not drawn at all."""
    search = Search("rms_norm", 1, KERNELS)
    assert len(search.capabilities) > 8
    turns = Counter(search.capability(turn) for turn in islice(search.turns(), 64 * 3))
    assert max(turns.values()) - min(turns.values()) <= 3  # one in each round of all shards
    own = Counter(each.capability for each in made if each.capability in search.capabilities)
    assert min(own.values()) > 0.8 * max(own.values())
