"""The nightly page shows whatever kernels, cases and explanations are called, and runs none of it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sqlalchemy.orm import Session as Transaction

from fuzz.findings.database import TargetRow, open_state
from fuzz.findings.database_deltas import Accuracy, BucketDelta, Delta, Point, TargetCounts, write
from fuzz.findings.database_views import NightView, view
from fuzz.report.page import write_page
from fuzz.uses.nightly.opening import begin_slice, open_night
from fuzz.uses.nightly.schedule import Turn

_EVIL = "</style></svg><script>alert(1)</script><img src=x onerror='alert(2)'>\" onload=\"alert(3)"


class _Tags(HTMLParser):
    """Every element that a browser would make, every attribute that it would run, and the words between."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def _night(folder: Path) -> NightView:
    """One night in which everything that somebody else may name is called so."""
    target = f"c-{_EVIL}@native:gcc-O2"
    columns = {
        "kernel": _EVIL, "op": "rms_norm", "verdict": "FAIL_LAW", "law": _EVIL, "target": target, "core": "",
        "need": "", "case_file": f"{_EVIL}.json", "digest": _EVIL, "size": 3, "where": _EVIL, "text": _EVIL,
        "explanation": _EVIL, "triaged": _EVIL, "found_by": _EVIL,
    }  # fmt: skip
    delta = Delta(
        cases=2,
        laws=Counter({_EVIL: 1}),
        coverage=Counter({("rms_norm", _EVIL, _EVIL): 1}),
        accuracy={Point(target, "f32", n, False): Accuracy(4, 0.5, 1.0, _EVIL, 1) for n in (8, 64)},
        pace={0: [2, 2]},
        targets={target: TargetCounts(judged=2, findings=1), "c-idle@native": TargetCounts(not_run=1, reason=_EVIL)},
        buckets={_EVIL: BucketDelta(columns, Counter({target: 1}))},
    )
    engine = open_state(folder / "state.sqlite")
    opened = open_night(engine, 1, 10.0, f"kernelfuzz nightly --pack '{_EVIL}'", {"cpu": _EVIL}, resume=False)
    begin_slice(engine, opened.place, Turn(0, "rms_norm", 5, 1.0))
    with Transaction(engine) as transaction, transaction.begin():
        for name, runs in ((target, True), ("c-idle@native", False)):
            counts = {"judged": 0, "findings": 0, "gave_up": 0, "not_run": 0}
            facts = {"kernel": _EVIL, "op": "rms_norm", "runs": runs, "reason": _EVIL, "attested": {}}
            transaction.add(TargetRow(night_id=opened.night, name=name, **facts, **counts))
    with Transaction(engine) as transaction, transaction.begin():
        write(transaction, delta, opened.place.clock())
    return view(engine)


def test_a_name_is_shown_and_never_run(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(page, _night(tmp_path))
    tags = _Tags()
    tags.feed(page.read_text())
    assert not tags.elements & {"script", "img", "iframe", "object", "embed", "link"}
    assert not {name for name in tags.attributes if name.startswith("on") or name == "src"}
    assert tags.words.count("<script>alert(1)</script>") >= 5, "it is told as it is"


def test_a_page_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of the night before stays where there is no room for the next."""

    def full_disk(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    page, seen = tmp_path / "report.html", _night(tmp_path)
    page.write_text("the night before")
    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_page(page, seen)
    assert page.read_text() == "the night before"
    assert [path.name for path in tmp_path.iterdir() if "report" in path.name] == ["report.html"]
