"""How long a check explains is said by an option or the environment."""

from __future__ import annotations

import pytest

import fuzz
from fuzz.tasks.check.results import OPTION, explaining
from fuzz.tasks.check.setup import EXPLAIN_S


def test_a_program_says_in_its_environment_how_long_to_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test has the option of its runner."""
    monkeypatch.setenv("KERNELFUZZ_EXPLAIN_S", "2.5")
    assert explaining()[1] == OPTION
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert explaining() == (2.5, "a larger KERNELFUZZ_EXPLAIN_S")
    monkeypatch.setenv("KERNELFUZZ_EXPLAIN_S", "1m")
    with pytest.raises(fuzz.CheckError, match=r"^KERNELFUZZ_EXPLAIN_S=1m: it is a number of seconds, such as 60$"):
        explaining()
    monkeypatch.delenv("KERNELFUZZ_EXPLAIN_S")
    assert explaining() == (EXPLAIN_S, "KERNELFUZZ_EXPLAIN_S=60")
