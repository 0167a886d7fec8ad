"""Kept cases: files that say what they are, cases whose bits never change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fuzz.campaign.corpus.contents import checked, contents
from fuzz.campaign.corpus.folder import Kept, built_in, entries_of, file_name, in_batches, keep, kept_cases, subsumed
from fuzz.campaign.nightly.known import SharedFolder, known_cases
from fuzz.core.base.case import CaseError, contiguous
from fuzz.findings.casefile import FoundRecord
from fuzz.tests.common.planted import a_case
from fuzz.tests.conftest import edited

Cli = Callable[..., CompletedProcess[str]]


def test_every_documented_case_says_which_bug_it_shows_and_is_named_by_its_digest() -> None:
    documented = [kept for kept in kept_cases(built_in() / "historical") if kept.path.stem != "sve-tail-dont-care"]
    assert len(documented) > 60
    for kept in documented:
        assert {"bug", "source", "why"} <= set(kept.about), kept.path
        assert kept.path.stem.endswith(kept.case.digest[:12])


def test_a_case_and_its_twin_stay_in_one_batch() -> None:
    [kept] = [kept for kept in kept_cases(built_in() / "historical") if kept.about.get("law") == "batch_subset"]
    pair = entries_of(kept)
    assert [entry.check is None for entry in pair] == [True, False]
    for batch in in_batches([pair] * 40):
        assert len(batch) % 2 == 0


OTHER = "c-other@native:gcc-O2"


def _found(n: int, target: str = "c-mine@native:gcc-O2") -> Kept:
    case = replace(a_case(contiguous((1, n))), params={"eps": 2.0**-17, "axis": 1})
    return Kept(Path(), case, FoundRecord(target, "FAIL_NUMERIC", 1, "0.1.0"))


def test_only_the_smallest_of_the_same_failure_on_the_same_kind_of_input_stays(tmp_path: Path) -> None:
    small, large, elsewhere = _found(65), _found(129), _found(129, OTHER)
    documented = Kept(Path(), a_case(contiguous((1, 193))), small.found, {"bug": "B001"})
    dropped = subsumed([large, small, elsewhere, documented])
    assert [(each.kept, each.by) for each in dropped] == [(large, small)]


def test_cases_are_added_merged_and_pruned_by_their_digest(cli_here: Cli, tmp_path: Path) -> None:
    findings, corpora = tmp_path / "findings", tmp_path / "corpora"
    for n in (65, 129):
        path = keep(_found(n), findings)
        assert path is not None
        path.rename(findings / f"planted-{path.name}")
    first = findings / f"planted-{file_name(_found(65).case)}"
    added = cli_here("corpus", "add", str(first), "--corpora", "corpora", "--bug", "T1", "--why", "one sentence")
    assert (added.returncode, added.stderr) == (0, "")
    [kept] = kept_cases(corpora / "regressions")
    assert kept.about == {"bug": "T1", "why": "one sentence"}
    merged = cli_here("corpus", "merge", "findings", "--corpora", "corpora")
    assert merged.stdout.splitlines()[-1] == "1 new case"
    listed = cli_here("corpus", "list", "--corpora", "corpora").stdout
    assert "T1: one sentence" in listed
    assert "FAIL_NUMERIC on c-mine@native:gcc-O2" in listed
    assert cli_here("corpus", "verify", "--corpora", "corpora").stdout.endswith("2 cases, all sound\n")


def test_a_case_of_another_packs_op_is_left_out_and_counted(tmp_path: Path) -> None:
    path = keep(_found(65), tmp_path)
    assert path is not None
    path.write_text(path.read_text().replace('"op": "rms_norm"', '"op": "theirs"'))
    assert str(checked(tmp_path)).endswith("not checked, as no loaded pack has their ops: 1 file")
    assert [row[2] for row in contents(tmp_path).rows] == ["of an op that no loaded pack has"]
    assert [*kept_cases(tmp_path, others=True)] == []
    with pytest.raises(CaseError, match="unknown op 'theirs'"):
        [*kept_cases(tmp_path)]


def test_a_file_that_is_no_case_or_was_altered_is_named(tmp_path: Path) -> None:
    [original] = (built_in() / "historical").glob("b005-*.json")
    victim, text = tmp_path / original.name, original.read_text()
    for change, complaint in (
        (text.replace('"structured": false', '"structured": true'), "it was altered"),
        (text.replace("kernelfuzz case", "kernelfuzz something"), "no case file: it has no field"),
        (text.replace('"why": "', '"law": "gravity", "why": "'), "unknown law 'gravity'"),
        ("{", "not a JSON file"),
    ):
        victim.write_text(change)
        with pytest.raises(CaseError, match=f"{victim.name}.*{complaint}"):
            list(kept_cases(tmp_path))
    victim.write_text(text)
    victim.rename(victim.with_name("b005-000000000000.json"))
    with pytest.raises(CaseError, match=r"b005-000000000000\.json: named by a digest that is not its own"):
        list(kept_cases(tmp_path))


@pytest.mark.whole
def test_kept_cases_are_judged_and_a_kernel_that_fails_one_is_shown(
    cli_here: Cli, planted: Callable[..., Path], tmp_path: Path
) -> None:
    pack = planted(edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, 0.0f * eps)"))
    shown = cli_here("corpus", "verify", "--run", "--pack", str(pack), "--corpora", str(built_in()))
    assert shown.returncode == 1, shown.stderr
    assert "no kernel takes" in shown.stdout  # strides that the planted kernel does not take


def test_a_missing_corpus_is_one_clear_line(cli_here: Cli) -> None:
    """What only reads a corpus does not make one."""
    shown = cli_here("corpus", "list", "--corpora", "nowhere")
    assert (shown.returncode, shown.stderr) == (4, "kernelfuzz: nowhere: no such folder\n")


def test_machines_give_each_other_findings_and_prune_only_their_own_part(tmp_path: Path) -> None:
    """Two machines, one of which has a larger case of the same failure, and one of another kernel."""
    said, ops, disk = list[str](), ["rms_norm"], tmp_path / "disk"
    places = {name: SharedFolder(disk, name, said.append) for name in ("one", "two")}
    for name, found in (("one", [_found(129), _found(257, OTHER)]), ("two", [_found(65)])):
        for each in found:
            keep(each, tmp_path / name)
        places[name].publish(tmp_path / name, ops)
    assert len([*(disk / "one").iterdir()]) == 2, "nobody had shown a smaller case"
    places["one"].publish(tmp_path / "one", ops)
    parts = {name: sorted(path.name for path in (disk / name).iterdir()) for name in places}
    assert parts == {"one": [file_name(_found(257).case)], "two": [file_name(_found(65).case)]}
    known, _ = known_cases([tmp_path / "one"], ops)
    assert [each.case.digest for each in places["one"].of_others(known, ops)] == [_found(65).case.digest]
    [theirs] = places["two"].of_others([], ops)
    assert theirs.found is not None
    assert theirs.found.target == OTHER
    places["one"].publish(tmp_path / "one", ops)
    assert parts == {name: sorted(path.name for path in (disk / name).iterdir()) for name in places}
    (disk / "one" / "broken.json").write_text("{")
    assert len(places["two"].of_others([], ops)) == 1
    assert said == []
