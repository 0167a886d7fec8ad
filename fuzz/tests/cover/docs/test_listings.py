"""Every listing of the docs is executed; here those that cost seconds."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from fuzz.tests.common.listings import ListingError, Reader, assert_prints, commands, listings
from fuzz.tests.common.running import eventually
from fuzz.tests.conftest import CHECKOUT

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "fuzz" / "docs").glob("*.md"))]


@pytest.mark.some(12)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_listings_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path, CHECKOUT)
    reader.follow(page, ("gate",))
    expected = [listing.where for listing in listings(page) if listing.mark == "gate"]
    assert reader.executed == expected


def test_every_listing_says_what_is_done_with_it() -> None:
    """The gate follows some of the pages, and reads them all."""
    assert all(listing.language for page in PAGES for listing in listings(page))


def test_a_listing_without_a_mark_is_no_listing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```console\n$ true\n```\n")
    with pytest.raises(ListingError, match=r"page\.md:3: say what is done with it"):
        listings(page)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```console gate\n$ echo one; echo two\none\nthree\n```\n", "missing: three"),
        ("```console gate\n$ exit 3\n```\n", "exit code 3, not 0"),
        ("```python gate\nassert 1 == 2\n```\n", "AssertionError"),
        (
            "```diff patch\n+++ b/fuzz/core/base/op.py\n@@\n-no such line\n+any\n```\n",
            "page.md:1: fuzz/core/base/op.py has not",
        ),
    ],
)
def test_a_listing_that_does_not_do_what_it_says_fails(text: str, problem: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=problem):
        Reader(tmp_path, CHECKOUT).follow(page, ("gate",))


def test_commands_have_their_output_and_exit_code() -> None:
    page = CHECKOUT / "fuzz" / "docs" / "adding-a-kernel.md"
    console = [listing for listing in listings(page) if listing.language == "console"]
    assert any(command.code == 1 and command.prints for listing in console for command in commands(listing))
    assert_prints("a\nb 12 c\nd\n", ("a", "...", "b ... c"), "said")
    with pytest.raises(AssertionError, match="missing: a"):
        assert_prints("a\nb\n", ("b", "a"), "said")


def test_what_a_page_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console gate\n$ sleep 60 > /dev/null 2>&1 &\n$ false\n```\n")
    reader = Reader(tmp_path, CHECKOUT)
    with pytest.raises(AssertionError, match="exit code 1, not 0"):
        reader.follow(page, ("gate",))
    [group] = reader.running
    eventually(lambda: not _runs(group))


def _runs(group: int) -> bool:
    """Whether a process of the group is more than a zombie."""
    told = subprocess.run(("ps", "-e", "-o", "pgid=,stat="), capture_output=True, text=True, check=True).stdout
    return any(int(leader) == group and stat[0] != "Z" for leader, stat in map(str.split, told.splitlines()))


def test_the_program_of_300_lines_stands_alone() -> None:
    page = CHECKOUT / "fuzz" / "docs" / "mini.md"
    program = "".join(each.text for each in listings(page) if each.mark in ("file=mini.py", "more=mini.py"))
    assert 200 < len(program.splitlines()) < 350
    imported = re.findall(r"^(?:from|import) (\w+)", program, re.MULTILINE)
    assert {*imported} == {"itertools", "random", "dataclasses", "mpmath", "numpy"}


def test_a_listing_can_go_on_with_a_file(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python file=a.py\nx = 2\n```\n```python more=a.py\nprint(x)\n```\n```console gate\n$ python3 a.py\n2\n```\n"
    )
    Reader(tmp_path, CHECKOUT).follow(page, ("gate",))
