"""The kept deviations of shipped libraries are complete, each is ready to be filed, and the docs list all of them."""

from __future__ import annotations

import ast
import re

import pytest

from fuzz.core.adapters import pack
from fuzz.quality.impact import ENDS, Trophy, kept_outcomes, since, table, trophies
from fuzz.quality.opinfo.verb import known
from fuzz.report.console import markdown_table
from fuzz.tests.common.trophies import ABOUT, CASED, DOCS, PACKS, cased, has_case, kept
from fuzz.tests.common.trophies import table as all_of_them

_MOST_LINES = 15
_PARTS = ("When: ", "Version: ", "Platform: ", "Expected: ", "Seen: ", "Since: ", "Suggestion: ")
"""The paragraphs that the text to file has, in this order."""


@pytest.mark.some(19)
@pytest.mark.parametrize("trophy", cased(), ids=lambda each: each.folder.name)
def test_its_case_can_be_run(trophy: Trophy) -> None:
    found = kept(trophy)
    assert found.found is not None, "its verdict"
    assert set(found.about) - {"also"} == {*ABOUT, *CASED}


def test_a_program_is_short_and_needs_only_the_library() -> None:
    assert len(trophies()) == len(list(trophies()[0].folder.parent.glob("*/"))), "each folder has a program"
    for trophy in trophies():
        text, name = trophy.program.read_text("utf-8"), trophy.folder.name
        lines = [line for line in text.splitlines() if line and not line.startswith(("import ", "from "))]
        assert len(lines) <= _MOST_LINES, name
        assert not re.search(r"fuzz|oracles|kernels\.|/(home|tmp|work|usr)\b", text), name
        assert ENDS in text or isinstance(ast.parse(text).body[-1], ast.Expr), name
        assert (ENDS in text) != ("sys.exit(" in text.splitlines()[-1]), f"{name}: its exit code says what it found"


def test_a_report_says_all_that_its_maintainers_need() -> None:
    record = kept_outcomes()
    for trophy in trophies():
        about, name = trophy.about, trophy.folder.name
        assert set(about) - {"also", "opinfo"} == {*ABOUT, *(CASED if has_case(trophy) else ())}, name
        assert all(about.values()), name
        report = (trophy.folder / "report.md").read_text("utf-8")
        assert report.startswith(f"# {about['source']}: {about['bug']}\n\nWhen: {about['why']}.\n\n"), name
        assert f"```python\n{trophy.program.read_text('utf-8')}```\n" in report, name
        assert "Version: {} {}".format(*trophy.library) in report, name
        assert since(trophy, record) in report.splitlines(), name
        said = [line for line in report.splitlines() if line.startswith(_PARTS)]
        assert [line.partition(" ")[0] + " " for line in said] == [*_PARTS], name
        assert all(line.endswith(".") and len(line) > len("Version: 1.") for line in said), name
        assert not re.search(r"/(home|tmp|work)/", report), name


def test_every_pack_of_a_shipped_library_loads_without_it() -> None:
    packs = sorted(path.parent for path in PACKS.glob("*/pack.py"))
    assert len(packs) >= 11
    assert all(pack.load(each).kernels for each in packs)


def test_the_docs_list_them_and_the_versions_that_were_tried() -> None:
    shown = (DOCS / "trophies.md").read_text(encoding="utf-8")
    assert all_of_them(trophies()) in shown
    assert markdown_table(table(kept_outcomes())) in shown
    assert set(kept_outcomes()) <= {each.folder.name for each in trophies()}


def test_each_known_deviation_of_torchs_list_has_a_program() -> None:
    of_list = [entry for each in trophies() for entry in each.about.get("opinfo", "").split()]
    on_a_processor = {each.partition(" ")[0] for each in known() if not each.endswith(":cuda")}
    assert sorted(of_list) == sorted(on_a_processor)
