"""Tensors whose elements lie gigabytes apart: only what is near them is there, and all else is inaccessible."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.core.base.case import Case, Layout, contiguous
from fuzz.core.base.outcome import Damage, Fault, Status
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import Run, a_case

FAR = (1 << 31) + 37
"""elements; four times that in bytes, and past 32 bits whether signed or not."""
LAYOUTS = (
    Layout((2, 4), (FAR, 1)),
    Layout((2, 4), (-FAR, 1), "before", 3),
    Layout((3, 4), (1 << 32, -2)),
    Layout((2, 4), (1, FAR), "before"),
)
pytestmark = pytest.mark.parametrize("place", ["native"], indirect=True)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_correct_kernel_is_left_alone(run: Run, layout: Layout) -> None:
    near = contiguous(layout.shape)
    cases = [a_case(layout, layout), a_case(layout, near), a_case(near, layout), a_case(layout, alias="x")]
    for outcome in run("copy(c);", *cases, second_run=True):
        assert (outcome.status, outcome.damage, outcome.unwritten) == (Status.RAN, (), ())
        assert outcome.outputs["y"] == cases[0].inputs["x"].bits


def _one_row_wrong(offset: str) -> str:
    return f"""
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            row(&c->y, i)[j] = ((float *)c->x.data)[{offset} + j];
    """


@pytest.mark.parametrize(
    ("offset", "byte"),
    [
        ("(int64_t)(int32_t)(i * c->x.strides[0])", -4 * ((1 << 31) - 37)),
        ("(int64_t)(int32_t)(i * c->x.strides[0] * 4) / 4", None),
    ],
)
def test_an_offset_that_wraps_around_is_known_for_what_it_is(run: Run, offset: str, byte: int | None) -> None:
    case = a_case(Layout((2, 4), (FAR, 1), "before"), contiguous((2, 4)))
    (outcome,) = run(_one_row_wrong(offset), case)
    if byte is None:  # in bytes it wraps to the neighbourhood of the first row, which holds poison
        assert outcome.status is Status.RAN
        assert outcome.outputs["y"] != case.inputs["x"].bits
    else:
        assert outcome.fault == Fault("SIGSEGV", "x", 0, byte, "read", 0)


def test_memory_between_rows_is_watched_near_them_and_closed_far_from_them(run: Run) -> None:
    case = a_case(y=Layout((3, 4), (FAR, 1)))
    (outcome,) = run("copy(c); row(&c->y, 1)[n] = 1; row(&c->x, 1)[0] = 0;", case)
    assert [(d.tensor, d.kind, d.row, d.column) for d in outcome.damage] == [("x", "input", 1, 0), ("y", "gap", 1, 3)]
    (outcome,) = run("copy(c); row(&c->y, 0)[-1] = 1; row(&c->y, 2)[3 - n] = 1;", case)
    (damage,) = outcome.damage
    assert (damage.tensor, damage.kind, damage.byte, damage.where) == ("y", "gap", -4, "before")
    assert damage.count == 8
    (outcome,) = run("copy(c); row(&c->y, 1)[1 << 20] = 1;", case)
    assert outcome.fault == Fault("SIGSEGV", "y", 1, None, "write", 3)
    (outcome,) = run("copy(c); row(&c->y, 2)[n] = 1;", case)
    assert outcome.fault == Fault("SIGSEGV", "y", 2, 0, "write", 3)


def test_rejecting_after_writing_and_unwritten_rows(run: Run) -> None:
    case = a_case(y=Layout((3, 4), (FAR, 1)))
    (outcome,) = run("row(&c->y, 2)[1] = 1; return KF_REJECTED;", case)
    assert outcome.damage == (Damage("y", "output", 2, (2 * FAR + 1) * 4, "inside", 4, 1),)
    (outcome,) = run("for (int j = 0; j < 4; j++) row(&c->y, 0)[j] = row(&c->y, 1)[j] = 1;", case)
    assert [(u.output, u.first, u.count) for u in outcome.unwritten] == [("y", 8, 4)]


def test_it_takes_little_memory(make_target: object, cache: Path) -> None:
    """Eight such tensors of 8 to 24 GiB, one after the other, in a worker that stays small."""
    target = make_target("copy(c);")  # type: ignore[operator]
    cases: list[Case] = [a_case(layout, layout) for layout in LAYOUTS[:3]]
    with WorkerPool([target], cache=cache) as pool:
        outcomes = pool.submit(cases).outcomes()
        status = Path(f"/proc/{pool.pids[target.id]}/status").read_text()
    assert {outcome.status for found in outcomes for outcome in found.values()} == {Status.RAN}
    (peak,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    assert peak < 64 * 1024, f"{peak} KiB"
