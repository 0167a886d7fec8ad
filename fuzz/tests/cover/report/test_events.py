"""What programs are told on stderr: each line is an event of the published schema, the last one how it ended."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from fuzz.findings.tally import Tally
from fuzz.report import events
from fuzz.tests.conftest import CHECKOUT, Cli

PUBLISHED = CHECKOUT / "fuzz" / "docs" / "events.schema.json"
KERNEL = """
import numpy as np


def row_sum(x):
    return x[..., :8].sum(-1, dtype=np.float32)
"""
PACK = """
from pathlib import Path
from fuzz import AnyOrder, Capabilities, Contract, PythonKernel
KERNELS = (
    PythonKernel("mine", "row_sum", Path(__file__).parent / "mine.py", "numpy", Contract(sums={"n": AnyOrder()}),
                 Capabilities(empty=False)),
)
"""


def told(stderr: str) -> list[dict[str, Any]]:
    """The events of what was written, each as the schema has it."""
    schema, found = json.loads(PUBLISHED.read_text()), [json.loads(line) for line in stderr.splitlines()]
    for each in found:
        jsonschema.validate(each, schema)
    return found


def test_the_schema_is_published() -> None:
    assert json.loads(PUBLISHED.read_text()) == events.schema(), (
        "write it again: python3 -m fuzz.report.events > fuzz/docs/events.schema.json, and raise VERSION"
    )


@pytest.mark.whole
def test_a_run_tells_what_it_does_as_events_and_its_results_as_ever(cli: Cli, tmp_path_factory: Any) -> None:
    pack = tmp_path_factory.mktemp("pack")
    (pack / "mine.py").write_text(KERNEL)
    (pack / "pack.py").write_text(PACK)
    done = cli("--events", "run", "--pack", str(pack), "--max-cases", "32", "--seed", "1", "--no-shrink", "-j", "1")
    found = told(done.stderr)
    assert (found[0]["event"], found[0]["seed"], found[0]["max_cases"]) == ("started", 1, 32)
    assert found[0]["targets"] == ["numpy-mine@cpu"]
    seen, explained = (
        [each for each in found if each["event"] == "finding" and each["stage"] == stage]
        for stage in ("seen", "explained")
    )
    assert seen[0]["verdict"] == "FAIL_NUMERIC"
    assert len({each["verdict"] for each in seen}) == len(seen)
    assert explained[0]["explanation"]["kernel"] == "mine"
    assert found[-1] == {
        "event": "ended", "exit": 1, "meaning": "findings, or a kernel that cannot be built or started", "error": "",
    }  # fmt: skip
    assert done.returncode == 1
    assert "FAIL  mine" in done.stdout


def test_what_a_user_got_wrong_is_an_event_too(cli_here: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[events.Event]()
    monkeypatch.setenv("KERNELFUZZ_EVENTS", "1")
    monkeypatch.setattr(events, "write", written.append)
    done = cli_here("run", "--pack", "nowhere")
    assert (done.returncode, done.stderr) == (4, "")
    [ended] = written
    assert isinstance(ended, events.Ended)
    assert (ended.exit, ended.error) == (4, "kernelfuzz: nowhere is not a pack: it has no pack.py")


def test_progress_is_told_now_and_then_and_lines_as_they_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[events.Event]()
    monkeypatch.setattr(events, "write", written.append)
    log, notes = events.EventLog(Tally(cases=3)), events.Notes()
    for elapsed in (0.0, 4.9, 5.0, 9.9, 10.1):
        log.progress(elapsed)
    notes.write("first\nsec")
    notes.write("ond\n\nthird")
    assert written == [
        events.Progressed(5.0, 3, 0, 0), events.Progressed(10.1, 3, 0, 0),
        events.Noted("first"), events.Noted("second"),
    ]  # fmt: skip
