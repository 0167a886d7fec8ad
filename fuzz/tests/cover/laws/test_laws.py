"""Every law holds for an honest kernel on every case it applies to, and is broken by a kernel that breaks it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fuzz.core.base.case import CACHE_LINE, Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.dtypes import from_bits
from fuzz.core.base.probe import unprobed
from fuzz.core.base.validity import check_case
from fuzz.core.laws.law import LawCheck, first_difference
from fuzz.core.laws.placement import distinct
from fuzz.core.laws.registry import LAWS, ONE_IN, with_twins
from fuzz.tests.cover.laws.conftest import honest, nudged
from oracles.dtypes import ITEMSIZE
from oracles.ops import OPS


def _check(name: str, case: Case) -> LawCheck:
    return LawCheck(LAWS[name], int(case.digest[:16], 16))


def _case(values: object, eps: float = 1e-5, dtype: str = "f32", layout: Layout | None = None) -> Case:
    x = np.asarray(values, {"f32": "<f4", "f16": "<f2"}[dtype])
    place = layout or contiguous(x.shape)
    params = {"axis": x.ndim - 1, "eps": float(np.float32(eps))}
    y = Output(dtype, contiguous(x.shape))
    return Case("rms_norm", params, {"x": Tensor(dtype, place, x.tobytes())}, {"y": y})


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "name", [name for name, law in LAWS.items() if law.probe is None and law.suits(OPS["rms_norm"])]
)
def test_an_honest_kernel_keeps_the_law_wherever_it_applies(some_cases: list[Case], name: str) -> None:
    applied = 0
    for case in some_cases:
        if not LAWS[name].applies(case) or applied >= 150:
            continue
        applied += 1
        check = _check(name, case)
        twin = check.twin(case)
        check_case(twin)
        assert twin == check.twin(case)
        if name == "threads":
            assert twin == replace(case, params={**case.params, "threads": 2})
        if name != "row_permutation":  # which has nothing to show where all rows are equal
            assert (unprobed(twin).digest == case.digest) == (name == "rerun")
        assert distinct(twin.outputs["y"].layout)
        right = honest(case)
        leeway = check.leeway(case, right)
        difference = first_difference(twin.outputs, check.expected(case, right), honest(twin), leeway)
        assert difference is None, f"{case.origin}: {difference}"
    assert applied > 20


def _negative(case: Case) -> bool:
    x = case.inputs["x"]
    return x.layout.size > 0 and bool(np.signbit(from_bits(x.bits, x.dtype, (x.layout.size,))[0]))


def _rows(case: Case) -> int:
    return case.inputs["x"].layout.size // max(1, case.inputs["x"].layout.shape[int(case.params["axis"])])


SECRETS: Mapping[str, Callable[[Case], object]] = {
    "row_permutation": _negative,
    "batch_subset": lambda case: _rows(case) > 3,
    "batch_append": lambda case: _rows(case) > 3,
    "scaling": lambda case: case.params["eps"] > 1e-4,
    "sign_flip": _negative,
    "layout": lambda case: case.inputs["x"].layout.strides == contiguous(case.inputs["x"].layout.shape).strides,
    "in_place": lambda case: case.outputs["y"].alias is None,
    "surroundings": lambda case: case.inputs["x"].layout.guard == "before",
    "alignment": lambda case: case.inputs["x"].layout.alignment(ITEMSIZE[case.inputs["x"].dtype]) == 0,
    "threads": lambda case: case.params.get("threads", 1) > 1,
}
"""of a kernel, what its last bit depends on and must not."""


@pytest.mark.some(5)
@pytest.mark.parametrize("name", list(SECRETS))
def test_a_kernel_that_breaks_the_law_is_caught(some_cases: list[Case], name: str) -> None:
    def dishonest(case: Case) -> Mapping[str, bytes]:
        return nudged(case) if SECRETS[name](case) else honest(case)

    caught = 0
    for case in some_cases[:600]:
        if LAWS[name].applies(case):
            check = _check(name, case)
            twin = check.twin(case)
            caught += first_difference(twin.outputs, check.expected(case, dishonest(case)), dishonest(twin)) is not None
    assert caught >= 5


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["surroundings", "batch_subset", "batch_append"])
def test_laws_that_are_not_about_alignment_keep_it_for_every_row(some_cases: list[Case], name: str) -> None:
    """Else a kernel that peels to an aligned address, and may, would be accused."""
    for case in some_cases[:600]:
        if not LAWS[name].applies(case):
            continue
        twin = _check(name, case).twin(case)
        for before, after in ((case.inputs["x"], twin.inputs["x"]), (case.outputs["y"], twin.outputs["y"])):
            known = Counter(_addresses(before.layout, ITEMSIZE[before.dtype], int(case.params["axis"])))
            moved = Counter(_addresses(after.layout, ITEMSIZE[after.dtype], int(case.params["axis"])))
            if name == "surroundings":
                assert moved == known
            elif name == "batch_append":
                assert known <= moved
            else:
                assert moved <= known


def _addresses(layout: Layout, itemsize: int, axis: int) -> list[int]:
    """Return the address of the first element of each row, in bytes modulo 64."""
    shape = [1 if a == axis else extent for a, extent in enumerate(layout.shape)]
    offsets = sum(np.tensordot(i, s, axes=0) for i, s in zip(np.indices(shape), layout.strides, strict=True))
    base = layout.alignment(itemsize)
    return [int(byte) for byte in (base + np.ravel(offsets) * itemsize) % CACHE_LINE]


@pytest.mark.parametrize(
    ("case", "applies"),
    [
        (_case([[1.0, 2.0, 0.0]]), True),
        (_case([[1.0, np.nan], [np.inf, -0.0]]), True),
        (_case([[0.0, 0.0]]), True),
        (_case([[0.0, 0.0]], eps=0.0), False),  # the twin would be the case itself
        (_case([[2.0**-64, 1.0]]), False),  # its square is subnormal
        (_case([[2.0**64, 1.0]]), False),  # its square overflows
        (_case([[2.0**62] * 64]), False),  # the sum does
        (_case([[2.0**-63] + [0.0] * 63]), False),  # the mean underflows
        (_case([[1.0, 2.0]], eps=2.0**-130), False),  # a subnormal eps has no room below
        (_case([[2.0**-20, 1.0]], dtype="f16"), False),  # a subnormal f16, which may be flushed
        (_case([[2.0**-14, 2.0**14]], dtype="f16"), False),  # no k but 0
    ],
)
def test_scaling_applies_only_where_nothing_rounds_differently(case: Case, applies: bool) -> None:
    assert LAWS["scaling"].applies(case) is applies


def test_expanded_rows_are_not_permuted_and_gaps_are_not_run_into() -> None:
    expanded = _case(np.ones((3, 4)), layout=Layout((3, 4), (0, 1)))
    assert not LAWS["row_permutation"].applies(expanded)
    assert LAWS["batch_subset"].applies(expanded)
    interleaved = replace(_case(np.ones((2, 4)), layout=Layout((2, 4), (1, 2))))
    assert not LAWS["batch_append"].applies(interleaved)
    assert all(not law.applies(_case(np.ones((0, 4)))) for name, law in LAWS.items() if name != "rerun")


def test_which_cases_have_a_twin_depends_on_the_case_alone(some_cases: list[Case]) -> None:
    laws = tuple(LAWS)
    entries = with_twins(some_cases, laws)
    backwards = with_twins(some_cases[::-1], laws)
    assert [entry.case for entry in entries if entry.check is None] == some_cases
    assert {e.case.digest for e in entries if e.check} == {e.case.digest for e in backwards if e.check}
    twins = [entry for entry in entries if entry.check is not None]
    assert len(some_cases) / ONE_IN / 1.5 < len(twins) < len(some_cases) / ONE_IN * 1.5
    each = with_twins(some_cases, laws, 1)
    assert {entry.check.name for entry in each if entry.check} == {
        name for name, law in LAWS.items() if law.tickets and law.suits(OPS["rms_norm"])
    }
    for before, entry in pairwise(entries):
        if entry.check is not None:
            assert entry.case == entry.check.twin(before.case)
    assert [entry.case for entry in with_twins(some_cases, ())] == some_cases
