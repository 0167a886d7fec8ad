"""Beside the smallest failing case stand cases with one thing changed, each of which was run and can be run again."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from fuzz.core.adapters.python_kernel import PythonKernel
from fuzz.core.adapters.registry import expand
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.case import Case
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import WorkerPool
from fuzz.explain.explanation import Counterfactual
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.stages.counterfactuals import counterfactuals, edited, held_against
from fuzz.explain.trial.trial import Family, KeepsStateError, Trials
from fuzz.findings.casefile import FoundRecord, save
from fuzz.report.words import counterfactual_lines, counterfactual_words, nearest_words
from fuzz.tests.common.hunting import failing, given_case, target_of, with_edits
from fuzz.tests.conftest import Cli
from oracles.formula.contract import Contract
from oracles.tests.common.whole import WHOLE

_TAIL_OF_4 = ("for (size_t i = 0; i < n; i++) total", "for (size_t i = 0; i < n / 4 * 4; i++) total")
_EPS = ("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, 0.5f)")


def _beside(
    edit: tuple[str, str], found: Case, kernel: Kernel | None = None
) -> tuple[Trials, Case, dict[str, Counterfactual]]:
    target = target_of(kernel or with_edits(edit), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found)
        trials = Trials(pool, target, Family.of(judgement))
        small = shrink(trials, case)
        told = counterfactuals(trials, small)
        for each in told:  # each is a fact that can be run again by its words
            for value in each.passing[:2] + each.failing[:2]:
                again = edited(small, each.subject, str(value))
                (found_again,) = trials.judge([again])
                assert found_again is not None
                assert found_again.verdict.is_finding == (value in each.failing), (each.subject, value)
    return trials, small, {each.subject: each for each in told}


@cache
def _without_tail() -> tuple[Case, dict[str, Counterfactual]]:
    """What stands beside a dropped tail, which several tests look at."""
    _, small, told = _beside(_TAIL_OF_4, given_case((3, 23), 1, "pitched"))
    return small, told


def test_the_lengths_that_pass_are_those_without_a_tail() -> None:
    small, told = _without_tail()
    assert small.inputs["x"].layout.shape == (1, 1)
    assert {4, 8, 12, 16, 24, 32, 48, 64, 128, 256} <= {*told["n"].passing}
    assert {2, 3, 5, 6, 7, 9, 15, 17, 31, 33, 63, 65, 127, 129} <= {*told["n"].failing}
    assert counterfactual_words(told["n"]).startswith("this case passes at n = 4, 8, 12, 16, 24, ")
    assert "; fails at n = 2, 3, 5 to 7, 9, 15, 17, 31, 33, 63, 65, 127, 129" in counterfactual_words(told["n"])
    assert nearest_words(replace(told["n"], against=20)) == "passes at n = 4, 8, 12, 16; fails at n = 2, 3, 5, 6"
    assert told["rows"].passing == ()


def test_what_other_failing_cases_have_too_is_not_said_to_make_it_pass() -> None:
    """One case passes in f16, as its values are so, and others fail there: "passes at dtype = f16" was told."""
    one, other = given_case((3, 23), 1, "pitched"), edited(given_case((1, 8), 1), "dtype", "f16")
    told = [Counterfactual("dtype", "f32", ("f16", "f64"), ()), Counterfactual("n", 23, (8,), (4,))]
    dtype, n = held_against(told, [one, other])
    assert (dtype.passing, dtype.refuted, dtype.against) == (("f64",), ("f16",), 2)
    assert (n.passing, n.refuted, n.failing) == ((), (8,), (4,))
    assert held_against([n, dtype], [one]) == (replace(dtype, against=3), replace(n, against=3)), "what passes is first"
    assert [*counterfactual_lines((dtype, n))] == [
        "this case passes at dtype = f64",
        "passes at dtype = f16, where other cases fail",
        "passes at n = 8, where other cases fail",
        "2 failing cases have other values than those that pass",
    ]


_SEVENTH = """
import os
import numpy as np

calls = 0


def rms_norm(x, eps, y):
    global calls
    calls += 1
    if calls % 7 == 0:
        os.kill(os.getpid(), 9)
    y[...] = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
