"""Every listing of the docs is executed; here those that take minutes, and those that need a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.tests.common.listings import Reader, listings
from fuzz.tests.conftest import CHECKOUT

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "fuzz" / "docs").glob("*.md"))]


def _with(cost: str) -> list[Path]:
    return [page for page in PAGES if any(listing.mark == cost for listing in listings(page))]


@pytest.mark.parametrize("page", _with("nightly"), ids=lambda page: page.stem)
def test_the_long_listings_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    Reader(tmp_path, CHECKOUT).follow(page, ("gate", "nightly"))


@pytest.mark.skipif(no_cuda_device() is not None, reason=str(no_cuda_device()))
@pytest.mark.parametrize("page", _with("gpu"), ids=lambda page: page.stem)
def test_the_listings_for_a_gpu_do_what_the_page_says(page: Path, tmp_path: Path) -> None:
    Reader(tmp_path, CHECKOUT).follow(page, ("gpu",))
