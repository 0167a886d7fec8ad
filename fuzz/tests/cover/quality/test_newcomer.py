"""The seven kernels of the page's table: all are there, and an ordinary test says of them what the table says."""

from __future__ import annotations

import re
from pathlib import Path

from fuzz.quality.newcomer.verb import is_close
from fuzz.tests.conftest import CHECKOUT


def rows(printed: str = "") -> list[list[str]]:
    """The rows of a table, that of the page unless another is given, each without the seconds."""
    shown = _between("newcomer", CHECKOUT / "fuzz" / "docs" / "allclose.md")
    return [line.strip("| ").split(" | ")[:-2] for line in (printed or shown).splitlines()]


def _between(mark: str, page: Path) -> str:
    [shown] = re.findall(rf"<!-- {mark} -->\n(.*?)\n<!-- /{mark} -->", page.read_text(), re.DOTALL)
    return str(shown)


def test_the_table_has_a_row_for_each_kernel_with_what_assert_close_says_of_it() -> None:
    from fuzz.quality.newcomer.kernels import PLANTED

    shown = [(name, mistake, close) for name, mistake, close, _ in rows()[2:]]
    assert len(shown) == 7
    assert shown == [
        (f"`{kernel.__name__}`", str(kernel.__doc__).rstrip("."), "passes" if is_close(kernel, right) else "fails")
        for kernel, right in PLANTED.items()
    ]


def test_the_readme_has_of_that_table_what_a_newcomer_looks_for() -> None:
    said = [(mistake, close, str(re.findall(r"\*\*(.*?)\*\*", told)[0])) for _, mistake, close, told in rows()[2:]]
    shown = _between("mistakes", CHECKOUT / "README.md").splitlines()[2:]
    assert shown == [f"| {' | '.join(each)} |" for each in said]
