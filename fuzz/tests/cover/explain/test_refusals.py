"""What a kernel may be meant to declare: said only where that tells what it refuses from what passes."""

from __future__ import annotations

import pytest

from fuzz.core.base.capability import Capabilities, Capability
from fuzz.core.base.case import contiguous
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.evidence.evidence import Evidence
from fuzz.explain.stages.explain import declaring
from fuzz.report.words import suggestion_words
from fuzz.tests.common.planted import a_case

_SHAPES = {n: a_case(contiguous((3, n)), bits=bytes(12 * n)) for n in (0, 1, 4, 7, 8, 12, 16, 24)}


def _declared(
    fails: set[int],
    verdict: Verdict = Verdict.CRASH,
    raised: bool = True,
    able: Capabilities | None = None,
    reason: str = "",
) -> str:
    evidence = Evidence(cases=list(_SHAPES.values()), failed=[n in fails for n in _SHAPES])
    refused = ((n, case, Judgement("t", case, verdict, reason=reason, raised=raised)) for n, case in _SHAPES.items())
    evidence.bad = [(case, judgement) for n, case, judgement in refused if n in fails]
    found = declaring(Capability("rms_norm", able or Capabilities()), evidence)
    return suggestion_words(found) if found is not None else ""


def test_a_kernel_that_refuses_nothing_else_is_told_the_word() -> None:
    assert "Capabilities(empty=False)" in _declared({0})
    assert "Capabilities(multiple_of={'n': 8})" in _declared({1, 4, 7, 12})
    assert "Capabilities(multiple_of={'n': 4})" in _declared({1, 7}, Verdict.REJECTED, raised=False)


def test_a_kernel_that_refuses_longer_rows_itself_is_told_how_long_they_are() -> None:
    longer, asserted = {8, 12, 16, 24}, "AssertionError: too long"
    for found in (_declared(longer, reason=asserted), _declared(longer, Verdict.REJECTED, raised=False)):
        assert "n is longer in all 4 failing cases" in found
        assert "Capabilities(max={'n': 7})" in found
    assert _declared(longer, reason="IndexError: out of range") == ""  # where it is wrong
    assert _declared({12, 16, 24}, reason=asserted) == ""  # nothing says which of 9 to 11 it takes
    assert _declared(longer, reason=asserted, able=Capabilities(max={"n": 24})) == ""


@pytest.mark.parametrize(
    ("fails", "verdict", "raised", "able"),
    [
        ({0, 1}, Verdict.CRASH, True, None),
        ({0}, Verdict.FAIL_NUMERIC, False, None),
        ({1, 4, 7, 12}, Verdict.FAIL_NUMERIC, False, None),
        ({1, 4, 7, 12}, Verdict.CRASH, False, None),
        ({1, 4, 7}, Verdict.CRASH, True, None),
        ({7}, Verdict.CRASH, True, None),
        ({*_SHAPES}, Verdict.CRASH, True, None),
        ({0}, Verdict.CRASH, True, Capabilities(empty=False)),
        ({1, 4, 7, 12}, Verdict.CRASH, True, Capabilities(multiple_of={"n": 2})),
    ],
)
def test_nothing_is_said_that_does_not_tell_them_apart(
    fails: set[int], verdict: Verdict, raised: bool, able: Capabilities | None
) -> None:
    assert _declared(fails, verdict, raised, able) == ""


def test_what_was_probed_besides_counts_too() -> None:
    evidence = Evidence(cases=[_SHAPES[0]], failed=[True])
    evidence.bad = [(_SHAPES[0], Judgement("t", _SHAPES[0], Verdict.CRASH, raised=True))]
    assert declaring(Capability("rms_norm", Capabilities()), evidence) is None
    evidence.beside = Evidence(cases=[_SHAPES[8]], failed=[False])
    found = declaring(Capability("rms_norm", Capabilities()), evidence)
    assert found is not None
    assert found.says == "Capabilities(empty=False)"
