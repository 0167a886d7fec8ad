"""The table of `fuzz/docs/allclose.md` is what the command prints, but for the seconds, which are of one machine."""

from __future__ import annotations

import re

from fuzz.quality.newcomer.verb import compared, table
from fuzz.report.console import markdown_table
from fuzz.report.words import phrase
from fuzz.tests.cover.quality.test_newcomer import rows


def test_the_table_is_what_the_command_prints() -> None:
    """It may lack a rule or a contract that takes longer than its minute; on a machine so slow that the time for
    explaining is over, nothing is asked of the words."""
    told = compared(None, 600.0)
    printed = rows(markdown_table(table(told)))
    shown = rows()
    assert printed[:2] == shown[:2]
    differing = list[str]()
    for row, cells, each in zip(shown[2:], printed[2:], told, strict=True):
        assert cells[:-1] == row[:-1]
        assert each.found, f"{each.name}: not found"
        plain = re.sub(r"\*\*.*?\*\*", f"**{phrase(each.found[0])}**", cells[-1], count=1)
        if each.explained and row[-1] not in (cells[-1], plain):
            differing.append(f"{each.name}: {cells[-1]}")
    assert not differing, "\n".join(differing)
