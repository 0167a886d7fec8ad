"""Many random references are read or refused in a line."""

from __future__ import annotations

import pytest

from fuzz.tests.common.random_references import outcomes


@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_random_references_are_read_or_refused_in_a_line(first: int) -> None:
    found = outcomes(range(first, first + 100))
    assert min(found["read"], found["refused"]) >= 5, "they are of both kinds"
