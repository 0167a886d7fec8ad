"""Planted conditions are said as they were planted, where an earlier inducer said something else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz import Capabilities
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.facts import stated
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.stages.conclusion import Conclusion
from fuzz.explain.stages.explain import explain
from fuzz.explain.trial.trial import Family, Trials
from fuzz.tests.common.hunting import PACK, failing, failures, given_case, mutant, target_of, with_edits
from fuzz.tests.common.python_planted import python_target

_SCALED = ("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (WRONG ? 1.5f : 1.0f);")
_DIVIDED = ("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, WRONG ? n - 1 : n, eps)")
_COUNTS_ROWS = (
    ("static void generic_row", "static size_t rows;\nstatic void generic_row"),
    (
        "{ return each_row(call, generic_row); }",
        "{ rows = 1; for (int a = 0; a < call->x.rank; a++) if (a != call->axis) rows *= (size_t)call->x.shape[a];"
        " return each_row(call, generic_row); }",
    ),
)


@pytest.mark.parametrize(
    ("edit", "wrong", "shape", "eps", "core"),
    [
        (_SCALED, "n > 4096 && n % 8 != 0", (2, 4101), 0.25, {"n >= 4097", "n mod 8 != 0"}),
        (_SCALED, "n > 2048 && n % 32 == 31", (2, 2079), 0.25, {"n >= 2079", "n mod 32 = 31"}),
        (_DIVIDED, "n > 64", (3, 100), 0.25, {"n >= 65"}),
        (_SCALED, "(n & (n - 1)) != 0", (3, 100), 0.25, {"n is not a power of two"}),
        (_SCALED, "rows % 4 == 3", (7, 10), 0.25, {"rows mod 4 = 3"}),
        (_SCALED, "rows == n", (7, 7), 0.25, {"n = rows"}),
        (_SCALED, "n > rows", (7, 10), 0.25, {"n > rows"}),
        (_SCALED, "eps > total / n", (3, 100), 4.0, {"eps > the smallest mean square"}),
    ],
)  # fmt: skip
def test_what_was_planted_is_said(
    edit: tuple[str, str], wrong: str, shape: tuple[int, int], eps: float, core: set[str]
) -> None:
    edits = (*(_COUNTS_ROWS if "rows" in wrong else ()), (edit[0], edit[1].replace("WRONG", wrong)))
    target = target_of(with_edits(*edits), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case(shape, 1, "contiguous", eps))
        trials = Trials(pool, target, Family.of(judgement))
        explanation = explain(trials, shrink(trials, case))
    assert explanation.core is not None, explanation.learned
    said = set(str(explanation.core).split(" and "))
    assert core <= said
    # What is wrong by one part in the length of a row is less than a long one shows.
    assert all(edit == _DIVIDED and more.startswith("n <= ") for more in said - core), said
    assert min(explanation.tested) >= 10, "probes were drawn to refute it, inside and outside"
    assert explanation.learned is not None
    assert explanation.learned.exact or stated(explanation) is None


def test_what_any_input_holds_may_be_the_cause_not_only_what_the_first_one_does() -> None:
    """Zeros are left out of a sum of products, though zero times infinity is NaN. No rule says that the two meet in one
    place, so that none is stated."""
    product = "load(&g->y, at(r, &g->y, i)) * load(&g->dy, at(r, &g->dy, i))"
    edit = (f"dotted += {product};", f"if (load(&g->y, at(r, &g->y, i)) != 0.0f) dotted += {product};")
    layout, values = contiguous((1, 6)), {"y": [0.0] * 6, "dy": [1.0, 2.0, np.inf, 1.0, 2.0, 3.0]}
    inputs = {name: Tensor("f32", layout, np.array(each, "<f4").tobytes()) for name, each in values.items()}
    found = Case("softmax_backward", {"axis": 1}, inputs, {"dx": Output("f32", layout)})
    target = target_of(replace(PACK.kernel("softmax-backward-generic"), name="planted", edits=(edit,)), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found)
        trials = Trials(pool, target, Family.of(judgement))
        concluded = explain(trials, shrink(trials, case))
    assert concluded.learned is not None
    assert re.search(r"\bdy (has an infinity|= inf)", str(concluded.learned.rule)), concluded.learned
    assert stated(concluded) is None


_ALONG_THE_LAST = """
import numpy as np


def rms_norm(x, *, eps, axis, y):
    along = -1 if x.shape[-1] == x.shape[axis] else axis
    wide = x.astype(np.float32)
    np.copyto(y, wide / np.sqrt(np.mean(wide * wide, along, keepdims=True) + np.float32(eps)), casting="same_kind")
"""
"""As a shipped library does: it hands the length of the axis to a function that takes the last axes of such lengths."""


def test_a_kernel_that_takes_the_last_axis_for_another_one_of_its_length_is_told_by_that(tmp_path: Path) -> None:
    able = Capabilities(axis="any", strides="any")
    target = python_target(tmp_path, _ALONG_THE_LAST, "numpy", capabilities=able)
    with WorkerPool([target]) as pool:
        case, judgement = failures(pool, target, 1)[0]
        trials = Trials(pool, target, Family.of(judgement))
        learned = explain(trials, shrink(trials, case)).learned
    assert learned is not None
    # Rows of one magnitude, and such as eps is far larger than, come out right along either axis.
    values = r"( and (mean square >= 2\^-\d+|widest range of a row of x != 0))*"
    assert re.fullmatch(rf"extent of the last axis = n( and n >= 2)?{values}", str(learned.rule)), learned


def _explained(name: str) -> Conclusion:
    target = target_of(mutant(name), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failures(pool, target, 1)[0]
        trials = Trials(pool, target, Family.of(judgement))
        assert trials.family.law is not None
        return explain(trials, shrink(trials, case))


def _said_of_law(name: str) -> str:
    learned = _explained(name).learned
    assert learned is not None
    return str(learned.rule)


def test_of_a_broken_law_nothing_is_certain_that_a_search_speaks_against() -> None:
    """Whether two orders of a sum differ is luck: a rule may fit every probe and be wrong of many cases."""
    found = _explained("backward-order-by-call")
    assert stated(found) is None or found.true_of >= 100, found


@pytest.mark.parametrize("name", ["generic-order-by-place", "generic-order-by-sign"])
def test_where_two_orders_of_a_sum_differ_is_no_matter_of_the_values_that_were_tried(name: str) -> None:
    assert _said_of_law(name) == "n >= 3"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        # Which number of rows a twin has is drawn with the finding's key: of its twins alone the rule is learned.
        ("generic-order-by-rows", "the first extent of "),
        ("generic-order-by-even-rows", "the first extent mod 2 of the case or of its twin = 0"),
        ("generic-order-by-pitch", "layout of x is not the same in the twin"),
    ],
)
def test_what_a_kernel_chooses_its_order_by_is_told_of_the_case_and_its_twin(name: str, cause: str) -> None:
    said = _said_of_law(name)
    assert "n >= 3" in said
    assert cause in said
