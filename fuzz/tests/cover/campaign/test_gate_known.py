"""Known failures: what they cover, when they fail the gate, and what a broken file says."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from fuzz.campaign.gate.session import Before, Known, KnownError, KnownFailures, load_known
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.findings.bucket import Bucket
from fuzz.tests.common.planted import a_case

_TODAY = date(2026, 11, 21)


def _entry(**changes: object) -> Known:
    values = {"kernel": "mine", "verdict": "FAIL_NUMERIC", "issue": "https://x/1", "expires": date(2027, 1, 31)}
    return Known(**{**values, **changes})  # type: ignore[arg-type]


def test_a_file_is_read_from_toml_and_json_alike(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        "[[known]]\nkernel = 'mine'\nverdict = 'FAIL_NUMERIC'\nissue = 'https://x/1'\nexpires = 2027-01-31\n"
    )
    (tmp_path / "a.json").write_text(
        '{"known": [{"kernel": "mine", "verdict": "FAIL_NUMERIC", "issue": "https://x/1", "expires": "2027-01-31"}]}'
    )
    assert load_known(tmp_path / "a.toml") == load_known(tmp_path / "a.json") == (_entry(),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[known]]\nkernel = 'mine'\n", "entry 1: verdict is missing"),
        ("[[known]]\nkernel='m'\nverdict='PASS'\nissue='i'\nexpires=2027-01-31\n", "'PASS' is not the verdict"),
        ("[[known]]\nkernel='m'\nverdict='CRASH'\nissue='i'\nexpires='soon'\n", "'soon' is not a day"),
        ("[[known]]\nkernel='m'\nverdict='CRASH'\nissue='i'\nexpires=2027-01-31\nlwa='x'\n", "lwa means nothing"),
        ("[[known]]\nkernel='m'\nverdict='CRASH'\nissue='i'\nexpires=2027-01-31\ncase='no.json'\n", "does not exist"),
        ("known = 3\n", "must hold a list called 'known'"),
        ("[[known]\n", "known.toml: "),
    ],
)
def test_a_broken_file_is_one_clear_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(KnownError, match=complaint):
        load_known(path)


def test_an_entry_covers_its_kernel_verdict_law_and_targets_only() -> None:
    entry = _entry(verdict="FAIL_LAW", law="rerun", target="c-mine@native:*")
    assert entry.covers("mine", "FAIL_LAW", "rerun", "c-mine@native:gcc-O2")
    assert not entry.covers("mine", "FAIL_LAW", "scaling", "c-mine@native:gcc-O2")
    assert not entry.covers("mine", "FAIL_NUMERIC", "rerun", "c-mine@native:gcc-O2")
    assert not entry.covers("other", "FAIL_LAW", "rerun", "c-mine@native:gcc-O2")
    assert not entry.covers("mine", "FAIL_LAW", "rerun", "c-mine@qemu:gcc-O2")


def test_an_expired_entry_fails_the_gate_on_its_day_even_while_it_still_fails() -> None:
    watch = KnownFailures([_entry(expires=_TODAY)], _TODAY)
    assert watch.covering("mine", "FAIL_NUMERIC", "", "c-mine@native:gcc-O2") is not None
    assert watch.complaints({"mine"}, {"mine"}) == [
        "known failure expired: mine FAIL_NUMERIC (https://x/1, until 2026-11-21)"
    ]


def test_an_entry_that_no_longer_fails_fails_the_gate_where_it_was_looked_for() -> None:
    watch = KnownFailures([_entry()], _TODAY)
    assert watch.complaints({"mine"}, {"mine"}) == [
        "known failure is gone: remove mine FAIL_NUMERIC (https://x/1, until 2027-01-31)"
    ]
    # Without a search, and without a case file, nobody looked.
    assert watch.complaints({"mine"}, set()) == []
    assert watch.notes({"mine"}, set())[0].startswith("known failure not looked for: mine FAIL_NUMERIC")
    with_case = KnownFailures([_entry(case=Path("kept.json"))], _TODAY)
    assert len(with_case.complaints({"mine"}, set())) == 1
    assert with_case.covering("mine", "FAIL_NUMERIC", "", "c-mine@native:gcc-O2") is not None
    assert with_case.complaints({"mine"}, set()) == []


def test_a_case_that_two_kernels_failed_on_is_named_for_each(tmp_path: Path) -> None:
    """One is mended and the other is not; its digest alone would name both."""
    case, digest = a_case(), a_case().digest[:12]
    paths = {name: tmp_path / f"{name}-fail_numeric-{digest}.json" for name in ("mine", "other")}
    for path in paths.values():
        path.write_text("{}")
    buckets = {name: Bucket(name, name, target=f"c-{name}@native", path=path) for name, path in paths.items()}
    seen = Before(buckets, dict.fromkeys(buckets, 1), names={case.digest: ("mine", "other")})
    verdicts = {"c-mine@native": Verdict.PASS, "c-other@native": Verdict.FAIL_NUMERIC}
    seen.judged(case, [Judgement(target, case.digest, verdict) for target, verdict in verdicts.items()])
    said = f"mine, since night 1: passes now: kernelfuzz repro mine-fail_numeric-{digest[:6]} --store ..."
    assert seen.better == (said,)
