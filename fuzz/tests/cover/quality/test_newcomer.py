"""The seven kernels of the README's table: all are there, and an ordinary test says of them what the table says."""

from __future__ import annotations

import re

from fuzz.quality.newcomer.verb import is_close
from fuzz.tests.conftest import CHECKOUT


def rows(printed: str = "") -> list[list[str]]:
    """The rows of a table, that of the README unless another is given, each without the seconds."""
    page = (CHECKOUT / "README.md").read_text()
    [shown] = re.findall(r"<!-- newcomer -->\n(.*?)\n<!-- /newcomer -->", page, re.DOTALL)
    return [line.strip("| ").split(" | ")[:-2] for line in (printed or shown).splitlines()]


def test_the_table_has_a_row_for_each_kernel_with_what_assert_close_says_of_it() -> None:
    from fuzz.quality.newcomer.kernels import PLANTED

    shown = [(name, mistake, close) for name, mistake, close, _ in rows()[2:]]
    assert len(shown) == 7
    assert shown == [
        (f"`{kernel.__name__}`", str(kernel.__doc__).rstrip("."), "passes" if is_close(kernel, right) else "fails")
        for kernel, right in PLANTED.items()
    ]
