"""The exponential of the C kernels on every float: some minutes, and hours where AVX2 has to be emulated."""

from __future__ import annotations

from pathlib import Path

from fuzz.tests.common.exponential import declared, worst


def test_it_is_as_accurate_as_declared_on_every_float(tmp_path: Path) -> None:
    error, wrong = worst("avx2", 1, tmp_path)
    assert wrong == 0
    assert 0.98 < error <= declared()
