"""The map of the house is true: its folders are those that the linter orders, and its links lead somewhere."""

from __future__ import annotations

import re
import tomllib

import pytest

from fuzz import __all__ as public
from fuzz.docs.reference import DECLARATIONS, PAGES
from fuzz.tests.conftest import CHECKOUT

DOCS = CHECKOUT / "fuzz" / "docs"
MAP = (DOCS / "README.md").read_text()
TABLES = {"layers": "fuzz", "core": "fuzz.core", "interpretations": "oracles.formula"}


def _layers(inside: str = "fuzz") -> list[str]:
    """The folders of a package in which the linter orders any, the lowest first."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    folders = {path.parent.name for path in (CHECKOUT / inside.replace(".", "/")).glob("*/__init__.py")} - {"tests"}
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = [
        each for contract in contracts for row in reversed(contract.get("layers", ())) for each in row.split(" | ")
    ]
    inner = [each.removeprefix(f"{inside}.").partition(".")[0] for each in layers if each.startswith(f"{inside}.")]
    ordered = [each for each in dict.fromkeys(inner) if each in folders]
    assert {*ordered} == folders, "a folder that no rule orders"
    return ordered


@pytest.mark.parametrize(
    ("table", "inside"), [("layers", "fuzz"), ("oracles", "oracles"), ("interpretations", "oracles.formula")]
)
def test_the_folders_of_the_map_are_those_that_the_linter_orders(table: str, inside: str) -> None:
    rows = MAP.partition(f"<!-- {table} -->")[2].partition(f"<!-- /{table} -->")[0]
    assert re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE) == _layers(inside)


def test_the_way_of_a_case_goes_through_folders_in_the_order_of_the_house() -> None:
    way = MAP.partition("<!-- way -->")[2].partition("<!-- /way -->")[0]
    stages = re.findall(r"^\| `(\w+)` \|", way, re.MULTILINE)
    layers = [*_layers("fuzz.core"), *_layers()]
    assert {*stages} <= {*layers}
    judged = stages[stages.index("judge") :]
    assert judged == sorted(judged, key=layers.index)


def test_every_link_of_the_docs_leads_to_a_file() -> None:
    for page in (CHECKOUT / "README.md", *(CHECKOUT / ".github").glob("*.md"), *DOCS.glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            assert not target.startswith("generated/"), f"{page.name}: {target} is on the site alone"


def test_every_page_has_one_place_in_the_site() -> None:
    trees = re.findall(r"^```\{toctree\}\n(.*?)```$", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    placed = [re.sub(r".* <(.*)>", r"\1", line) for line in lines]
    pages = [path.stem for path in DOCS.glob("*.md") if path.stem != "index"]
    assert sorted(placed) == sorted([*pages, *(f"generated/{name}" for name in PAGES)])


def test_nothing_inside_imports_the_public_surface() -> None:
    inside = re.compile(r"^\s*(?:from fuzz import|import fuzz$|import fuzz as)", re.MULTILINE)
    files = (CHECKOUT / "fuzz").rglob("*.py")
    engine = [path for path in files if path.relative_to(CHECKOUT).parts[1] not in ("tests", "docs")]
    assert len(engine) > 100
    packs = [path for path in engine if path.match("quality/*/pack.py")]
    assert [path.name for path in engine if path not in packs and inside.search(path.read_text())] == []


def test_no_folder_has_more_lines_than_its_budget() -> None:
    rows = (line.split() for line in (CHECKOUT / ".ci" / "lines.txt").read_text().splitlines() if line[0] != "#")
    budgets = {folder: int(most) for folder, most in rows}
    counted: dict[str, int] = {}
    for path in (path for package in ("fuzz", "oracles") for path in (CHECKOUT / package).rglob("*.py")):
        inside = path.relative_to(CHECKOUT)
        if "tests" not in inside.parts:
            folder = "/".join(inside.parts[:-1][:2])
            counted[folder] = counted.get(folder, 0) + len(path.read_text().splitlines())
    assert counted.keys() == budgets.keys()
    over = {folder: lines for folder, lines in counted.items() if lines > budgets[folder]}
    assert not over, f"more lines than .ci/lines.txt allows: {over}"


def test_a_class_has_a_name_of_its_own() -> None:
    files = [path for package in ("fuzz", "oracles") for path in (CHECKOUT / package).rglob("*.py")]
    named: dict[str, list[str]] = {}
    for path in files:
        if "tests" not in path.relative_to(CHECKOUT).parts:
            for name in re.findall(r"^ *class (\w+)", path.read_text(), re.MULTILINE):
                named.setdefault(name, []).append(str(path.relative_to(CHECKOUT)))
    assert {name: where for name, where in named.items() if len(where) > 1} == {}


def test_what_the_page_of_declarations_names_is_public() -> None:
    assert {name for names in DECLARATIONS.values() for name in names} <= {*public}
