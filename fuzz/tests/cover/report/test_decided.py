"""Nothing decided is nothing passed: each output needs an element at which a wrong value could have been seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fuzz
from fuzz.core.base.exits import Exit
from fuzz.findings.tally import Tally, TargetTally
from fuzz.report.totals import remarks
from fuzz.report.use_outcome import outcome_of
from fuzz.tests.common.references import softmax


def never(x: Any) -> Any:
    return torch.log(-1 - x * x)


def beyond(x: Any) -> Any:
    return torch.exp(x * x + 200)


def poisoned(x: Any) -> Any:
    return x * float("nan")


def half_dead(x: Any) -> Any:
    return 2 * x, torch.log(-1 - x * x)


def flag_of_nan(x: Any) -> Any:
    return torch.log(-1 - x * x) > 0


def steep(x: Any) -> Any:
    """It overflows for half of its arguments."""
    return torch.exp(1000 * x)


def threes(x: Any) -> Any:
    return torch.full_like(x, 3)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("kernel", "reference", "output"),
    [
        (threes, never, "y"),
        (threes, beyond, "y"),
        (threes, poisoned, "y"),
        (lambda x: (2 * x, threes(x)), half_dead, "y1"),
        (lambda x: x > 0, flag_of_nan, "y"),
        (never, never, "y"),
    ],
)
def test_an_output_of_which_nothing_is_decided_does_not_pass(
    kernel: Callable[..., Any], reference: Callable[..., Any], output: str
) -> None:
    with pytest.raises(fuzz.CheckFailed, match=rf"^NOT DECIDED: .*: no wrong value of {output} could have been seen: "):
        fuzz.check(kernel, reference=reference, shapes="x=... n", max_cases=8, seed=1)


def test_what_is_nan_where_that_is_demanded_is_decided() -> None:
    fuzz.check(never, reference=never, shapes="x=... n", max_cases=8, seed=1, values="any")


def test_what_is_decided_in_part_passes() -> None:
    fuzz.check(steep, reference=steep, shapes="x=... n", max_cases=8, seed=1)
    fuzz.check(softmax, reference=softmax, shapes="x=... n", max_cases=8, seed=1)


def test_a_replay_decides_on_each_output() -> None:
    def twice_and_nan(x: Any) -> Any:
        return 2 * x, x * float("nan")

    with pytest.raises(fuzz.CheckFailed, match=r"^NOTHING WAS JUDGED of y1: no element of y1 in 4 cases"):
        fuzz.check(twice_and_nan, reference=twice_and_nan, shapes="x=b n", oracle="replay", max_cases=4, seed=1)


def test_an_output_is_decided_by_any_target_in_any_part_of_a_run() -> None:
    first, later = (
        Tally({name: TargetTally(name, "mine", judged=1, decided=decided) for name, decided in parts.items()})
        for parts in (
            {"a": {("y", "f32"): 1, ("z", "f32"): 1}, "b": {("y", "f32"): 1}},
            {"a": {("y", "f32"): 0}},
        )
    )
    assert outcome_of(first).code is Exit.ORACLE_GAVE_UP
    assert remarks(outcome_of(first))[0].startswith("mine: no wrong value of y and z could have been seen: ")
    first.add(later)
    assert outcome_of(first).record["never_decided"] == {"mine": ["z"]}
    later.add(Tally({"b": TargetTally("b", "mine", decided={("z", "f32"): 0})}))
    first.add(later)
    assert outcome_of(first).passed


def test_an_output_is_decided_in_each_dtype_that_had_some_cases() -> None:
    """A few cases may all be NaN by chance; more of them say that the dtype is dead."""
    for cases, never in ((3, {}), (4, {"mine": ["y in f16"]})):
        decided = {("y", "f32"): 0, ("y", "f16"): cases}
        assert outcome_of(Tally({"a": TargetTally("a", "mine", judged=1, decided=decided)})).record[
            "never_decided"
        ] == (never)


def too_large_for_f16(x: Any) -> Any:
    return x.abs() + 1e5


def test_a_dtype_in_which_nothing_is_decided_does_not_pass() -> None:
    def checked(function: Callable[[Any], Any]) -> None:
        capabilities = fuzz.Capabilities(dtypes=("f32", "f16"))
        fuzz.check(
            function, reference=function, shapes="x=... n", max_cases=40, seed=1, capabilities=capabilities,
        )  # fmt: skip

    with pytest.raises(fuzz.CheckFailed, match=r"^NOT DECIDED: .*: no wrong value of y in f16 could have been seen: "):
        checked(too_large_for_f16)
    checked(softmax)
