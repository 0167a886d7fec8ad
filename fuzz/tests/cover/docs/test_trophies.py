"""The kept deviations of shipped libraries are complete, and the docs list all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.core.adapters import pack
from fuzz.tests.common.trophies import ABOUT, CHECKOUT, PACKS, kept, table, trophies


@pytest.mark.some(19)
@pytest.mark.parametrize("trophy", trophies(), ids=lambda each: each.name)
def test_all_is_said_of_a_kept_deviation(trophy: Path) -> None:
    found = kept(trophy)
    assert found.found is not None, "its verdict"
    assert set(found.about) - {"also"} == set(ABOUT)
    assert all(found.about.values())
    report = (trophy / "report.md").read_text(encoding="utf-8")
    assert (trophy / "repro.py").read_text(encoding="utf-8") in report


def test_every_pack_of_a_shipped_library_loads_without_it() -> None:
    packs = sorted(path.parent for path in PACKS.glob("*/pack.py"))
    assert len(packs) >= 11
    assert all(pack.load(each).kernels for each in packs)


def test_the_docs_list_them() -> None:
    shown = (CHECKOUT / "fuzz" / "docs" / "trophies.md").read_text(encoding="utf-8")
    assert len(trophies()) >= 10
    assert table(trophies()) in shown
