"""The plugin in a suite on two processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fuzz.tests.common.tails_suite import explain_tails


def test_a_failure_names_its_law_with_xdist(suite: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    explain_tails(suite, pytester, "-n", "2")