"""


def test_where_the_number_of_calls_decides_nothing_is_said_to_make_it_pass(tmp_path: Path) -> None:
    """Every seventh call ended the process, and it was told to pass at n = 2, 4 and 16, and to fail at 64."""
    (tmp_path / "seventh.py").write_text(_SEVENTH)
    kernel = PythonKernel(
        "seventh", "rms_norm", tmp_path / "seventh.py", "numpy", Contract(), Capabilities(empty=False), entry="rms_norm"
    )
    [target] = expand([kernel])
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((1, 1), 1))
        trials = Trials(pool, target, Family.of(judgement))
        with pytest.raises(KeepsStateError):
            counterfactuals(trials, case)
        anew = replace(trials, fresh=True, known={}, out_of_time=lambda: not WHOLE)  # a process for each trial
        for each in counterfactuals(anew, case):
            assert each.passing == ()


def test_what_is_not_judged_is_no_fact() -> None:
    """With a NaN in each row a kernel passes whatever it does, where what is no number is not judged."""
    small, told = _without_tail()
    assert "one infinity" in told["values"].passing + told["values"].failing
    assert small.origin.recipe == told["values"].own == "given", "the case has values of its own, and 'ones' may pass"
    kernel = with_edits(_TAIL_OF_4)
    loose = replace(kernel, contract=replace(kernel.contract, nonfinite="unspecified"))
    _, _, told = _beside(_TAIL_OF_4, given_case((3, 23), 1, "pitched"), loose)
    assert not {"one NaN", "one infinity"} & {*told["values"].passing, *told["values"].failing}
    assert told["values"].failing


def test_a_parameter_that_hides_it_is_among_them() -> None:
    _, _, told = _beside(_EPS, given_case((3, 23), 1, "pitched"))
    assert 0.5 in told["eps"].passing or told["eps"].failing, "eps was changed"
    assert not any(each.failing == () and each.passing == () for each in told.values())


def test_where_time_is_over_the_first_dimension_is_tried_all_the_same() -> None:
    target = target_of(with_edits(_TAIL_OF_4), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((1, 23), 1, "contiguous"))
        trials = Trials(pool, target, Family.of(judgement), out_of_time=lambda: True)
        assert [each.subject for each in counterfactuals(trials, case)] == ["n"]


def test_of_a_case_that_passes_with_other_gaps_nothing_is_said() -> None:
    """A case of another length has other gaps too, so that more than one thing would be changed at a time."""
    head = ("static void generic_row(", "static float scale;\n\nstatic void generic_row(")
    edit = ("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * scale;")
    entry = ("{ return each_row(", "{\n    scale = call->x.strides[0] == 25 ? 1.5f : 1.0f;\n    return each_row(")
    target = target_of(with_edits(head, edit, entry), "O2")
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, given_case((3, 23), 1, "pitched"))
        assert case.inputs["x"].layout.strides == (25, 1)
        assert counterfactuals(Trials(pool, target, Family.of(judgement)), case) == ()


def test_things_that_make_it_pass_come_first() -> None:
    _, told = _without_tail()
    passing = [bool(each.passing) for each in told.values()]
    assert passing == sorted(passing, reverse=True)
    assert passing[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("m", "4"), "there is no 'm' to change; there are n, rows, dtype, eps, weight_offset, values, "),
        (("n", "long"), "--set n=long: invalid literal for int"),
        (("n", "99999999999"), "--set n=99999999999: a tensor would have more than 67,108,864 elements"),
        (("n", "-4"), "--set n=-4: shape: negative extent"),
        (("dtype", "f7"), "--set dtype=f7: it can be f32, "),
        (("values", "of no kind"), "--set values=of no kind: it can be given, "),
        (("layout of x", "askew"), "--set layout of x=askew: it can be "),
        (("weight", "maybe"), "--set weight=maybe: it can be there, absent"),
    ],
)
def test_what_cannot_be_changed_is_one_line(change: tuple[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(")) as raised:
        edited(given_case((3, 23), 1), *change)
    assert "\n" not in str(raised.value)


def test_a_case_file_is_replayed_with_one_thing_changed(tmp_path: Path, cli_here: Cli) -> None:
    case = edited(given_case((1, 23), 1, "contiguous"), "values", "ones")
    save(tmp_path / "case.json", case, FoundRecord("c-generic@native:gcc-O2", "FAIL_NUMERIC", 1, "0.1.0"))
    words = ("repro", "case.json", "--target", "c-generic@native:gcc-O2")
    done = cli_here(*words, "--set", "n=4", "--set", "eps=0.5")
    assert done.returncode == 0, done.stderr
    assert cli_here(*words, "--set", "m=4").returncode == 4
    assert cli_here(*words, "--set", "n").returncode == 4
