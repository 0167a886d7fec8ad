"""The map of the house is true: its folders are those that the linter orders, and its links lead somewhere."""

from __future__ import annotations

import re
import tomllib

from fuzz.tests.common.listings import listings
from fuzz.tests.conftest import CHECKOUT

DOCS = CHECKOUT / "fuzz" / "docs"
MAP = (DOCS / "README.md").read_text()


def _layers() -> list[str]:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    [contract] = settings["tool"]["importlinter"]["contracts"]
    return [layer.removeprefix("fuzz.") for layer in reversed(contract["layers"]) if layer.startswith("fuzz.")]


def test_the_folders_of_the_map_are_those_that_the_linter_orders() -> None:
    table = MAP.partition("<!-- layers -->")[2].partition("<!-- /layers -->")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == _layers()
    packages = {path.parent.name for path in (CHECKOUT / "fuzz").glob("*/__init__.py")}
    assert packages == {*_layers()}, "a folder of the engine that no rule orders"


def test_the_way_of_a_case_goes_through_folders_in_the_order_of_the_house() -> None:
    [picture] = [listing for listing in listings(DOCS / "README.md") if listing.language == "mermaid"]
    stages = re.findall(r"subgraph (\w+)", picture.text)
    assert {*stages} <= {*_layers()}
    judged = stages[stages.index("judge") :]
    assert judged == sorted(judged, key=_layers().index)


def test_every_link_of_the_docs_leads_to_a_file() -> None:
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_nothing_inside_imports_the_public_surface() -> None:
    inside = re.compile(r"^\s*(?:from fuzz import|import fuzz$|import fuzz as)", re.MULTILINE)
    engine = [path for path in (CHECKOUT / "fuzz").rglob("*.py") if "tests" not in path.parts]
    assert len(engine) > 100
    assert [path.name for path in engine if inside.search(path.read_text())] == []
