"""The gate as a user runs it: in a repository, on a small pack, against a small corpus."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fuzz.campaign.corpus.folder import built_in
from fuzz.cli import app
from fuzz.core.adapters.c import CAdapter
from fuzz.core.adapters.target import Target
from fuzz.core.adapters.toolchain import Host
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.common.validity import valid_sarif
from fuzz.tests.conftest import GENERIC, copy_headers, edited

Cli = Callable[..., CompletedProcess[str]]

_PACK = """from pathlib import Path
from fuzz import Capabilities, CKernel
HERE = Path(__file__).parent
KERNELS = tuple(
    CKernel(name, "rms_norm", HERE / f"{name}.c", flags=("-ffp-contract=off",),
            capabilities=Capabilities(dtypes=("f32", "f16"), strides="rows", aliases=(("y", "x"),)))
    for name in ("first", "second")
)
"""
_DROPS_EPS = edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, 0.0f * eps)")
_WRONG_IN_B005 = edited("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (n == 37 ? 1.5f : 1.0f);")
_LESS_ACCURATE = edited("total += x[i] * x[i];", "total += x[i] * x[i] * (1.0f + 3.0e-7f);")


@dataclass(frozen=True)
class Shown:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str


@dataclass(frozen=True)
class Repository:
    """A committed pack of two kernels, 'first' and 'second', and a corpus of three documented cases."""

    folder: Path
    printed: Callable[[], str]

    def gate(self, *options: str, cases: int = 48, corpora: str = "corpora") -> Shown:
        """Run the gate in this process: starting one costs more than a small gate."""
        given = ["gate", "--pack", "pack", "--corpora", corpora, "--max-cases", str(cases)]
        given += [] if "--explain-time" in options else ["--no-shrink"]
        given += options
        code = app(given, standalone_mode=False)
        return Shown(code, self.printed())

    def edit(self, kernel: str, source: str) -> None:
        (self.folder / "pack" / f"{kernel}.c").write_text(source)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Repository:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    pack, historical = tmp_path / "pack", tmp_path / "corpora" / "historical"
    pack.mkdir()
    historical.mkdir(parents=True)
    (pack / "pack.py").write_text(_PACK)
    for name in ("first", "second"):
        (pack / f"{name}.c").write_text(GENERIC)
    copy_headers(pack)
    for name in ("b005", "b014", "eps-dropped"):
        [file] = (built_in() / "historical").glob(f"{name}-*.json")
        shutil.copy(file, historical)
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    for command in (["init"], ["add", "-A"], ["commit", "-m", "first"]):
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True, capture_output=True)
    return Repository(tmp_path, lambda: capsys.readouterr().out)


def _timeless(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    last = json.loads(lines[-1])
    assert last["kind"] == "summary"
    del last["elapsed_s"]
    return [*lines[:-1], json.dumps(last)]


def test_the_same_commit_gives_the_same_answer_and_the_same_record(repository: Repository) -> None:
    for name in ("a", "b"):
        shown = repository.gate(
            "--json", f"{name}.jsonl", "--report", f"junit={name}.xml", "--report", f"sarif={name}.sarif"
        )
        assert shown.returncode == 0, shown.stdout
        assert "cases: historical 3, search 48" in shown.stdout
        assert "gate passed" in shown.stdout
    assert _timeless(repository.folder / "a.jsonl") == _timeless(repository.folder / "b.jsonl")
    for kind in ("xml", "sarif"):
        assert (repository.folder / f"a.{kind}").read_bytes() == (repository.folder / f"b.{kind}").read_bytes()


def test_what_is_kept_for_other_kernels_is_counted_apart_and_their_accuracy_left_alone(repository: Repository) -> None:
    kept = sorted((built_in() / "historical").glob("*.json"))
    foreign = next(path for path in kept if '"op": "rms_norm_backward"' in path.read_text())
    shutil.copy(foreign, repository.folder / "corpora" / "historical")
    accuracy = repository.folder / "corpora" / "accuracy.json"
    shutil.copy(built_in() / "accuracy.json", accuracy)
    before = accuracy.read_bytes()
    shown = repository.gate(cases=16)
    assert shown.returncode == 0, shown.stdout
    assert "cases: historical 3 of 4, search 16; no target here takes the others" in shown.stdout
    assert "accuracy not compared: corpora/accuracy.json is of other kernels; see --corpora DIR" in shown.stdout
    with pytest.raises(UsageError, match="whose accuracy would be lost: name a folder of your own"):
        repository.gate("--update-accuracy")
    assert accuracy.read_bytes() == before


def test_of_a_pack_of_ones_own_nothing_is_said_that_is_about_ours(repository: Repository, tmp_path: Path) -> None:
    """Cases and accuracy of the built-in kernels lie in the checkout, and nobody asked for them."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "pack.py").write_text(_OWN_OP)
    (tmp_path / "own" / "mine.py").write_text("def doubled(x):\n    return x + x\n")
    with unknown_afterwards():
        code = app(["gate", "--pack", "own", "--max-cases", "16", "-j", "1"], standalone_mode=False)
    said = repository.printed()
    assert (code, "\ncases: search 16\n" in said) == (0, True), said
    assert "accuracy" not in said
    assert "corpora" not in said


