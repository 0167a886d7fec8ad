"""Kernels of convolutions and pools are held against torch's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fuzz
from fuzz.core.base.verdict import Verdict
from fuzz.tests.common.told import fails
from oracles import escalation
from oracles.tests.common.whole import quarter

F = torch.nn.functional


pytestmark = pytest.mark.usefixtures("quick_checks")


def conv(x: Any, w: Any, b: Any) -> Any:
    return F.conv1d(x, w, b, stride=2, padding=1)


def emphasis(x: Any) -> Any:
    return torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)


def test_extents_that_leave_a_step_without_terms_are_told_as_never_run(capsys: pytest.CaptureFixture[str]) -> None:
    fuzz.check(emphasis, reference=emphasis, shapes="x=b t", max_cases=4)
    assert "autograd, t < 2\n" in capsys.readouterr().err
    fuzz.check(conv, reference=conv, shapes="x=b c n, w=m c k, k=3, b=m", max_cases=4)
    assert " < " not in capsys.readouterr().err.partition("never ran")[2].partition("\n")[0], "n = 1 is padded, and ran"


def _unfolded(
    x: Any, w: Any, b: Any, *, pad: tuple[int, int] = (1, 1), step: int = 2, channels: int | None = None
) -> Any:
    """A product of matrices, of what lies in each window."""
    windows = F.pad(x, pad).unfold(2, w.shape[2], 1)[:, :, ::2]
    if step != 2:  # all but the first two windows one place too early
        places = torch.clamp(torch.arange(windows.shape[2]) * 2 - (torch.arange(windows.shape[2]) > 1).long(), min=0)
        windows = F.pad(x, pad).unfold(2, w.shape[2], 1)[:, :, places]
    c = x.shape[1] if channels is None else channels
    return torch.einsum("bcok,mck->bmo", windows[:, :c], w[:, :c]) + b[:, None]


def one_place_off(x: Any, w: Any, b: Any) -> Any:
    return _unfolded(x, w, b, pad=(0, 2))


def step_forgotten(x: Any, w: Any, b: Any) -> Any:
    return _unfolded(x, w, b, step=1)


def tail_dropped(x: Any, w: Any, b: Any) -> Any:
    c = x.shape[1]
    return _unfolded(x, w, b, channels=c // 4 * 4 if c > 4 else c)


def pool(x: Any) -> Any:
    return F.max_pool1d(x, 3, stride=2, padding=1)


def pool_with_zeros(x: Any) -> Any:
    """Outside there is a zero, which is larger than what is negative."""
    return F.pad(x, (1, 1)).unfold(2, 3, 2).amax(-1)


def _check(
    kernel: Callable[..., Any], reference: Callable[..., Any], shapes: str, max_cases: int = quarter(24)
) -> None:
    fuzz.check(kernel, reference=reference, shapes=shapes, max_cases=max_cases, seed=1)


CONV = "x=b c n, w=m c k, b=m"


def pool_by_windows(x: Any) -> Any:
    return F.pad(x, (1, 1), value=-torch.inf).unfold(2, 3, 2).amax(-1)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("kernel", "reference", "shapes"),
    [(conv, conv, CONV), (_unfolded, conv, CONV), (pool_by_windows, pool, "x=b c n")],
    ids=["conv", "unfolded", "pool"],
)
def test_what_computes_the_same_passes(kernel: Callable[..., Any], reference: Callable[..., Any], shapes: str) -> None:
    _check(kernel, reference, shapes)


@pytest.mark.whole
@pytest.mark.parametrize("kernel", [one_place_off, step_forgotten, tail_dropped], ids=lambda each: each.__name__)
def test_a_wrong_window_is_found(kernel: Callable[..., Any]) -> None:
    with fails(kernel.__name__):
        _check(kernel, conv, CONV, max_cases=quarter(24))


@pytest.mark.whole
def test_what_lies_outside_is_found() -> None:
    with fails("pool_with_zeros"):
        _check(pool_with_zeros, pool, "x=b c n")


def between_ends(x: Any) -> Any:
    return F.interpolate(x, scale_factor=2, mode="linear", align_corners=True)


def by_shares(x: Any, *, more: int = 1) -> Any:
    """Between the elements on both sides of each place."""
    n = x.shape[-1]
    place = torch.arange(2 * n) * ((n - 1) / (2 * n - more))
    low = place.floor().long().clamp(max=n - 1)
    share = place - low
    return (1.0 - share) * x[..., low] + share * x[..., (low + 1).clamp(max=n - 1)]


def steps_miscounted(x: Any) -> Any:
    return by_shares(x, more=0)


@pytest.mark.whole
@pytest.mark.parametrize("kernel", [by_shares, between_ends], ids=lambda each: each.__name__)
def test_places_between_ends_pass_however_they_are_rounded(kernel: Callable[..., Any]) -> None:
    _check(kernel, between_ends, "x=b c n", max_cases=8)


@pytest.mark.whole
def test_a_wrong_number_of_steps_between_ends_is_found() -> None:
    with fails():
        _check(steps_miscounted, between_ends, "x=b c n", max_cases=8)


def tripled(x: Any) -> Any:
    return F.interpolate(x, scale_factor=3, mode="bilinear")


def by_rows_and_columns(x: Any) -> Any:
    for _ in range(2):
        n = x.shape[-2]
        place = ((torch.arange(3 * n) + 0.5) / 3 - 0.5).clamp(min=0)
        low, share = place.floor().long(), (place - place.floor())[:, None]
        x = ((1.0 - share) * x[..., low, :] + share * x[..., (low + 1).clamp(max=n - 1), :]).transpose(-1, -2)
    return x


@pytest.mark.whole
def test_a_resize_of_planes_asks_for_many_digits_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third place is that of an element, whose neighbours have a share of 0 there, at a tie."""

    def never(step: escalation.PreciseProgress) -> None:
        raise AssertionError(step.words)

    monkeypatch.setattr(escalation, "watch", never)
    _check(by_rows_and_columns, tripled, "x=b c h v", max_cases=2)


