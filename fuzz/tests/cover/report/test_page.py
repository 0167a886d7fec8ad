"""The nightly page shows whatever kernels, cases and explanations are called, and runs none of it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from fuzz.campaign.nightly.opening import begin_slice, open_night
from fuzz.campaign.nightly.sharing import Slice
from fuzz.core.base.exits import ENDINGS, Exit
from fuzz.core.base.files import write_whole
from fuzz.core.base.verdict import Verdict
from fuzz.core.generate import sketch
from fuzz.core.generate.conditions import Together, conditions_of
from fuzz.core.judge.judge import Judgement
from fuzz.explain.explanation import Alternative, Counterfactual, Number, StatedRule, WorstElement
from fuzz.explain.finding import Finding
from fuzz.explain.rule.rule import Atom, Rule
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.codec import encoded
from fuzz.findings.database import open_state
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.database_views import NightView, view
from fuzz.findings.store import Unsaved
from fuzz.findings.tables import BucketRow, TargetRow
from fuzz.findings.tally import Point, WorstRun
from fuzz.report.console import results
from fuzz.report.night import night_outcome, night_record, pairs_of, print_night
from fuzz.report.page import page as rendered
from fuzz.report.totals import not_judged
from fuzz.tests.common.examples import plain
from fuzz.tests.common.features import N
from fuzz.tests.common.hunting import PACK
from fuzz.tests.common.told import OUTCOMES

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
    case = plain(3)
    finding = Finding(case, Judgement(target, case.digest, Verdict.FAIL_NUMERIC, reason=_EVIL))
    source, name = Source(5, _EVIL), f"{_EVIL}.json"
    bucket = Bucket(
        _EVIL, _EVIL, finding, (3, 0), target, source, Path("findings") / name.replace("/", ""), written=True
    )
    engine = open_state(folder / "state.sqlite")
    opened = open_night(engine, 1, 10.0, f"kernelfuzz nightly --pack '{_EVIL}'", {"cpu": _EVIL}, resume=False)
    begin_slice(engine, opened.position, Slice(0, "rms_norm", 5, 1.0))
    with Session(engine) as transaction, transaction.begin():
        for each, runs in ((target, True), ("c-idle@native", False), ("c-broken@native", False)):
            attested = {"broken": _EVIL} if each == "c-broken@native" else {}
            facts = {"kernel": _EVIL, "op": "rms_norm", "runs": runs, "reason": _EVIL, "attested": attested}
            transaction.add(TargetRow(night_id=opened.night, name=each, **facts))
    batch = Unsaved(
        cases=Counter({(opened.position.slice, 0): 2}),
        judged=Counter({(opened.position.slice, 0): 2}),
        counts=Counter({
            ("judged", target): 2, ("findings", target): 1, ("not_run", "c-idle@native"): 1,
            ("not_run", target): 1,
            ("compared", _EVIL): 1, ("visit", "rms_norm", _EVIL, _EVIL): 1,
        }),
        reasons={"c-idle@native": _EVIL},
        accuracy={Point(target, "f32", n, False): WorstRun(4, 0.5, 1.0, _EVIL, 1) for n in (8, 64)},
        sightings=Counter({(_EVIL, target): 1}),
        buckets={_EVIL: bucket},
    )  # fmt: skip
    assert DatabaseStore(engine, folder, opened.position).commit(batch) == ""
    with Session(engine) as transaction, transaction.begin():
        called = {"law": _EVIL, "where": _EVIL, "digest": _EVIL, "case_file": f"{_EVIL}.json"}
        transaction.execute(update(BucketRow).values(called))
    return view(engine)


def test_a_name_is_shown_and_never_run(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_whole(page, rendered(_night(tmp_path)))
    tags = _Tags()
    tags.feed(page.read_text())
    assert not tags.elements & {"img", "iframe", "object", "embed", "link"}
    [script] = re.findall("<script>(.*?)</script>", page.read_text(), re.DOTALL)
    assert "fetch" not in script
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page.read_text()
    assert not {name for name in tags.attributes if name.startswith("on") or name == "src"}
    assert tags.words.count("<script>alert(1)</script>") >= 5, "it is told as it is"


@pytest.mark.some(2)
@pytest.mark.parametrize(("ended", "code"), [
    ("limit", Exit.OK), ("signal", Exit.INTERRUPTED), ("", Exit.INTERRUPTED), ("next night", Exit.INTERRUPTED),
    ("errors", Exit.INTERNAL),
])  # fmt: skip
def test_a_night_passes_that_had_its_whole_time_and_no_errors(ended: str, code: Exit, tmp_path: Path) -> None:
    seen = _night(tmp_path)
    judged = replace(seen.targets[0], judged=5, findings=0, not_run=0, attested={})
    night = replace(seen, buckets=(), targets=(judged,), night=seen.night._replace(ended=ended))
    assert night_outcome(night).code is code


@pytest.mark.some(2)
@pytest.mark.parametrize("code", [*ENDINGS])
def test_the_banner_is_green_where_the_night_passed_and_nowhere_else(code: Exit, tmp_path: Path) -> None:
    seen = replace(_night(tmp_path), buckets=(), targets=())
    shown = rendered(seen, outcome=OUTCOMES[code])
    assert ('<header class="banner good">' in shown) is (code is Exit.OK)
    assert all(line in shown for line in not_judged(OUTCOMES[code]))


def test_a_broken_kernel_and_cases_that_were_left_out_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    page, seen = tmp_path / "report.html", _night(tmp_path)
    write_whole(page, rendered(seen))
    assert "<h1>1 kind of failure in 1 kernel, not explained, 1 kernel broken</h1>" in page.read_text()
    assert "Not every case was run on some targets." in page.read_text()
    print_night(results(), seen, ())
    said = capsys.readouterr().out
    assert f"NOT_RUN c-{_EVIL}@native:gcc-O2: {_EVIL}" in said
    assert f"CRASH  {_EVIL}  c-broken@native" in said
    assert "NOT_RUN c-broken@native" not in said
    assert "1 kind of failure in 1 kernel, not explained, broken: " in said
    assert "not explained: the share of the night for that was over" in " ".join(said.split())


def test_pairs_of_conditions_are_told_beside_other_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, seen = tmp_path / "report.html", _night(tmp_path)
    kernels = [PACK.kernel("generic"), PACK.kernel("softmax-generic")]
    bits = conditions_of("rms_norm").bits
    one, other = bits[sketch.N, "1024 to 4095"], bits[sketch.ROWS, "17 to 64"]
    held = Together({one: one | other, other: one | other})
    targets = [replace(row, kernel="generic") for row in seen.targets]
    seen = replace(seen, targets=targets, together={"rms_norm": held, "softmax": Together()})
    pairs = pairs_of(seen, kernels)
    assert [*pairs] == ["rms_norm"], "softmax was not searched"
    allowed = pairs["rms_norm"].allowed
    assert len(pairs["rms_norm"].never) == allowed - 1
    write_whole(page, rendered(seen, pairs))
    text = " ".join(page.read_text().split())
    assert f"1 of {allowed:,} pairs of conditions held together" in text
    assert "&#39; with &#39;rows " in text
    print_night(results(), seen, kernels, pairs)
    assert f"1 of {allowed:,} pairs of conditions held together; the page names" in capsys.readouterr().out
    assert night_record(seen, kernels, pairs)["pairs"]["rms_norm"]["allowed"] == allowed


def test_a_page_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of the night before stays where there is no room for the next."""

    def full_disk(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    page, seen = tmp_path / "report.html", _night(tmp_path)
    page.write_text("the night before")
    monkeypatch.setattr(Path, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_whole(page, rendered(seen))
    assert page.read_text() == "the night before"
    assert [path.name for path in tmp_path.iterdir() if "report" in path.name] == ["report.html"]


def test_what_was_put_to_a_bug_is_not_said_to_be_when_it_fails(tmp_path: Path) -> None:
    seen, page = _night(tmp_path), tmp_path / "report.html"
    bucket = seen.buckets[0]
    rule = StatedRule((Alternative(Rule((Atom(N, ">=", (3,), 1.0),))),), 9, 4, 5)
    said = []
    for stated in (None, rule):
        told = replace(bucket.told, rule=stated, beside={"FAIL_NUMERIC": 2}, explained="whole")
        bucket.row.explanation = encoded(told)
        write_whole(page, rendered(seen))
        said.append(page.read_text())
    assert [each.count("also here") for each in said] == [1, 1], "below, and not in the first lines"
    assert [each.count("n &gt;= 3") for each in said] == [0, 2]


def test_a_card_shows_which_lengths_and_which_elements_fail(tmp_path: Path) -> None:
    seen, page = _night(tmp_path), tmp_path / "report.html"
    bucket = seen.buckets[0]
    one = Number("1", "0x3f800000")
    worst = WorstElement("y", (0,), one, one, one, one, "1", 0.0, 2.0, 3, 8, contradicts=True, bad=((5, 3),))
    tried = (Counterfactual("eps", 0.1, (0.5,), ()), Counterfactual("n", 3, (4, 8), (5,)))
    bucket.row.explanation = encoded(replace(bucket.told, worst=worst, counterfactuals=tried))
    write_whole(page, rendered(seen))
    text = page.read_text()
    assert 'aria-label="n: 4, 8 pass, the others fail"' in text
    cells = re.findall(r'class="cell ([a-z ]+)">(\d+)<', text)
    assert cells == [("bad own", "3"), ("good", "4"), ("bad", "5"), ("good", "8")]
    assert '<span style="left: 62.5%; width: 37.5%"></span>' in text