_OWN_OP = """
from pathlib import Path
from fuzz import Op, Operand, PythonKernel

def doubled(x):
    return {"y": x + x}

OPS = (Op(doubled, (Operand("x", "... n"),), (Operand("y", "... n"),)),)
KERNELS = (PythonKernel("mine", "doubled", Path(__file__).parent / "mine.py", "numpy"),)
"""


def test_only_kernels_that_differ_from_the_base_are_searched(repository: Repository) -> None:
    repository.edit("second", GENERIC + "/* edited */\n")
    shown = repository.gate("--base", "HEAD", "--json", "out.jsonl", cases=16)
    assert shown.returncode == 0, shown.stdout
    assert "changed since HEAD: second (second.c)" in shown.stdout
    records = [json.loads(line) for line in (repository.folder / "out.jsonl").read_text().splitlines()]
    runs = [record["target"].split("@")[0] for record in records if record["kind"] == "run"]
    assert runs.count("c-first") == 2 * 3  # the kept cases, at -O0 and -O2
    assert runs.count("c-second") > 2 * 3


def test_slow_targets_are_given_some_batches_of_a_search_and_every_kept_case(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = CAdapter.targets

    def with_slow_ones(adapter: CAdapter, kernel: Kernel, host: Host) -> Iterator[Target]:
        yield from (replace(target, slow=target.name.opt == "O0") for target in every(adapter, kernel, host))

    monkeypatch.setattr(CAdapter, "targets", with_slow_ones)
    monkeypatch.setattr("fuzz.campaign.gate.session.SLOW_CASES", 16)
    assert repository.gate("--json", "out.jsonl", "-k", "second", cases=64).returncode == 0
    records = [json.loads(line) for line in (repository.folder / "out.jsonl").read_text().splitlines()]
    runs = [record["target"] for record in records if record["kind"] == "run"]
    slow, quick = runs.count("c-second@native:gcc-O0") - 3, runs.count("c-second@native:gcc-O2") - 3
    assert 0 < slow < quick / 2


def test_a_planted_bug_is_named_with_its_kernel_and_what_it_breaks(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.edit("second", _WRONG_IN_B005)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    reports = ("--report", "github", "--report", "json=out.json", "--report", "sarif=out.sarif")
    shown = repository.gate("--base", "HEAD", *reports, "--no-shrink")
    assert shown.returncode == 1
    assert "\nFAIL  second  " in shown.stdout
    [result] = valid_sarif((repository.folder / "out.sarif").read_text())["runs"][0]["results"]
    assert result["message"]["text"].startswith("FAIL  second  ")
    assert "gate FAILED: second FAIL_NUMERIC" in shown.stdout
    assert "not searched: cases fail already (historical)" in shown.stdout
    assert "not run on the 2 targets of kernels that were not changed: it fails already" in shown.stdout
    source = (repository.folder / "pack" / "second.c").read_text()
    changed = source[: source.index("n == 37")].count("\n") + 1
    assert f"::error file=pack/second.c,line={changed}," in shown.stdout, "on the line that was changed"
    assert "<summary>everything that is known</summary>" in (repository.folder / "summary.md").read_text()
    report = json.loads((repository.folder / "out.json").read_text())
    assert [(p["kernel"], p["verdict"]) for p in report["problems"]] == [("second", "FAIL_NUMERIC")]
    assert list((repository.folder / "findings").glob("second-fail_numeric-*.json"))


def test_a_known_failure_passes_until_it_expires_or_is_gone(repository: Repository) -> None:
    [case] = (repository.folder / "corpora" / "historical").glob("eps-dropped-*.json")
    entry = f"[[known]]\nkernel = 'second'\nverdict = 'FAIL_NUMERIC'\nissue = 'https://x/1'\ncase = '{case}'\n"
    known = repository.folder / "known.toml"
    known.write_text(entry + "expires = 2999-01-01\n")
    repository.edit("second", _DROPS_EPS)
    shown = repository.gate("--known", "known.toml", "-k", "second", cases=0)
    assert shown.returncode == 0, shown.stdout
    assert "known failure, https://x/1:" in shown.stdout
    assert "; 1 known failure: " in shown.stdout
    known.write_text(entry + "expires = 2020-01-01\n")
    expired = repository.gate("--known", "known.toml", "-k", "second", cases=0)
    assert expired.returncode == 1
    assert "known failure expired: second FAIL_NUMERIC (https://x/1, until 2020-01-01)" in expired.stdout
    known.write_text(entry + "expires = 2999-01-01\n")
    repository.edit("second", GENERIC)
    fixed = repository.gate("--known", "known.toml", "-k", "second", cases=0)
    assert fixed.returncode == 1
    assert "known failure is gone: remove second FAIL_NUMERIC" in fixed.stdout


@pytest.mark.whole
def test_fail_fast_ends_a_gate_at_the_first_failure_that_nobody_knew_of(repository: Repository) -> None:
    entry = "[[known]]\nkernel = 'second'\nverdict = '{}'\nissue = 'https://x/1'\nexpires = 2999-01-01\n"
    known = "".join(map(entry.format, ("FAIL_NUMERIC", "FAIL_NONFINITE")))
    (repository.folder / "known.toml").write_text(known)
    repository.edit("second", _DROPS_EPS)
    words = ("--known", "known.toml", "--fail-fast", "--base", "HEAD")
    passed = repository.gate(*words, cases=64)
    assert passed.returncode == 0, passed.stdout
    assert "cases: historical 3, search 64" in passed.stdout
    repository.edit("first", edited("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (n % 4 == 1 ? 1.5f : 1.0f);"))
    failing = repository.gate(*words, cases=2000)
    assert failing.returncode == 1
    assert "stopped at the first failure" in failing.stdout
    assert "known failure is gone" not in failing.stdout
    assert "search" not in failing.stdout.partition("cases: ")[2].partition("\n")[0]


@pytest.mark.whole
def test_accuracy_lost_within_tolerance_is_reported_and_fails_where_asked(repository: Repository) -> None:
    written = repository.gate("--update-accuracy", cases=0)
    assert (written.returncode, "written to corpora/accuracy.json" in written.stdout) == (0, True), written.stdout
    repository.edit("second", _LESS_ACCURATE)
    shown = repository.gate("--base", "HEAD", cases=0)
    assert shown.returncode == 0, shown.stdout
    assert "less accurate than before: second on c-second@native:gcc-O2 in f32: err/budget rose " in shown.stdout
    assert "first on" not in shown.stdout
    assert repository.gate("--strict-accuracy", cases=0).returncode == 1
    path = repository.folder / "corpora" / "accuracy.json"
    record = path.read_text()
    assert f"{platform.machine()} " in record
    path.write_text(record.replace("gcc 1", "gcc 0"))
    elsewhere = repository.gate("--strict-accuracy", cases=0)
    assert elsewhere.returncode == 0, elsewhere.stdout
    assert "accuracy not compared for c-first@native:gcc-O0 and 3 more: measured on " in elsewhere.stdout


def test_what_had_to_run_and_did_not_has_its_own_exit_code(repository: Repository) -> None:
    shown = repository.gate("--require", "c-first@native:gcc-O3", cases=0)
    assert shown.returncode == 10
    assert "required target c-first@native:gcc-O3: no such target" in shown.stdout


def test_a_changed_kernel_that_runs_nowhere_fails_the_gate(repository: Repository) -> None:
    repository.edit("first", GENERIC + "/* edited */\n")
    (repository.folder / "empty").mkdir()
    nothing = repository.gate("--base", "HEAD", cases=0, corpora="empty")
    assert nothing.returncode == 10
    assert "first was changed (first.c) and ran nowhere: no case fits it" in nothing.stdout
    assert repository.gate("-k", "first", cases=0, corpora="empty").returncode == 5, "without --base nothing is no pass"


def test_nothing_to_judge_passes_where_no_kernel_was_changed(repository: Repository) -> None:
    (repository.folder / "empty").mkdir()
    shown = repository.gate("--base", "HEAD", cases=16, corpora="empty")
    assert shown.returncode == 0, shown.stdout
    assert "nothing to judge: no kernel was changed, and no kept case is there to run" in shown.stdout
    assert "no file differs from HEAD" in shown.stdout
    assert "gate passed: 0 " in shown.stdout
    (repository.folder / "README.md").write_text("about\n")
    reports = ("text=t", "json=j", "github=g")
    unused = repository.gate(
        "--base", "HEAD", *(word for each in reports for word in ("--report", each)), cases=16, corpora="empty"
    )
    assert unused.returncode == 0, unused.stdout
    said = [unused.stdout, *((repository.folder / name).read_text() for name in "tjg")]
    assert all("no kernel depends on what changed since HEAD: README.md" in text for text in said), said
    required = repository.gate("--base", "HEAD", "--require", "c-first@*", cases=16, corpora="empty")
    assert required.returncode != 0, required.stdout


def test_kept_cases_of_other_kernels_alone_are_nothing_to_judge(repository: Repository) -> None:
    """As of a pack of one's own, gated from a checkout whose corpora none of its kernels takes."""
    other = _PACK.replace('("f32", "f16")', '("f64",)')
    (repository.folder / "pack" / "pack.py").write_text(other)
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", *identity, "commit", "-qam", "f64"], cwd=repository.folder, check=True)
    shown = repository.gate("--base", "HEAD", cases=16)
    assert shown.returncode == 0, shown.stdout
    assert "nothing to judge: no kernel was changed, and no kept case is there to run" in shown.stdout
    assert "no file differs from HEAD" in shown.stdout


def test_a_kept_case_where_no_gate_looks_is_named(repository: Repository) -> None:
    (repository.folder / "corpora" / "historical").rename(repository.folder / "corpora" / "mine")
    shown = repository.gate("-k", "first", cases=1)
    assert shown.returncode == 0, shown.stdout
    assert "not run: corpora/mine/b005-" in shown.stdout
    assert " and 2 more: a gate runs regressions/, historical/ only" in shown.stdout


def test_bad_input_is_one_clear_line(cli_here: Cli, tmp_path: Path) -> None:
    shown = cli_here("gate", "--report", "html=x")
    assert (shown.returncode, shown.stdout) == (4, "")
    wanted = (
        "kernelfuzz: --report html=x: write FORMAT=FILE; the formats are text, json, junit, sarif, github, comment\n"
    )
    assert shown.stderr == wanted
