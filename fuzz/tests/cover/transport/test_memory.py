"""What the guarded memory catches, told exactly; native and emulated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fuzz.core.base.case import Case, Layout, Output, Tensor, contiguous
from fuzz.core.base.outcome import Damage, Fault, Status, Unwritten
from fuzz.tests.common.planted import Run, a_case, values

BEFORE = contiguous((3, 4), guard="before")
PITCHED = Layout((3, 4), (7, 1))
POISON = 0x7FFD7FFD


def test_a_correct_kernel_is_left_alone(run: Run) -> None:
    for layout in (contiguous((3, 4)), BEFORE, PITCHED, Layout((3, 4), (-7, 1)), Layout((3, 4), (1, 3), offset=5)):
        case = a_case(layout, layout)
        (outcome,) = run("copy(c);", case)
        assert (outcome.status, outcome.damage, outcome.unwritten) == (Status.RAN, (), ())
        assert outcome.outputs == {"y": case.inputs["x"].bits}


def test_reading_past_the_end_faults(run: Run, place: str) -> None:
    (outcome,) = run("volatile float v = row(&c->x, rows - 1)[n]; (void)v;", a_case())
    assert outcome.status is Status.FAULT
    assert outcome.fault in _faults("x", row=2, byte=0, access="read", place=place)


def test_reading_before_the_start_faults(run: Run, place: str) -> None:
    (outcome,) = run("volatile float v = row(&c->x, 0)[-1]; (void)v;", a_case(BEFORE))
    assert outcome.fault in _faults("x", row=0, byte=-4, access="read", place=place)


def test_writing_past_the_end_faults(run: Run, place: str) -> None:
    (outcome,) = run("copy(c); row(&c->y, rows - 1)[n + 2] = 1;", a_case())
    assert outcome.fault in _faults("y", row=2, byte=8, access="write", place=place)


def test_writing_before_the_start_faults(run: Run, place: str) -> None:
    (outcome,) = run("copy(c); row(&c->y, 0)[-2] = 1;", a_case(y=BEFORE))
    assert outcome.fault in _faults("y", row=0, byte=-8, access="write", place=place)


def test_writes_on_the_unguarded_sides_are_damage(run: Run) -> None:
    body = "copy(c); row(&c->y, 0)[-1] = 1; row(&c->x, rows - 1)[n] = 1;"
    (outcome,) = run(body, a_case(x=BEFORE))
    assert outcome.damage == (Damage("x", "gap", 2, 0, "after", 4, 3), Damage("y", "gap", 0, -4, "before", 4, 0))


def test_a_write_into_the_slack_before_the_guard_is_damage(run: Run) -> None:
    (outcome,) = run("copy(c); row(&c->y, rows - 1)[n] = 1;", a_case(y=contiguous((3, 4), offset=3)))
    assert outcome.damage == (Damage("y", "gap", 2, 0, "after", 4, 3),)


def test_a_write_between_rows_is_damage(run: Run) -> None:
    (outcome,) = run("copy(c); row(&c->y, 1)[n + 1] = 1;", a_case(y=PITCHED))
    assert outcome.damage == (Damage("y", "gap", 1, (7 + 5) * 4, "inside", 4, 3),)


def test_a_modified_input_is_damage(run: Run) -> None:
    for layout in (contiguous((3, 4)), PITCHED):
        (outcome,) = run("copy(c); row(&c->x, 1)[2] = -1; row(&c->x, 2)[0] = -1;", a_case(layout))
        (damage,) = outcome.damage
        assert (damage.tensor, damage.kind, damage.row, damage.where) == ("x", "input", 1, "inside")
        assert layout.strides[0] * 4 + 8 <= damage.byte < layout.strides[0] * 4 + 12
        assert 2 <= damage.count <= 8


def test_in_place_may_change_its_input_but_no_gap(run: Run) -> None:
    for layout in (contiguous((3, 4)), PITCHED):
        case = a_case(layout, alias="x")
        (outcome,) = run("for (int i = 0; i < 4; i++) row(&c->y, 1)[i] *= 2;", case)
        expected = np.frombuffer(case.inputs["x"].bits, "<f4").reshape(3, 4).copy()
        expected[1] *= 2
        assert (outcome.status, outcome.damage, outcome.unwritten) == (Status.RAN, (), ())
        assert outcome.outputs == {"y": expected.tobytes()}
    (outcome,) = run("row(&c->y, 1)[4] = 2;", a_case(PITCHED, alias="x"))
    assert outcome.damage == (Damage("x", "gap", 1, (7 + 4) * 4, "inside", 4, 3),)


def test_in_place_runs_twice_from_the_same_input(run: Run) -> None:
    case = a_case(alias="x")
    (outcome,) = run("for (int i = 0; i < 4; i++) row(&c->y, 1)[i] *= 2;", case, second_run=True)
    assert np.frombuffer(outcome.outputs["y"], "<f4")[4] == 10


def test_unwritten_elements_are_counted(run: Run) -> None:
    body = "copy(c); unsigned p = 0x7FFD7FFD; (void)p;"
    skip = "for (int i = 0; i < 3; i++) for (int j = 0; j < 4; j++) if (j != 1 || i == 0) row(&c->y, i)[j] = 1;"
    for layout in (contiguous((3, 4)), PITCHED):
        (whole, partly) = *run(body, a_case(y=layout)), *run(skip, a_case(y=layout))
        assert whole.unwritten == ()
        assert partly.unwritten == (Unwritten("y", 5, 2),)


def test_a_result_that_looks_like_poison_was_written(run: Run) -> None:
    """NaNs travel through a kernel with their bits: an input may well hold the poison."""
    bits = np.full(12, POISON, "<u4").tobytes()
    (outcome,) = run("copy(c);", a_case(bits=bits))
    assert (outcome.status, outcome.unwritten, outcome.outputs["y"]) == (Status.RAN, (), bits)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_alignment_is_the_layouts(run: Run, dtype: str) -> None:
    """The kernel itself reports the address of element [0, 0] modulo 64."""
    body = """
    if (c->x.dtype == KF_F32) *row(&c->y, 0) = (float)((uintptr_t)c->x.data % 64);
    else *(uint16_t *)c->y.data = (uint16_t)((uintptr_t)c->x.data % 64);
    """
    cases = [
        a_case(Layout(shape, strides, guard, offset), contiguous(shape), dtype)
        for guard in ("after", "before")
        for offset in range(0, 34, 3)
        for shape, strides in (((1, 3), (3, 1)), ((2, 5), (-8, 1)), ((2, 5), (7, -1)))
    ]
    itemsize = {"f32": 4, "f16": 2}[dtype]
    seen = []
    for case, outcome in zip(cases, run(body, *cases), strict=True):
        reported = np.frombuffer(outcome.outputs["y"], {"f32": "<f4", "f16": "<u2"}[dtype])[0]
        assert int(reported) == case.inputs["x"].layout.alignment(itemsize)
        seen.append(int(reported))
    assert len(set(seen)) == 64 // itemsize, "the layouts above reach every alignment"


def test_scalars_and_empty_tensors(run: Run) -> None:
    empty = a_case(contiguous((3, 0)))
    no_rows = a_case(contiguous((0, 4)))
    scalar = a_case(contiguous(()))
    body = "if (c->x.rank == 0) { *(float *)c->y.data = *(float *)c->x.data; return KF_OK; } copy(c);"
    outcomes = run(body, empty, scalar, no_rows)
    assert [outcome.status for outcome in outcomes] == [Status.RAN] * 3
    assert [len(outcome.outputs["y"]) for outcome in outcomes] == [0, 4, 0]


@pytest.mark.some(1)
def test_a_large_tensor(run: Run) -> None:
    case = a_case(contiguous((1, 16 << 20)), contiguous((1, 16 << 20), "before"))
    (outcome, small) = run("copy(c);", case, a_case())
    assert outcome.outputs["y"] == case.inputs["x"].bits
    assert small.status is Status.RAN


def test_storage_beyond_reason_is_not_run(run: Run) -> None:
    """Too many elements for windows around each of them, too far apart for one piece."""
    shape = (1 << 17, 1)
    case = a_case(Layout(shape, (1 << 12, 1)), contiguous(shape))
    (outcome, after) = run("copy(c);", case, a_case())
    assert outcome.status is Status.NOT_RUN
    assert "memory" in outcome.detail
    assert after.status is Status.RAN


def test_a_kernel_that_rejects_must_have_written_nothing(run: Run) -> None:
    early = "row(&c->y, 1)[2] = 1; row(&c->y, 2)[0] = 1; return KF_REJECTED;"
    for y in (contiguous((3, 4)), PITCHED):
        (outcome,) = run(early, a_case(y=y))
        (damage,) = outcome.damage
        assert outcome.status is Status.REJECTED
        assert (damage.tensor, damage.kind, damage.row, damage.column, damage.where) == ("y", "output", 1, 2, "inside")
        assert damage.count == 8
    (outcome,) = run(early, a_case(PITCHED, alias="x"))
    assert [(d.tensor, d.kind, d.row, d.column) for d in outcome.damage] == [("y", "output", 1, 2)]
    (outcome,) = run("return KF_REJECTED;", a_case(alias="x"))
    assert outcome.damage == ()


ROLES = Case(
    "rms_norm",
    {"axis": 1, "eps": 1e-5},
    {**a_case().inputs, "weight": Tensor("f32", Layout((4,), (-3,)), values((4,)).tobytes())},
    {**a_case(y=PITCHED).outputs, "rstd": Output("f32", Layout((3,), (5,), "before", 2))},
)
WRITE_RSTD = "copy(c); float *r = c->rstd.data; r[0] = r[5] = r[10] = 1;"


@pytest.mark.parametrize("place", ["native"], indirect=True)
@pytest.mark.parametrize(
    ("body", "damage"),
    [
        ("r[7] = 1;", Damage("rstd", "gap", 1, 28, "inside", 4)),
        ("r[-1] = 1;", Damage("rstd", "gap", 0, -4, "before", 4)),
        ("r[11] = 1;", Damage("rstd", "gap", 2, 0, "after", 4)),
        ("((float *)c->weight.data)[-4] = 1;", Damage("weight", "gap", None, 20, "inside", 4, 1)),
        ("((int32_t *)c->weight.data)[-6] ^= -1;", Damage("weight", "input", None, 12, "inside", 4, 2)),
    ],
)
def test_gaps_and_elements_of_row_scalars_and_columns(run: Run, body: str, damage: Damage) -> None:
    (outcome,) = run(WRITE_RSTD + body, ROLES)
    assert outcome.damage == (damage,)


def test_a_row_scalar_left_unwritten_is_counted(run: Run) -> None:
    (outcome, whole) = *run("copy(c); ((float *)c->rstd.data)[5] = 1;", ROLES), *run(WRITE_RSTD, ROLES)
    assert (whole.damage, whole.unwritten) == ((), ())
    assert outcome.unwritten == (Unwritten("rstd", 0, 2),)


def _faults(tensor: str, row: int, byte: int, access: str, place: str) -> list[Fault]:
    """An emulator may not tell reads from writes; hardware does."""
    column = 3 if byte >= 0 else 0
    known = [Fault("SIGSEGV", tensor, row, byte, access, column)]
    return known if place == "native" else [*known, replace(known[0], access=None)]
