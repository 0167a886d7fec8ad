"""One snapshot for each kind of report: whoever changes its words writes the files again with `--snapshot-update`, and
reviews what changed in them. Other tests compare records."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session
from syrupy.assertion import SnapshotAssertion

from fuzz.campaign.nightly.opening import begin_slice, open_night
from fuzz.campaign.nightly.sharing import Slice
from fuzz.core.base.files import write_whole
from fuzz.core.base.verdict import Verdict
from fuzz.core.judge.judge import Judgement
from fuzz.explain.explanation import (
    Alternative,
    Attribution,
    Counterfactual,
    FittingContract,
    Mechanism,
    Places,
    SharedCondition,
    StatedRule,
    Suggestion,
    UnsetRead,
    Unsteady,
)
from fuzz.explain.finding import Finding
from fuzz.explain.rule.rule import Atom, Learned, Rule
from fuzz.findings.bucket import Bucket, Source
from fuzz.findings.codec import encoded
from fuzz.findings.database import open_state
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.database_views import NightView, view
from fuzz.findings.store import Unsaved
from fuzz.findings.tables import SessionRow, TargetRow
from fuzz.findings.tally import Point, WorstRun
from fuzz.report.brief import Commands, brief
from fuzz.report.console import results
from fuzz.report.failure import full_text
from fuzz.report.night import print_night
from fuzz.report.page import page as rendered
from fuzz.report.totals import remarks
from fuzz.report.words import mechanism_evidence, mechanism_words, what_is_wrong
from fuzz.tests.common.examples import plain
from fuzz.tests.common.features import N
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.common.steady import TextSnapshot, steady, words_of_page
from fuzz.tests.common.told import NOTHING, OUTCOMES
from fuzz.tests.conftest import CHECKOUT, Cli, Suite
from fuzz.tests.cover.findings.test_codec import FULL

_PACK = """from pathlib import Path

from fuzz import Op, Operand, PythonKernel

HERE = Path(__file__).parent


def doubled(x):
    return {"y": 2.0 * x}


OPS = (Op(doubled, inputs=(Operand("x", "... n"),), outputs=(Operand("y", "... n"),)),)
KERNELS = tuple(PythonKernel(name, "doubled", HERE / f"{name}.py", "numpy") for name in ("right", "short"))
"""
_RIGHT = "def doubled(x):\n    return 2 * x\n"
_SHORT = "def doubled(x):\n    y = 2 * x\n    y[..., x.shape[-1] // 4 * 4 :] = 0\n    return y\n"
_REFERENCE = "def doubled(x):\n    return 2 * x\n"
_NEVER = "import torch\n\n\ndef doubled(x):\n    return torch.log(-1 - x * x)\n"
_SEARCH = ("--pack", "pack", "-j", "1", "--seed", "1", "--max-cases", "24", "--no-shrink")


@pytest.fixture
def reports(snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch) -> SnapshotAssertion:
    """Snapshots as files of text, of processes with two threads: torch has as many as the machine has cores."""
    monkeypatch.setattr("torch.get_num_threads", lambda: 2)
    return snapshot.use_extension(TextSnapshot)


@pytest.fixture
def said(cli_here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a command prints in a folder that has a pack with a right and a wrong kernel, and its exit code."""
    (tmp_path / "pack").mkdir()
    for name, text in {"pack.py": _PACK, "right.py": _RIGHT, "short.py": _SHORT}.items():
        (tmp_path / "pack" / name).write_text(text)
    for name, text in {"reference.py": _REFERENCE, "never.py": _NEVER, "right.py": _RIGHT, "short.py": _SHORT}.items():
        (tmp_path / name).write_text(text if "torch" in text else f"import numpy as np\n\n\n{text}")

    def run(*words: str) -> str:
        with unknown_afterwards():
            done = cli_here(*words)
        shown = (
            f"$ kernelfuzz {' '.join(words)}\n{done.stdout}--- stderr\n{done.stderr}--- exit code {done.returncode}\n"
        )
        return steady(shown, tmp_path, CHECKOUT)

    return run


def test_a_search_and_what_is_asked_about_its_findings(
    said: Callable[..., str], reports: SnapshotAssertion, tmp_path: Path
) -> None:
    written = ("--report", "text=run.txt", "--report", "github=run.md", "--report", "json=run.json")
    assert said("run", *_SEARCH, *written) == reports(name="run that fails")
    assert steady((tmp_path / "run.txt").read_text(), tmp_path) == reports(name="text of a run that fails")
    assert steady((tmp_path / "run.md").read_text(), tmp_path) == reports(name="markdown of a run that fails")
    [case] = map(str, (tmp_path / "findings").glob("*.json"))
    for verb, *more in (["repro"], ["show"], ["show", "--snippet"], ["repro", "--json", "-"]):
        shown = said(verb, case, "--pack", "pack", *more)
        assert shown == reports(name=" ".join(("verb", verb, *more)).replace(" -", "").replace("verb ", ""))


