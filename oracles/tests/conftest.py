"""Tests lie in folders by their cost, as Hypothesis's do: `cover` has one quick test for each promise and is what every
change must pass, `nightly` has what takes minutes, `common` has what both use."""

from __future__ import annotations

from hypothesis import settings

from oracles.tests.common.whole import WHOLE

# The same examples in every run: no outcome is left to chance, nor to how busy the machine is.
settings.register_profile("tests", derandomize=True, database=None, deadline=None, max_examples=100 if WHOLE else 20)
settings.load_profile("tests")
