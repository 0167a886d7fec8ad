"""A kernel that cannot be started, or that never returns, ends no run: it is named, and the others run."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import fuzz
from fuzz.campaign.corpus.folder import built_in
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.base.case import Case, Output, Tensor, contiguous
from fuzz.explain.causes import Pile
from fuzz.findings.casefile import save
from fuzz.tests.common.planted import HANGS
from fuzz.tests.common.running import Running, until
from fuzz.tests.conftest import GENERIC, Cli, copy_headers, edited

Kernels = Callable[..., Path]

BAD = '#include "kernelfuzz.h"\nint kf_rms_norm(const kf_rms_norm_call *c) { return oops + c->x.shape[0]; }\n'
STUCK = edited("float total = 0.0f;", f"float total = 0.0f; if (n > 50) {HANGS}")
NATIVE = ("--target", "c-*@native:gcc-O2")
_PACK = """from pathlib import Path
from fuzz import Capabilities, CKernel, Mutant
KERNELS = tuple(
    CKernel(path.stem, "rms_norm", path, flags=("-ffp-contract=off",), capabilities=Capabilities(dtypes=("f32",)))
    for path in sorted(Path(__file__).parent.glob("*.c"))
)
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Kernels:
    """A pack of C kernels, made of their sources, in the folder `pack`."""

    def make(**sources: str) -> Path:
        folder = tmp_path / "pack"
        folder.mkdir()
        (folder / "pack.py").write_text(_PACK)
        copy_headers(folder)
        for name, source in sources.items():
            (folder / f"{name}.c").write_text(source)
        return folder

    return make


def _mutants(**totals: str) -> str:
    """Planted bugs by their names: each begins its sum elsewhere."""
    return "".join([
        f'PLANTS = {list(totals.items())!r}\n',
        'MUTANTS = tuple(Mutant(name, "good", (("float total = 0.0f;", f"float total = {total};"),),\n',
        '    ("c-*@native:gcc-O2",), "always", ("FAIL_NUMERIC",), "none") for name, total in PLANTS)\n',
    ])  # fmt: skip


def test_a_kernel_that_does_not_compile_is_a_finding_of_its_own_in_every_report(
    cli_here: Cli, kernels: Kernels, tmp_path: Path
) -> None:
    kernels(good=GENERIC, bad=BAD, worse="int kf_rms_norm(void) { return nope; }\n")
    reports = [word for name in ("junit", "sarif", "json") for word in ("--report", f"{name}={tmp_path / name}")]
    words = ("--pack", "pack", *NATIVE, "--max-cases", "32", "--seed", "1", "--json", "log.jsonl", *reports)
    done = cli_here("run", *words, "--report", f"github={tmp_path / 'summary'}", "--require", "c-bad@*")
    assert done.returncode == 1, done.stderr
    assert re.search(r"^good +1 of 1 +32 ", done.stdout, re.MULTILINE)
    assert re.search(
        r"^CRASH  bad  c-bad@native:gcc-O2\n"
        r"  what          it does not compile: \S+bad\.c:2:53: error: .oops. undeclared.*\n"
        r"(    .*\n)+"
        r"  all of it     kernelfuzz run --pack pack --target c-bad@native:gcc-O2 --max-cases 1$",
        done.stdout,
        re.MULTILINE,
    ), done.stdout
    assert ", broken: bad, worse: " in done.stdout
    assert re.search(r"^::error file=\S*bad\.c,line=2,title=kernelfuzz CRASH bad::CRASH  bad  c-bad", done.stdout, re.M)
    assert "required target c-bad@native:gcc-O2 did not run: it does not compile: " in done.stderr
    failed = [case for case in ET.parse(tmp_path / "junit").iter("testcase") if case.find("failure") is not None]
    assert [case.get("classname") for case in failed] == ["c-bad@native:gcc-O2", "c-worse@native:gcc-O2", "run"]
    [run] = json.loads((tmp_path / "sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["CRASH", "CRASH"]
    problems = json.loads((tmp_path / "json").read_text())["problems"]
    assert [problem["kernel"] for problem in problems] == ["bad", "worse"]
    header = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])
    [bad] = [target for target in header["targets"] if target["target"] == "c-bad@native:gcc-O2"]
    assert "oops" in bad["broken"]