def test_a_search_that_finds_nothing(said: Callable[..., str], reports: SnapshotAssertion) -> None:
    assert said("run", *_SEARCH, "-k", "right", "-v") == reports


def test_a_gate(said: Callable[..., str], reports: SnapshotAssertion, tmp_path: Path) -> None:
    (tmp_path / "corpora").mkdir()
    search = ("gate", "--pack", "pack", "--corpora", "corpora", "--max-cases", "24", "--no-shrink", "-j", "1")
    assert said(*search) == reports(name="fails")
    assert said(*search, "-k", "right") == reports(name="passes")


def test_a_night(tmp_path: Path, capsys: pytest.CaptureFixture[str], reports: SnapshotAssertion) -> None:
    seen, page = _night(tmp_path), tmp_path / "report.html"
    print_night(results(), seen, ())
    assert steady(capsys.readouterr().out, tmp_path) == reports(name="text")
    write_whole(page, rendered(seen))
    assert steady(words_of_page(page.read_text()), tmp_path) == reports(name="page")


def _night(folder: Path) -> NightView:
    """A night that ended, with a bug that is explained and a target that did not run."""
    target, case = "c-short@native:gcc-O2", plain(3)
    finding = Finding(case, Judgement(target, case.digest, Verdict.FAIL_NUMERIC))
    told = replace(NOTHING, kernel="short", op="rms_norm", source="short.c", target=target, rule=_STANDS)
    bucket = Bucket(
        "short", "short", finding, (3, 0), target, Source(5, "kernelfuzz nightly"), Path("findings/short.json"),
        written=True, explanation=told, pending=False,
    )  # fmt: skip
    engine = open_state(folder / "state.sqlite")
    opened = open_night(engine, 1, 10.0, "kernelfuzz nightly --max-time 10s", {"cpu": "a processor"}, resume=False)
    begin_slice(engine, opened.position, Slice(0, "rms_norm", 5, 1.0))
    with Session(engine) as transaction, transaction.begin():
        for name, runs in ((target, True), ("c-idle@native", False)):
            facts = {"kernel": name[2:].partition("@")[0], "op": "rms_norm", "runs": runs}
            reason = "" if runs else "gcc is not installed"
            transaction.add(TargetRow(night_id=opened.night, name=name, reason=reason, attested={}, **facts))
    place = (opened.position.slice, 0)
    batch = Unsaved(
        cases=Counter({place: 20}), judged=Counter({place: 20}),
        counts=Counter({("judged", target): 20, ("findings", target): 4}),
        accuracy={Point(target, "f32", n, False): WorstRun(4, 0.5, 1.0, "normal", 1) for n in (8, 64)},
        sightings=Counter({("short", target): 4}), buckets={"short": bucket},
    )  # fmt: skip
    assert DatabaseStore(engine, folder, opened.position).commit(batch) == ""
    with Session(engine) as transaction, transaction.begin():
        transaction.execute(update(SessionRow).values(used_s=0.5))
    return view(engine)


def test_what_a_judge_says(said: Callable[..., str], reports: SnapshotAssertion) -> None:
    words = ("--shapes", "x=... n", "--seed", "1", "--max-cases", "16", "--no-shrink", "--against")
    assert said("judge", "right.py", "short.py", *words, "reference.py") == reports(name="right and wrong")
    assert said("judge", "right.py", *words, "never.py", "--json") == reports(name="undecided")


def test_what_a_suite_says(suite: Suite, pytester: pytest.Pytester, reports: SnapshotAssertion) -> None:
    pytester.makepyfile(
        test_mine=f"import fuzz\nfrom reference import doubled\n\n{_SHORT.replace('doubled', 'short')}\n"
        "def test_short():\n    fuzz.check(short, reference=doubled, shapes='x=... n', max_cases=8, seed=1)\n\n\n"
        "def test_right():\n    fuzz.check(doubled, reference=doubled, shapes='x=... n', max_cases=8, seed=1)\n"
    )
    pytester.makepyfile(reference=_REFERENCE)
    shown = suite("--kernelfuzz-output", "kept", here=True)
    assert steady(_of_ours(shown.outlines), pytester.path) == reports


def _of_ours(lines: Sequence[str]) -> str:
    """Return what the report of a test suite says that is not pytest's own."""
    raised, told = [line for line in lines if line.startswith("E ")], "\n".join(lines).partition("= kernelfuzz =")[2]
    return "\n".join((*raised, *told.partition("\n===")[0].splitlines()[1:], ""))


@pytest.mark.parametrize(
    "words",
    [
        "run --pack nowhere", "run --pack pack -k nothing", "run --pack pack --max-time soon", "run --nosuch",
        "repro nosuch", "show nosuch", "judge nosuch.py --against reference.py", "judge right.py", "explain nosuch",
        "gate --pack pack --corpora nowhere", "list nosuch", "report nowhere", "corpus list --pack pack --corpora no",
    ],
)  # fmt: skip
def test_bad_input(words: str, said: Callable[..., str], reports: SnapshotAssertion) -> None:
    assert said(*words.split()) == reports


