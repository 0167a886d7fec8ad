"""The explanation of a planted bug names what was planted, and counts its evidence."""

from __future__ import annotations

import re

from fuzz.case import Case
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import expand
from fuzz.execute.toolchain import this_host
from fuzz.kernel import Kernel
from fuzz.tests.triage.hunting import TAIL_63, failing, given_case, mutant, target_of, with_edits
from fuzz.triage.explain import Explanation, explain
from fuzz.triage.family import Family
from fuzz.triage.shrink import shrink
from fuzz.triage.trial import Trials

_SCALED = ("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (WRONG ? 1.5f : 1.0f);")


def _explained(kernel: Kernel, ending: str = "O2", *, siblings: bool = False, found: Case | None = None) -> Explanation:
    target = target_of(kernel, ending)
    others = [t for t in expand([kernel], this_host()) if t.unavailable() is None] if siblings else []
    with WorkerPool([target]) as pool:
        case, judgement = failing(pool, target, found or given_case((4, 191), 1, "pitched"))
        trials = Trials(pool, target, Family.of(judgement))
        return explain(trials, shrink(trials, case, judgement), others)


def test_bad_elements_are_told_by_their_place() -> None:
    edit = (_SCALED[0], _SCALED[1].replace("WRONG", "i % 8 == 5 && i >= n - n % 64"))
    explanation = _explained(with_edits(edit))
    assert explanation.places is not None
    assert str(explanation.places).startswith("tail of 64 = inside and column mod 8 = 5, in y")


def test_a_dropped_tail_is_told_by_n_and_by_the_rows_that_can_show_it() -> None:
    explanation = _explained(with_edits(TAIL_63))
    said = explanation.lines()[0]
    assert "n mod 64 = 63" in said
    assert re.search(r"\(\d+ of \d+ probes agree\)", said)
    assert explanation.learned is not None
    assert explanation.learned.agreeing / explanation.learned.probes > 0.97


def test_kernels_that_reject_what_they_must_are_no_probes_of_those_that_do_not() -> None:
    said = _explained(mutant("generic-takes-any-strides"), found=given_case((4, 6), 0, "contiguous")).lines()[0]
    assert "axis = not last" in said
    assert "step of x != 1" in said, "the kernel lost more than one check"
    assert "about" not in said


def test_an_optimisation_level_is_named() -> None:
    edit = (_SCALED[0], _SCALED[1].replace("WRONG", "0\n#ifndef __OPTIMIZE__\n+ 1\n#endif\n"))
    explanation = _explained(with_edits(edit), "O0", siblings=True)
    assert "optimisation = -O0" in explanation.lines()[0]
