"""Kernels of recurrences are held against a loop in Python."""

from __future__ import annotations

import pytest

import fuzz
from fuzz.tests.common.recurrences import by_blocks, decayed

pytestmark = pytest.mark.usefixtures("quick_checks")


def test_a_kernel_in_blocks_is_right() -> None:
    fuzz.check(by_blocks, reference=decayed, shapes="x=b t, a=b t", max_cases=8, seed=1)
