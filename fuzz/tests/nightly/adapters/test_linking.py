"""C++ for another architecture, whose compiler the night installs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fuzz.tests.common.linked_pack import ARM, EXPECTED, archive, kernel, result_of, write_sources
from fuzz.tests.common.planted import c_target


@pytest.mark.skipif(shutil.which(f"{ARM}g++") is None, reason="apt-get install g++-aarch64-linux-gnu")
def test_sources_of_two_languages_and_two_archives_are_one_kernel_under_an_emulator(tmp_path: Path) -> None:
    folder = write_sources(tmp_path / "pack")
    linked = kernel(folder, *(archive(folder, name, ARM) for name in ("scaled", "squares")), isa="neon")
    for opt in ("O0", "O2"):
        assert result_of(c_target(linked, "qemu", opt), tmp_path / "cache") == pytest.approx(EXPECTED)