def test_the_gate_fails_for_it(cli_here: Cli, kernels: Kernels, tmp_path: Path) -> None:
    kernels(good=GENERIC, bad=BAD)
    (tmp_path / "corpora").mkdir()
    done = cli_here("gate", "--pack", "pack", "--corpora", "corpora", *NATIVE, "--max-cases", "16")
    assert done.returncode == 1
    assert re.search(r"^gate FAILED: bad CRASH: [1-9]", done.stdout, re.MULTILINE)
    assert "it does not compile: " in done.stdout


def test_a_gate_whose_corpora_are_not_there_is_a_usage_error(cli_here: Cli, kernels: Kernels) -> None:
    kernels(good=GENERIC)
    done = cli_here("gate", "--pack", "pack", "--corpora", "/nowhere", *NATIVE)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "kernelfuzz: --corpora /nowhere: no such folder; kernelfuzz corpus add CASE --corpora /nowhere makes it\n"
    )


def test_a_planted_bug_that_does_not_compile_is_not_killed(cli_here: Cli, kernels: Kernels) -> None:
    (kernels(good=GENERIC) / "pack.py").write_text(_PACK + _mutants(broken="oops", off="9.0f"))
    done = cli_here("selftest", "--pack", "pack")
    assert done.returncode == 1, done.stderr
    assert "1 of 2 mutants killed" in done.stdout
    assert "it does not compile: " in done.stdout


def test_replaying_cases_goes_on_without_it(cli_here: Cli, kernels: Kernels, tmp_path: Path) -> None:
    kernels(good=GENERIC, bad=BAD)
    [case] = (built_in() / "historical").glob("b005-*.json")
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / case.name).write_bytes(case.read_bytes())
    verified = cli_here("corpus", "verify", "--run", "--pack", "pack", "--corpora", "corpora", *NATIVE)
    assert verified.returncode == 1
    assert "1 judged run, 0 failed" in verified.stdout
    assert "CRASH  bad  c-bad@native:gcc-O2" in verified.stdout
    replayed = cli_here("repro", str(case), "--pack", "pack", *NATIVE)
    assert replayed.returncode == 0, replayed.stderr
    assert "NOT_RUN c-bad@native:gcc-O2: it does not compile: " in replayed.stderr


