"""A wrong kernel of a transform is called by what its transforms of unit impulses tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fuzz.contracts.bench import template
from fuzz.core.generate.variations import extended, made
from fuzz.explain.stages.bench import of_transform
from fuzz.explain.stages.mechanisms import TABLE, mechanism
from fuzz.explain.trial.trial import Family, Trials
from fuzz.report.words import mechanism_words
from fuzz.tasks.check.function import called_with
from fuzz.tasks.check.reading import read_task
from fuzz.tasks.check.request import Calling, CheckLimits, CheckRequest, GivenData, Promises
from fuzz.tests.common.transform_kernels import ROWS
from oracles.ops import OPS

pytestmark = pytest.mark.usefixtures("quick_checks")
SAID = [(row, at) for row, each in ROWS.items() for at in range(len(each.wrong)) if each.wrong[at].said]
FIRST = TABLE[: TABLE.index(of_transform) + 1]
"""The experiments up to those of transforms."""


def named(row: str, function: Callable[..., Any]) -> str:
    """Return what is said of a kernel, given a case of ordinary values that it fails."""
    each = ROWS[row]
    kernel, arrays, noted = called_with(function, None, "cpu")
    data = GivenData(each.shapes, dtypes={"z": "complex64"} if "z=" in each.shapes else {}, **each.given)
    limits = CheckLimits((), 12, None, 1)
    task = read_task(
        CheckRequest(
            kernel, None, each.reference, "formula", data, Promises(), Calling(arrays=arrays), (), limits, noted
        )
    )
    (target,) = task.targets
    assert task.here is not None
    draw = template(target, "f32").draw
    op = OPS[target.kernel.op]
    case = made(
        extended(
            draw,
            {dim: size for dim, size in {"b": 2, "m": 3, "n": 6}.items() if dim in op.named and dim not in op.fixed},
        )
    )
    found = mechanism(Trials(task.here, target, Family("values")), case, FIRST)
    return mechanism_words(found) if found is not None else ""


@pytest.mark.some(4)
@pytest.mark.parametrize(("row", "at"), SAID)
def test_the_matrix_of_a_kernel_names_what_is_wrong(row: str, at: int) -> None:
    kernel, said = ROWS[row].wrong[at]
    assert said in named(row, kernel)


@pytest.mark.some(2)
@pytest.mark.parametrize(("row", "at"), [(row, at) for row, each in ROWS.items() for at in range(len(each.right))])
def test_nothing_is_said_of_a_right_kernel(row: str, at: int) -> None:
    assert not named(row, ROWS[row].right[at])