PLACES: dict[str, Callable[[Any, int], Any]] = {
    "circular": lambda place, n: place % n,
    "replicate": lambda place, n: place.clamp(0, n - 1),
    "reflect": lambda place, n: n - 1 - (n - 1 - place.abs()).abs(),
    "the edge too": lambda place, n: torch.where(
        place < 0, -1 - place, torch.where(place < n, place, 2 * n - 1 - place)
    ),
    "one place on": lambda place, n: (place + 1) % n,
}


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("mode", "wrong"),
    [("reflect", "the edge too"), ("replicate", "one place on"), ("circular", "one place on"), ("reflect", "circular"),
     ("circular", "replicate"), ("replicate", "the edge too")],
)  # fmt: skip
def test_padding_by_elements_is_told_from_padding_by_others(mode: str, wrong: str) -> None:
    def padded(x: Any) -> Any:
        return F.pad(x, (2, 1), mode=mode)

    def at_places(x: Any, which: str = mode) -> Any:
        n = x.shape[-1]
        return x[..., PLACES[which](torch.arange(-2, n + 1), n)]

    def at_others(x: Any) -> Any:
        return at_places(x, wrong)

    _check(at_places, padded, "x=b c n", max_cases=6)
    with fails("at_others", Verdict.FAIL_NUMERIC, Verdict.CRASH):
        _check(at_others, padded, "x=b c n", max_cases=quarter(24))


def _stored(cache: Any, key: Any, slot: Any) -> Any:
    """Return a cache with rows of keys at slots."""
    return cache.index_copy(0, slot, key)


def test_a_store_may_keep_another_of_several_rows_each_time() -> None:
    calls = list[int]()

    def stored(cache: Any, key: Any, slot: Any) -> Any:
        calls.append(len(calls))
        order = torch.arange(len(slot)) if len(calls) % 2 else torch.arange(len(slot)).flip(0)
        found = cache.clone()
        for at in order.tolist():
            found[slot[at]] = key[at]
        return found

    fuzz.check(stored, reference=_stored, shapes="cache=s d, key=t d, slot=t", max_cases=quarter(60), seed=1)


def test_a_store_that_adds_must_return_the_same_each_time() -> None:
    calls = list[int]()

    def added(cache: Any, key: Any, slot: Any) -> Any:
        calls.append(len(calls))
        return cache.index_add(0, slot, key) * (1.0 + len(calls) % 2 * 2.0**-23)

    with pytest.raises(fuzz.CheckFailed, match="rerun"):
        fuzz.check(
            added, reference=lambda cache, key, slot: cache.index_add(0, slot, key),
            shapes="cache=s d, key=t d, slot=t", max_cases=quarter(60), seed=1,
        )  # fmt: skip