def test_a_check_of_it_fails_with_what_the_compiler_said(tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text(BAD)
    kernel = CKernel("bad", "rms_norm", tmp_path / "bad.c")
    with pytest.raises(fuzz.CheckFailed, match=r"CRASH  bad  c-bad@native:gcc-O2\n(.*\n)*.*oops"):
        fuzz.check(kernel, targets=["*native:gcc-O2"], max_cases=8)


def test_a_run_ends_at_its_time_although_a_kernel_hangs(
    cli_here: Cli, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.core.execute.worker._PATIENCE_S", 3600.0)
    monkeypatch.setattr("fuzz.campaign.search.stopping._LEAST_LIMIT_S", 3600.0)
    kernels(stuck=STUCK)
    words = ("--pack", "pack", *NATIVE, "--seed", "1", "--case-limit", "1h", "--max-time", "1s")
    done = cli_here("run", *words)
    assert done.returncode == 6, done.stderr
    ended = r"the session ended while it was at rms_norm f32 \["
    said = rf"NOT_RUN c-stuck@\S+ \d+ of \d+ runs: {ended}"
    assert re.search(said, done.stdout), done.stdout
    assert re.search(r"MOSTLY NOT JUDGED, \d+ of \d+ runs have no verdict \(.*rms_norm f32", done.stdout), done.stdout


def test_a_kernel_that_hangs_is_found_in_a_short_run_whatever_its_limit(cli_here: Cli, kernels: Kernels) -> None:
    kernels(stuck=STUCK)
    words = ("--pack", "pack", *NATIVE, "--seed", "1", "--case-limit", "1h", "--max-time", "8s")
    done = cli_here("run", *words, "--no-shrink", "-j", "1")
    assert done.returncode == 1, done.stderr
    said = "^FAIL  stuck  hangs .*\n(.*\n)?.*no answer within 2 s, and again alone "
    assert re.search(said, done.stdout, re.MULTILINE)


def test_a_signal_ends_a_selftest_with_what_was_killed(kernels: Kernels, tmp_path: Path) -> None:
    """The second change is none: nothing kills it."""
    (kernels(good=GENERIC) / "pack.py").write_text(_PACK + _mutants(off="9.0f", same="0.0f + 0.0f"))
    words, log = ["selftest", "--pack", "pack", "--max-cases", "999999999", "-j", "1"], tmp_path / "log"
    with log.open("wb") as errors, Running([sys.executable, "-m", "fuzz", *words], tmp_path, errors.fileno()) as run:
        until(lambda: "[2/2] same" in log.read_text(), run)
        run.send_signal(signal.SIGTERM)
        said, _ = run.ended()
    assert run.returncode == 2, log.read_text()
    assert "1 of 1 mutant killed" in said
    assert "interrupted: 1 more mutant not hunted for" in said


def test_a_kernel_that_hangs_again_and_again_leaves_the_time_to_others(cli_here: Cli, kernels: Kernels) -> None:
    kernels(good=GENERIC, stuck=STUCK)
    words = ("--pack", "pack", *NATIVE, "--seed", "1", "--case-limit", "0.5s", "--max-cases", "200", "-j", "1")
    done = cli_here("run", *words, "--no-shrink")
    assert done.returncode == 1
    assert re.search(r"^stuck +1 of 1 +\d+ +3\b", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^good +1 of 1 +\d\d+ +0 ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"NOT_RUN c-stuck@\S+ \d+ of \d+ runs: not run again after 3 cases that hung", done.stdout)
    assert "FAIL  stuck  hangs" in done.stdout


@pytest.mark.whole
def test_a_contract_that_cannot_hold_a_row_length_says_so_of_these_cases(cli_here: Cli, tmp_path: Path) -> None:
    """The case has rows of 70,000: more than f16 counts."""
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "half.py").write_text("def rms_norm(x, y, eps, axis):\n    y.copy_(x)\n")
    (pack / "pack.py").write_text(
        "from pathlib import Path\nfrom fuzz import Capabilities, Contract, PythonKernel\n"
        "SOURCE, TAKES = Path(__file__).parent / 'half.py', Capabilities(dtypes=('f16',))\n"
        "CONTRACTS = (('half', Contract(compute='input')), ('wide', Contract()))\n"
        "KERNELS = tuple(\n"
        "    PythonKernel(name, 'rms_norm', SOURCE, 'torch', contract, TAKES, devices=('cpu',))\n"
        "    for name, contract in CONTRACTS\n"
        ")\n"
    )
    case = _long_case(tmp_path)
    done = cli_here("corpus", "verify", "--run", "--pack", "pack", "--corpora", str(case.parent))
    assert done.returncode in (0, 1), done.stderr
    assert "torch-half@cpu: what its kernel declares contradicts the case: compute: f16 cannot hold" in done.stdout
    assert "1 judged run, " in done.stdout


def _long_case(folder: Path) -> Path:
    """A case file of one long row of f16."""
    layout, path = contiguous((1, 70_000)), folder / "corpora" / "long.json"
    path.parent.mkdir()
    x = Tensor("f16", layout, b"\x00\x3c" * 70_000)
    save(path, Case("rms_norm", {"axis": 1, "eps": 0.0}, {"x": x}, {"y": Output("f16", layout)}))
    return path


def test_an_error_of_ours_in_explaining_loses_no_finding(
    cli_here: Cli, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weak(*arguments: object) -> Pile:
        raise ZeroDivisionError("by weird outputs")

    monkeypatch.setattr("fuzz.findings.explainer.causes_of", weak)
    kernels(wrong=edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n + 1, eps)"))
    done = cli_here("run", "--pack", "pack", *NATIVE, "--seed", "1", "--max-cases", "32")
    assert done.returncode == 1, done.stderr
    assert "FAIL  wrong  " in done.stdout
    said = "internal error: ZeroDivisionError: by weird outputs (test_cont"
    assert said in " ".join(done.stdout.split())
