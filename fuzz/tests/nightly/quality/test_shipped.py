"""Functions of shipped libraries: those that are right are not accused, and each known deviation is still there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.core.transport.python.attest import installed_version
from fuzz.quality.impact import CHECKOUT
from fuzz.quality.shipped.judging import all_answers
from fuzz.quality.shipped.rows import shipped_ops
from fuzz.quality.shipped.verb import new_deviations
from fuzz.tasks.comparison import OPEN, RIGHT, WRONG
from oracles.tests.common.whole import WHOLE

_REQUIRED = Path(CHECKOUT / ".ci" / "shipped.txt").read_text("utf-8")
LIBRARIES = dict(line.split("==") for line in _REQUIRED.splitlines() if "==" in line)
"""The libraries that the rows call, besides SciPy and torch, with their versions."""


@pytest.mark.parametrize("library", sorted({each.library for each in shipped_ops().values()}))
def test_only_what_somebody_has_read_is_wrong(library: str) -> None:
    version = LIBRARIES.get(library)
    if version is not None and (found := installed_version(library)) != version:
        assert not WHOLE, f"{library} is {found}: the night installs .ci/shipped.txt"
        pytest.skip(f"{library} is {found or 'not installed'}, not {version}")
    own = [key for key, op in shipped_ops().items() if op.library == library]
    answers = [*all_answers(own, 2, 40, 1)]
    assert not new_deviations(answers)
    assert {each.key for each in answers if each.result == WRONG} == {key for key in own if shipped_ops()[key].known}
    assert {each.result for each in answers} <= {RIGHT, WRONG, OPEN}
    assert sum(each.result == OPEN for each in answers) < 0.1 * len(answers)
