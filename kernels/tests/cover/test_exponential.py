"""The exponential of the C kernels, on floats from all over the line, under emulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.tests.common.exponential import declared, worst


@pytest.mark.some(1)
@pytest.mark.parametrize(("isa", "bits"), [("avx2", 256), ("neon", 128), ("sve", 128), ("rvv", 256), ("sve", 384)])
def test_it_is_as_accurate_as_declared(isa: str, bits: int, tmp_path: Path) -> None:
    error, wrong = worst(isa, 20011, tmp_path, bits)
    assert wrong == 0
    assert 0.5 < error <= declared()
