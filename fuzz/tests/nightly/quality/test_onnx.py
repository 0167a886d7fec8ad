"""One in eight of ONNX's tests of nodes, and those known to be wrong, bring no deviation that nobody has read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.core.transport.python.attest import installed_version
from fuzz.quality.onnx_nodes import verb
from fuzz.quality.onnx_nodes.cases import node_cases
from fuzz.quality.onnx_nodes.judging import all_answers
from fuzz.quality.onnx_nodes.verb import known, new_deviations
from fuzz.tasks.comparison import WRONG
from fuzz.tests.common.listings import listings
from oracles.tests.common.whole import WHOLE

_ONE_IN = 8
_VERSION = "1.23.2"
PAGE = Path(verb.__file__).parents[2] / "docs" / "onnx.md"


@pytest.fixture(autouse=True)
def _has_onnx() -> None:
    if (found := installed_version("onnx")) != _VERSION:
        assert not WHOLE, f"onnx is {found}: the night installs .ci/thirdparty.txt"
        pytest.skip(f"onnx is {found or 'not installed'}, not {_VERSION}")


def test_stored_outputs_are_wrong_only_where_somebody_has_read_it() -> None:
    cases = node_cases()
    names = sorted({*sorted(cases)[::_ONE_IN], *known()})
    found = [*all_answers([cases[name] for name in names], 2)]
    assert not new_deviations(found)
    assert {each.name for each in found if each.result == WRONG} == {*known()}
    floats = [each for each in found if each.floats]
    assert sum(bool(each.by) for each in floats) > 0.85 * len(floats)


def test_the_program_of_the_page_shows_each_deviation(tmp_path: Path) -> None:
    files = {each.mark.removeprefix("file="): each.text for each in listings(PAGE) if each.mark.startswith("file=")}
    (tmp_path / "stored.py").write_text(files["stored.py"], encoding="utf-8")
    words = [sys.executable, "-W", "ignore", "stored.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout == files["stored.txt"], done.stderr
