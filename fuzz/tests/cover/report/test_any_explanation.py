"""Whatever explanation a file of anybody holds that can be read can be printed too."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.core.base.case import CaseError
from fuzz.core.base.verdict import Verdict
from fuzz.findings.codec import decoded, encoded
from fuzz.report.brief import Commands, brief
from fuzz.report.failure import full_text
from fuzz.tests.cover.findings.test_codec import FULL

_VALUES: tuple[Any, ...] = (0, -1, 3, 2**70, 0.1, 1e300, "Infinity", "", "x\n::y", [], [0], [-1, 2], None, True)


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every container with each of its keys."""
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    return [pair for key, value in items for pair in ((node, key), *_places(value))]


@pytest.mark.whole
def test_what_can_be_read_can_be_printed() -> None:
    """Each value in each place in turn, and each verdict."""
    record, read = encoded(FULL), set[str]()
    for node, key in _places(record):
        before = node[key]
        for value in (*_VALUES, *([each.value for each in Verdict] if key == "verdict" else [])):
            node[key] = value
            try:
                told = decoded(record)
            except CaseError:
                continue
            text = f"{brief(told, Commands('a', 'b'))}\n{full_text(told, Commands())}"
            assert all(line.isprintable() for line in text.split("\n")), (key, value)
            read.add(f"{key}={value}")
        node[key] = before
    assert {"verdict=PASS", "got=None", "own=1e+300"} & read
    assert len(read) > 200


@pytest.mark.parametrize("shape", [[0, 3], [-1], [7]])
def test_values_that_do_not_fill_their_shape_are_refused(shape: list[int]) -> None:
    record = encoded(FULL)
    record["case"]["inputs"]["x"]["shape"] = shape
    with pytest.raises(CaseError, match="2 values do not fill the shape"):
        decoded(record)