@pytest.mark.parametrize(
    "words",
    ["list kernels --pack pack", "list targets --pack pack", "explain FAIL_NUMERIC", "explain 10",
     "explain bad elements"],
)  # fmt: skip
def test_listings(words: str, said: Callable[..., str], reports: SnapshotAssertion) -> None:
    assert said(*words.split()) == reports


def test_what_a_doctor_says_of_a_pack(said: Callable[..., str], reports: SnapshotAssertion, tmp_path: Path) -> None:
    """What is installed on this machine is left out."""
    pack = tmp_path / "pack" / "pack.py"
    pack.write_text(pack.read_text() + 'KERNELS += (PythonKernel("away", "doubled", HERE / "away.py", "numpy"),)\n')
    assert said("doctor", "--pack", "pack").partition("\n\n")[2] == reports


_HALF = Rule((Atom(N, ">=", (4,), 1.0),))
_STANDS = StatedRule((Alternative(_HALF),), 49, 20, 20, searched=9)
_SHARED = SharedCondition(_HALF, 12)
_CHANGES = (Counterfactual("n", 2, (4, 8, 9, 10, 11, 12), (1, 2, 3), against=20), Counterfactual("rows", 1, (), (2,)))
_FITS = FittingContract(
    "expanded=True", "expanded=False", 3.0, 1.2, 0.5, 12, 6, 1, telling=True, meaning="what is expanded",
)  # fmt: skip
_TOLD = {
    "nothing": NOTHING,
    "everything": FULL,
    "a rule": replace(NOTHING, rule=_STANDS, counterfactuals=_CHANGES),
    "a rule that values hide": replace(NOTHING, rule=replace(_STANDS, hidden=3, met=20)),
    "no rule": replace(NOTHING, shared=_SHARED, counterfactuals=_CHANGES[1:]),
    "no time": replace(NOTHING, explained="in part", option="--explain-time", counterfactuals=_CHANGES),
    "none sought": replace(NOTHING, explained="in part", option="--no-shrink"),
    "not explained": replace(NOTHING, explained="not yet", note="not explained", option="--explain-time"),
    "a contract": replace(NOTHING, contract=_FITS),
    "a wide contract": replace(NOTHING, contract=replace(_FITS, telling=False, width=math.inf, typical=9.0)),
    "no elements": replace(NOTHING, suggestion=Suggestion("Capabilities(empty=False)", 3, 1)),
    "no multiple": replace(NOTHING, suggestion=Suggestion("a multiple", 3, 4, "n", 4)),
    "no long rows": replace(NOTHING, suggestion=Suggestion("a limit", 3, 4, "n")),
    "memory that nobody set": replace(NOTHING, unset=UnsetRead(("registers", "stack"), ("NaN", "ones"))),
    "another result each time": replace(NOTHING, unsteady=Unsteady(32, 7, 3, "y", (0, 1), 2, 9)),
    "everywhere": replace(NOTHING, places=Places("y", Learned(Rule(), 12, 12))),
    "who fails": replace(NOTHING, attribution=Attribution("compiler and flags", "it fails at -O2 and passes at -O0")),
    "a law": replace(NOTHING, verdict=Verdict.FAIL_LAW, law="rerun", reason="y[0] = 1, and again 2"),
}


@pytest.mark.parametrize("name", _TOLD)
def test_what_is_told_of_a_failure(name: str, reports: SnapshotAssertion) -> None:
    commands = Commands("repro", "show", "alone", "case.json", "as found", "run")
    both = brief(_TOLD[name], commands), full_text(_TOLD[name], commands)
    assert "\n\n".join(both) + "\n" == reports


def test_what_is_kept_of_a_failure(reports: SnapshotAssertion) -> None:
    assert json.dumps(encoded(FULL), indent=1) + "\n" == reports


def test_what_each_verdict_and_mechanism_is_called(reports: SnapshotAssertion) -> None:
    kinds = get_args(get_type_hints(Mechanism)["kind"])
    found = [Mechanism(each, "x", "n", (1, 3), 5, 2.5, "exp(x) overflows") for each in kinds]
    lines = [f"{each.kind}: {mechanism_words(each)} | {mechanism_evidence(each)}" for each in found]
    verdicts = [each for each in Verdict if each.is_finding]
    lines += [f"{each}: {what_is_wrong(replace(NOTHING, verdict=each, law='scaling'))}" for each in verdicts]
    assert "\n".join(lines) + "\n" == reports


def test_what_a_use_ends_with(reports: SnapshotAssertion) -> None:
    lines = [f"{code.name}: {'; '.join((each.ending, *remarks(each)))}" for code, each in OUTCOMES.items()]
    assert "\n".join(lines) + "\n" == reports
