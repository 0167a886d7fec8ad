"""What cannot be read is held against a replay in float64, if one asks for it."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fuzz
from fuzz.findings.tally import Decided, never_decided, note_open
from fuzz.references.asked import Shown
from fuzz.references.replay.cases import Came, spans_of
from fuzz.references.replay.oracle import ReplayFailure, compared, judged_in
from fuzz.references.replay.recipe import Span
from fuzz.references.rerun import Replayed, draws_at_random, replayed, ways_of
from fuzz.report.events import EVENTS
from fuzz.tests.common.told import fails
from oracles.tests.common.whole import quarter

pytestmark = pytest.mark.usefixtures("quick_checks")


def clipped(x: Any) -> Any:
    """A value decides what it does."""
    size = x.norm()
    return x / size if size > 1 else x


def mine(rows: Any) -> Any:
    return rows / max(1.0, float(rows.square().sum().sqrt()))


def always(x: Any) -> Any:
    return x / x.norm()


def test_a_refusal_names_the_replay_which_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        fuzz.CheckError, match=r'a value decides what it does.*; oracle="replay" compares a kernel with'
    ):
        fuzz.check(mine, reference=clipped, shapes="x=b n")
    fuzz.check(mine, reference=clipped, shapes="x=b n", oracle="replay", max_cases=12, seed=1)
    said = capsys.readouterr().err
    assert "mine passed a replay: 12 cases, " in said
    assert "oracle: replay, weaker than a formula: errors below what 12 replays" in said
    with fails("whole") as caught:
        fuzz.check(always, reference=clipped, shapes="x=b n", oracle="replay", max_cases=12, seed=1, name="whole")
    assert "oracle: replay, weaker than a formula" in str(caught.value)
    [failure] = caught.value.failures
    assert isinstance(failure, ReplayFailure)
    assert failure.record["place"].startswith("y[")


def test_a_case_that_nothing_could_judge_again_is_neither_kept_nor_told_to_programs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EVENTS, "1")
    with fails("always"):
        fuzz.check(always, reference=clipped, shapes="x=b n", oracle="replay", max_cases=12, seed=1)
    assert not [*tmp_path.rglob("*.json")]
    assert '"event"' not in capfd.readouterr().err


def test_an_extent_may_follow_from_another_one() -> None:
    def scaled(x: Any, w: Any) -> Any:
        y = x[:, : w.shape[0]] * w
        return y / y.norm() if y.norm() > 1 else y

    def near(x: Any, w: Any) -> Any:
        y = x.chunk(2, -1)[0] * w
        return y / max(1.0, float(y.square().sum().sqrt()))

    fuzz.check(near, reference=scaled, shapes="x=b n, w=n/2", oracle="replay", max_cases=6, seed=1)


def test_what_is_no_output_of_the_reference_is_said() -> None:
    def told(kernel: Any) -> str:
        with pytest.raises(fuzz.CheckFailed) as caught:
            fuzz.check(kernel, reference=clipped, shapes="x=b n", oracle="replay", max_cases=2, seed=1)
        return str(caught.value).splitlines()[0]

    assert "FAIL_SHAPE: the shape of y is " in told(lambda x: mine(x)[:, :0])
    assert "returned 2 outputs, where the reference has 1" in told(lambda x: (mine(x), x))
    assert "ValueError: none of this" in told(lambda x: (_ for _ in ()).throw(ValueError("none of this")))


def test_a_function_that_changes_its_input_is_wrong_by_a_replay_too() -> None:
    """The values that it returns are right."""

    def halved(x: Any) -> Any:
        found = mine(x)
        x *= 0.5
        return found

    with pytest.raises(fuzz.CheckFailed, match="FAIL_INPUT_MODIFIED: changed "):
        fuzz.check(halved, reference=clipped, shapes="x=b n", oracle="replay", max_cases=4, seed=1)


def test_what_a_replay_does_not_judge_is_refused() -> None:
    with pytest.raises(fuzz.CheckError, match="a plain function is held against a reference"):
        fuzz.check(mine, op="softmax", oracle="replay")
    with pytest.raises(fuzz.CheckError, match="without op and contract"):
        fuzz.check(mine, reference=clipped, contract=fuzz.Contract(), oracle="replay")
    with pytest.raises(fuzz.CheckError, match="oracle='reply': it is 'formula' or 'replay'"):
        fuzz.check(mine, reference=clipped, oracle="reply")  # type: ignore[arg-type]
    able = fuzz.Capabilities(dtypes=("e4m3fn",))
    with pytest.raises(fuzz.CheckError, match="tensors of e4m3fn are not compared with a replay"):
        fuzz.check(mine, reference=clipped, shapes="x=b n", oracle="replay", capabilities=able)
    with pytest.raises(fuzz.CheckFailed, match="NOTHING WAS JUDGED"):
        fuzz.check(lambda x: x, reference=lambda x: x * float("nan"), oracle="replay", max_cases=2, seed=1)


@pytest.mark.whole
def test_equal_elements_have_the_places_that_are_documented_and_any_where_none_are() -> None:
    def largest(x: Any) -> Any:
        return tuple(torch.topk(x, 2, -1))

    def stable(x: Any) -> Any:
        values, places = torch.sort(x, dim=-1, descending=True, stable=True)
        return values[..., :2], places[..., :2]

    fuzz.check(stable, reference=largest, shapes="x=... n", oracle="replay", max_cases=quarter(40), seed=1)
    with pytest.raises(fuzz.CheckFailed, match="must be 0"):
        fuzz.check(last, reference=first, shapes="x=b n", oracle="replay", max_cases=quarter(40), seed=1)


@pytest.mark.usefixtures("unexplained")
def test_of_equal_elements_the_first_one_is_meant_where_torch_documents_it() -> None:
    fuzz.check(first, reference=first, shapes="x=b n", max_cases=quarter(40), seed=1)
    with pytest.raises(fuzz.CheckFailed, match=r"y\[.*must be "):
        fuzz.check(last, reference=first, shapes="x=b n", max_cases=quarter(40), seed=1)


@pytest.mark.whole
@pytest.mark.usefixtures("unexplained")
def test_any_of_them_is_right_where_the_contract_says_so_and_places_beside_values_are_judged_alike() -> None:
    def greatest(x: Any) -> Any:
        return torch.max(x, -1)

    fuzz.check(last, reference=first, shapes="x=b n", max_cases=quarter(40), seed=1, contract={"ties": "either"})
    with pytest.raises(fuzz.CheckFailed, match=r"indices\["):
        fuzz.check(
            lambda x: (x.max(-1).values, last(x)), reference=greatest, shapes="x=b n", max_cases=quarter(40), seed=1
        )


def first(x: Any) -> Any:
    return torch.argmax(x, -1)


def last(x: Any) -> Any:
    return x.shape[-1] - 1 - torch.argmax(x.flip(-1), -1)


def floored(a: Any, b: Any) -> Any:
    return torch.where(b == 0, 0, torch.div(a, torch.where(b == 0, 1, b), rounding_mode="floor"))


def floors(a: Any, b: Any) -> Any:
    d = np.where(b == 0, 1, b).astype(np.int32)
    return np.where(b == 0, 0, np.floor_divide(a, d)).astype(a.dtype)


def truncates(a: Any, b: Any) -> Any:
    d = np.where(b == 0, 1, b).astype(np.int32)
    return np.where(b == 0, 0, np.trunc(a / d)).astype(a.dtype)


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", range(1, 6))
def test_integers_of_8_bits_are_drawn_over_all_that_the_dtype_has(seed: int) -> None:
    given = [torch.tensor([[-7, 5, 3]], dtype=torch.int8), torch.tensor([[2, -3, 1]], dtype=torch.int8)]

    def check(kernel: Any) -> None:
        fuzz.check(
            kernel, reference=floored, example_inputs=given, arrays="numpy", oracle="replay", seed=seed, max_cases=3
        )

    check(floors)
    with fails("truncates"):
        check(truncates)


def test_integers_are_drawn_over_the_widest_range_that_the_reference_takes(capsys: pytest.CaptureFixture[str]) -> None:
    def divided(x: Any, a: Any, b: Any, at: Any) -> Any:
        return x[at.long()] * (1 if x.sum() > 0 else 0) + (a // b).sum()

    def told(kernel: Any, dtype: Any) -> str:
        a, b = torch.tensor([-70000 if dtype == torch.int32 else -5, 3]), torch.tensor([2, -1])
        fuzz.check(
            kernel, reference=divided, oracle="replay", max_cases=4, seed=1,
            example_inputs=[torch.randn(3), a.to(dtype), b.to(dtype), torch.tensor([1, 0, 2], dtype=torch.int8)],
        )  # fmt: skip
        return next(line for line in capsys.readouterr().err.splitlines() if "never drawn" in line)

    wide, narrow = told(divided, torch.int32), told(divided, torch.int8)
    for said in (wide, narrow):
        assert "; negative at; " in said  # it raises for what is no place; for b it takes all but 0
        assert "at outside 0 to " in said


def test_spans_follow_from_the_dtype_and_from_what_examples_show() -> None:
    assert spans_of("uint8", None)[0] == Span(0, 255)
    assert spans_of("int64", None) == spans_of("int64", Shown(0, 2, True)) == [Span(0), Span(1)]
    assert spans_of("int32", Shown(0, 900, False))[0] == Span(0, 2**31 - 1)
    assert spans_of("int64", Shown(-3, 2, False))[0] == Span(-(2**53), 2**53)
    assert spans_of("int8", Shown(0, 1, True)) == [Span(0, 1)]


def test_what_was_never_drawn_is_one_line() -> None:
    came = Came()
    came.note({"x": np.array([1.0, 1e4]), "a": np.array([0, 62], np.int8), "b": np.array([-128, 127], np.int8)}, "f32")
    assert came.never(("f32", "f64")) == (
        "never drawn: f64; NaN, infinities; negative x, a; a outside 0 to 62; magnitudes outside 1.0e+00 to 1.0e+04; "
        "extents outside 2 to 2"
    )
    came.note({"x": np.array([-np.inf, np.nan])}, "f64")
    assert came.never(("f32", "f64")).startswith("never drawn: negative a; a outside 0 to 62; ")


@pytest.mark.parametrize("kernel", [torch.zeros_like, torch.clone])
def test_a_function_that_draws_at_random_is_refused(kernel: Any) -> None:
    def dropped(x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.5, True)

    def noised(x: Any) -> Any:
        return x + torch.from_numpy(np.random.normal(size=tuple(x.shape)))

    for reference in (dropped, noised):
        with pytest.raises(fuzz.CheckError, match=f"reference {reference.__name__} draws at random, so no result"):
            fuzz.check(kernel, reference=reference, shapes="x=b n", oracle="replay", max_cases=8, seed=1)


def test_generators_go_on_as_if_nothing_had_been_drawn() -> None:
    def noised(x: Any) -> Any:
        return x + torch.rand(x.shape) + float(np.random.random()) + random.random()

    torch.manual_seed(1)
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index]
    assert draws_at_random(ways_of(noised), {"x": np.ones(3)})
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # type: ignore[index]


def test_a_function_that_draws_what_it_does_not_use_is_no_random_one() -> None:
    def kept(x: Any) -> Any:
        torch.rand(3)
        return torch.nn.functional.dropout(x, 0.5, False) * (2 if x.sum() > 0 else 1)

    fuzz.check(kept, reference=kept, shapes="x=b n", oracle="replay", max_cases=2, seed=1)


def test_integers_are_compared_exactly() -> None:
    def numbered(x: Any) -> Any:
        return (x * 0).long() + 5_000_000 * (1 if x.sum() > 0 else 2)

    with fails():
        fuzz.check(lambda x: numbered(x) + 1, reference=numbered, shapes="x=b n", oracle="replay", max_cases=4, seed=1)


def routed(x: Any) -> Any:
    return torch.topk(x, 3, -1)


def routed_from_the_end(x: Any) -> Any:
    values, places = torch.sort(x.flip(-1), dim=-1, descending=True, stable=True)
    return values[..., :3], (x.shape[-1] - 1 - places)[..., :3].int()


def same_place_twice(x: Any) -> Any:
    values, places = torch.topk(x, 3, -1)
    return values, places[..., [0, 0, 2]]


def no_place(x: Any) -> Any:
    values, places = torch.topk(x, 3, -1)
    return values, torch.where(values == values[..., :1], -1, places)


def best(x: Any) -> Any:
    return x.argmax(-1)


def best_from_the_end(x: Any) -> Any:
    return x.shape[-1] - 1 - x.flip(-1).argmax(-1)


def settled(x: Any) -> Any:
    return torch.argsort(x, dim=-1, stable=True)


def settled_from_the_end(x: Any) -> Any:
    return x.shape[-1] - 1 - torch.argsort(x.flip(-1), dim=-1, stable=True)


def softest(x: Any) -> Any:
    return torch.softmax(x, -1).argmax(-1)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "kernel"),
    [(routed, routed_from_the_end), (best, best), (settled, settled), (softest, best_from_the_end),
     (lambda x: torch.argsort(x, -1), settled_from_the_end)],
)  # fmt: skip
def test_any_place_of_equal_elements_is_right_unless_one_is_documented(reference: Any, kernel: Any) -> None:
    fuzz.check(kernel, reference=reference, shapes="x=b n", oracle="replay", max_cases=quarter(24), seed=1)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("reference", "kernel"),
    [(best, best_from_the_end), (settled, settled_from_the_end), (routed, same_place_twice), (routed, no_place)],
)
def test_a_place_that_is_another_one_is_found(reference: Any, kernel: Any) -> None:
    with fails() as caught:
        fuzz.check(kernel, reference=reference, shapes="x=b n", oracle="replay", max_cases=quarter(24), seed=1)
    [failure] = caught.value.failures
    assert isinstance(failure, ReplayFailure)
    told = failure.record
    assert re.fullmatch(r"y\d?\[.*\] -?\d+ \d+", f"{told['place']} {told['got']} {told['expected']}")


def test_a_reference_without_return_is_told_so() -> None:
    """It said that no element of 100 cases is decided."""

    def unfinished(x: Any) -> None:
        x * 2

    with pytest.raises(fuzz.CheckError, match="it returns None: end it with `return`"):
        fuzz.check(lambda x: x * 2, reference=unfinished, shapes="x=... n", oracle="replay")


def _lower(a: Any) -> Any:
    return torch.linalg.inv(a) if bool((a.diagonal() != 0).all()) else a


def _upper_ignored(a: Any) -> Any:
    return _lower(torch.tril(a))


def test_what_examples_always_are_is_kept_by_a_replay_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    given: Any = {"reference": _lower, "example_inputs": (torch.rand(12, 12).tril() + torch.eye(12),), "max_cases": 8}
    fuzz.check(_upper_ignored, oracle="replay", seed=1, **given)
    told = " ".join(capsys.readouterr().err.split())
    assert "kept as in the examples: a lower triangular; any_values=True tries others" in told
    with fails():
        fuzz.check(_upper_ignored, oracle="replay", any_values=True, seed=1, **given)


@pytest.mark.parametrize(
    ("exact", "got", "is_wrong"),
    [(2.2337e-5, 2.2352e-5, False), (2.2337e-5, 2.2411e-5, True), (7e4, np.inf, False), (6e4, np.inf, True)],
)
def test_subnormal_numbers_and_overflow_of_16_bits_are_no_errors(exact: float, got: float, is_wrong: bool) -> None:
    """The spacing of subnormal numbers of f16 was ignored, and so was the largest number."""
    one = Replayed(np.array([exact]), np.zeros(1))
    assert bool(compared([one], [np.array([got])], "f16").wrong) == is_wrong


def test_an_output_that_one_dtype_never_decides_is_named_with_it() -> None:
    one, none = Replayed(np.ones(2), np.zeros(2)), Replayed(np.ones(2), np.full(2, np.nan))
    open_ = {("y", "f16"): int(not judged_in(one, "f16")), ("z", "f16"): int(not judged_in(none, "f16"))}
    decided: Decided = {("z", "f32"): 0}
    for _ in range(4):
        note_open(decided, open_)
    assert never_decided(decided) == ["z in f16"]


def descending(x: Any) -> Any:
    return torch.sort(x, -1, descending=True)


def best_of_each(x: Any) -> Any:
    return x.amin(-1), torch.max(x, -1).indices, *torch.topk(x, 2, -1)


def _sorted(rows: Any, *, nan_last: bool = False) -> Any:
    places = np.argsort(np.where(np.isnan(rows), -np.inf if nan_last else np.inf, rows), -1)[:, ::-1]
    if not nan_last:  # NaN before infinity
        places = np.stack([np.concatenate([at[np.isnan(row[at])], at[~np.isnan(row[at])]])
                           for row, at in zip(rows, places, strict=True)])  # fmt: skip
    return np.take_along_axis(rows, places, -1), places.copy()


def _best(rows: Any, *, least: Any = np.min, most: Any = np.argmax) -> Any:
    values, places = _sorted(rows)
    return least(rows, -1), most(rows, -1), values[:, :2], places[:, :2]


ROWS = np.array([[1.0, np.nan, 3.0, -np.inf], [np.inf, 2.0, 2.0, np.nan], [np.nan, np.inf, np.nan, 0.0], [4, 3, 1, 2]])


@pytest.mark.parametrize(
    ("reference", "kernel", "said"),
    [
        (descending, _sorted, ""),
        (descending, partial(_sorted, nan_last=True), "output 0[0, 0] = 3, must be nan;"),
        (best_of_each, _best, ""),
        (best_of_each, partial(_best, least=np.nanmin), "output 0[0] = -inf, must be nan;"),
        (best_of_each, partial(_best, most=np.nanargmax), "output 1[0] = 2, must be 1;"),
    ],
)
def test_nan_has_its_place_in_an_order(reference: Any, kernel: Any, said: str) -> None:
    wanted, returned = replayed(ways_of(reference), {"x": ROWS}), kernel(ROWS)
    found = compared(wanted, [*map(np.asarray, returned)], "f32")
    assert said in found.wrong if said else not found.wrong
    assert found.judged == sum(each.value.size for each in wanted) or said


def test_a_layer_is_replayed_at_the_extents_of_its_weights() -> None:
    """In float64 it was called with weights of f32, which it refuses: nothing was judged."""
    layer = torch.nn.Linear(32, 16)
    weight, bias = layer.weight.detach(), layer.bias.detach()
    given: Any = {"reference": layer, "example_inputs": [torch.randn(4, 32)], "oracle": "replay", "seed": 1}
    fuzz.check(lambda x: x @ weight.T + bias, max_cases=6, **given)
    with pytest.raises(fuzz.CheckFailed, match="wrong values"):
        fuzz.check(lambda x: x @ weight.T, max_cases=6, **given)
