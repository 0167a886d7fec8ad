"""`kernelfuzz run` and `repro` as a user meets them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fuzz.core.adapters.isa import ISAS
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.generate.search import Search
from fuzz.core.generate.turn import BATCH, PLACES
from fuzz.tests.common.running import Running, until
from fuzz.tests.common.told import counts_of
from fuzz.tests.conftest import CHECKOUT, GENERIC, Cli, edited, run_cli
from oracles.tests.common.whole import WHOLE

SVE_LENGTHS = [value for [(_, value)] in ISAS["sve"].combinations]

Planted = Callable[..., Path]


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


CASES = 1409 if WHOLE else 82
"""no multiple of the number of ops: they share it out, and run no case more."""
_TARGETS = (
    "c-*,torch-eager@cpu,triton-dual@interpret"
    if WHOLE
    else "c-sve@*,c-neon@*,c-avx2@*,c-generic@*,c-composed@*,c-dispatch@native:*,c-layer-norm-neon@*,c-softmax-g*@*"
)


@pytest.fixture(scope="module")
def whole_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """One run with records: over kernels of three ops, of each kind of target, and at night over all in C and two in
    Python."""
    folder = tmp_path_factory.mktemp("run")
    words = f"--max-cases {CASES} --seed 7 --target {_TARGETS} --json out.jsonl -j 2"
    done = run_cli(folder, "run", *words.split())
    return done, _records(folder / "out.jsonl")


def test_every_target_is_attested_and_nothing_is_found(whole_run: Any) -> None:
    done, records = whole_run
    assert done.returncode == 0, done.stdout + done.stderr
    targets = {target["target"]: target for target in records[0]["targets"]}
    for bits in SVE_LENGTHS:
        for opt in ("O0", "O2"):
            sve = targets[f"c-sve@qemu:vl={bits},gcc-{opt}"]
            assert (sve["runs"], sve["settings"]["vl"], sve["arch"]) == (True, bits, "aarch64")
    for name in ("c-neon@qemu:gcc-O0", "c-avx2@qemu:gcc-O2", "c-generic@native:gcc-O2", "c-dispatch@native:gcc-O0"):
        assert targets[name]["runs"], targets[name]
    assert "nothing found" in done.stdout


def test_each_judged_run_leaves_a_record_and_the_summary_adds_up(whole_run: Any) -> None:
    _, records = whole_run
    told = [record for record in records if record["kind"] == "run"]
    # What a target gets wrong by its own probe, as Triton's interpreter does bf16, is told and not judged.
    runs = [record for record in told if record["verdict"] != "NOT_RUN"]
    assert all(record["target"].endswith("@interpret") for record in told if record not in runs)
    summary = records[-1]
    assert summary["kind"] == "summary"
    assert summary["cases"] == CASES
    assert summary["judged"] == len(runs) == sum(target["judged"] for target in summary["targets"])
    assert {record["verdict"] for record in runs} == {"PASS"}
    idle = {target["target"] for target in summary["targets"] if target["judged"] == 0 and not target["not_run"]}
    # Rows that a kernel insists on, such as whole tiles of 2,048, are rare in the few cases of the interpreter.
    assert all(name.endswith("@interpret") for name in idle), idle


@pytest.mark.whole
def test_the_same_seed_gives_the_cases_of_a_name_whatever_targets_were_chosen(
    whole_run: Any, cli_here: Cli, tmp_path: Path
) -> None:
    """Fewer targets leave out turns that are drawn for others, and change none."""
    _, first = whole_run
    share = str(CASES // len({record["op"] for record in first if record["kind"] == "run"}))
    again = cli_here("run", "--max-cases", share, "--seed", "7", "--target", "c-composed@*", "--json", "again.jsonl")
    assert again.returncode == 0, again.stderr
    search = Search("rms_norm", 7, load(built_in()).kernels)
    for records in (first, _records(tmp_path / "again.jsonl")):
        named = {r["name"]: r["case"] for r in records if "name" in r and r["op"] == "rms_norm"}
        assert len(named) > 5
        for name, digest in named.items():
            made = search.case(*map(int, name.split(":")[2:]))
            assert made is not None
            assert made.case.digest == digest
    assert all(r["target"].startswith("c-composed@") for r in _records(tmp_path / "again.jsonl") if r["kind"] == "run")


@pytest.mark.whole
def test_every_case_that_a_record_names_can_be_replayed_also_where_nothing_was_found(
    cli_here: Cli, tmp_path: Path
) -> None:
    """A case that follows from earlier verdicts has no name."""
    words = ("--op", "rms_norm", "--target", "c-generic@native:gcc-O2", "--seed", "7")
    assert cli_here("run", *words, "--max-cases", "200", "--json", "out.jsonl").returncode == 0
    runs = [record for record in _records(tmp_path / "out.jsonl") if record["kind"] == "run" and "name" in record]
    for record in (runs[0], runs[-1]):
        shown = cli_here("repro", record["name"], "--target", "c-generic@native:gcc-O2", "--json", "case.json")
        assert shown.returncode == 0, shown.stderr
        assert record["case"] in (tmp_path / "case.json").read_text()
    place, _, number = runs[0]["name"].rpartition(":")
    shown = cli_here("repro", f"{place}:{int(number) // PLACES * PLACES + BATCH + 1}")
    assert shown.returncode == 4
    assert "a guide proposed this case, after what was judged before: replay its case file" in shown.stderr


def test_a_planted_bug_is_found_kept_and_replayed(cli_here: Cli, planted: Planted, tmp_path: Path) -> None:
    pack = planted(_TAIL_OFF)
    found = cli_here("run", "--pack", str(pack), "--max-cases", "64", "--seed", "1", "--json", "out.jsonl", *_SHOWN)
    assert found.returncode == 1
    (path,) = (tmp_path / "findings").glob("planted-fail_numeric-*.json")
    positions = [found.stdout.index(word) for word in _ORDER]
    assert positions == sorted(positions), "the failure text is out of order"
    command = re.search(r"reproduce +kernelfuzz (repro .*)", found.stdout)
    assert command is not None
    assert path.name in command[1]
    printed = cli_here(*shlex.split(command[1]))
    assert printed.returncode == 1, "the command must work as it is printed"
    assert "FAIL_NUMERIC" in printed.stdout
    place = re.search(r"as found +kernelfuzz (repro 1:rms_norm:\d+:\d+ .*)", found.stdout)
    assert place is not None
    by_place = cli_here(*shlex.split(place[1]))
    assert (by_place.returncode, "FAIL_NUMERIC" in by_place.stdout) == (1, True), by_place.stderr
    by_digest = cli_here("repro", path.stem[-12:-5], "--pack", str(pack), "--script", "shown.c")
    assert by_digest.returncode == 1, by_digest.stderr
    assert (tmp_path / "shown.c").read_text().startswith("/* FAIL_NUMERIC of c-planted@native")
    assert f"kernelfuzz run --seed 1 --pack {pack} --max-cases 64\n" in found.stdout, "it searches the same cases"
    assert any(record["kind"] == "finding" for record in _records(tmp_path / "out.jsonl"))

    again = cli_here("repro", str(path), "--pack", str(pack))
    assert again.returncode == 1
    assert "FAIL_NUMERIC" in again.stdout
    words = ("--target", "c-clean@*", "--json", "repro.json")
    clean = cli_here("repro", str(path), "--pack", str(planted(GENERIC, "clean")), *words)
    assert clean.returncode == 0, clean.stdout
    judged = json.loads((tmp_path / "repro.json").read_text())["judgements"]
    assert {judgement["verdict"] for judgement in judged} == {"PASS"}


_TAIL_OFF = edited("y[i] = x[i] * rstd;", "y[i] = x[i] * rstd * (n % 16 == 15 ? 1.5f : 1.0f);")
_SHOWN = ("-v", "--no-shrink")
_ORDER = (
    "FAIL_NUMERIC  planted  c-planted@native",
    "strides",
    "mod 64 bytes",
    "worst         y[",
    "got           ",
    "expected      ",
    "ulp, err/budget",
    "budget        ",
    "reproduce     ",
    "case file     ",
)


def test_a_kernel_that_crashes_is_a_finding_and_the_run_goes_on(cli_here: Cli, planted: Planted) -> None:
    pack = planted(edited("{ return each_row", "{ if (call->eps > 1.0f) __builtin_trap(); return each_row"))
    done = cli_here("run", "--pack", str(pack), "--max-cases", "64", "--seed", "1")
    assert done.returncode == 1
    assert "FAIL  planted  crashes" in done.stdout
    assert "of 64 cases" in done.stdout


def _running(folder: Path, *options: str) -> Running:
    """`kernelfuzz run` beside the test, both its streams in one."""
    return Running([sys.executable, "-m", "fuzz", "run", *options], folder, stderr=subprocess.STDOUT)


@pytest.mark.whole
def test_a_killed_worker_loses_nothing(planted: Planted, tmp_path: Path) -> None:
    """Killed from outside, a worker is replaced; the run goes on as if nothing had happened."""
    pack = planted(GENERIC)
    killed, rounds, seen = set[int](), 0, 0
    with _running(tmp_path, "--pack", str(pack), "-j", "2", "--json", "out.jsonl") as run:

        def enough() -> bool:
            """Kill the workers twice, once others have taken the place of those that were killed: a worker that has
            nothing to do is missed only then. A third time might be taken for the kernel's doing."""
            nonlocal rounds, seen
            judged, workers = _text(tmp_path / "out.jsonl").count('"kind":"run"'), _workers_of(run.pid)
            if judged == seen or len(workers) < 2 or killed.intersection(workers):
                return False
            if rounds == 2:
                return judged > seen + 200
            for pid in workers:
                with contextlib.suppress(ProcessLookupError):  # a keeper ends with its worker
                    os.kill(pid, signal.SIGKILL)
            killed.update(workers)
            rounds, seen = rounds + 1, judged
            return False

        until(enough, run)
        run.send_signal(signal.SIGINT)
        output, _ = run.ended()
    assert run.returncode == 2, output
    assert "nothing found" in output
    assert "restarted" in output
    records = _records(tmp_path / "out.jsonl")
    cases = {record["case"] for record in records if record["kind"] == "run"}
    assert len({target["judged"] for target in records[-1]["targets"]}) == 1, "a target missed a case"
    assert len(cases) > 100


def _workers_of(run: int) -> list[int]:
    """Keepers of the workers of the processes that search."""
    children = [line.split() for each in _children(run) for line in _children(int(each.split()[0]))]
    return [int(pid) for pid, name in children if name.startswith("worker-")]


def _children(parent: int) -> list[str]:
    command = ["ps", "-o", "pid=,comm=", "--ppid", str(parent)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.some(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_the_table_and_exit_code_2(
    planted: Planted, tmp_path: Path, number: signal.Signals
) -> None:
    with _running(tmp_path, "--pack", str(planted(GENERIC)), "--json", "out.jsonl") as run:
        until(lambda: '"kind":"run"' in _text(tmp_path / "out.jsonl"), run)
        run.send_signal(number)
        output, _ = run.ended()
    assert run.returncode == 2, output
    assert "nothing found" in output


_OF_EVERY_KIND = """
from fuzz.core.adapters.pack import built_in, load
KERNELS = tuple(load(built_in()).kernel(name) for name in ("generic", "sve", "compiled"))
"""
"""one that runs without a tool, and one for each tool that is missing."""


@pytest.fixture
def without_qemu(tmp_path: Path) -> dict[str, str]:
    """The variables of a machine that has compilers and no emulator."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("gcc", "as", "ld", "aarch64-linux-gnu-gcc"):
        path = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        (tools / name).symlink_to(path)
    return {"PATH": str(tools)}


@pytest.mark.whole
def test_without_qemu_targets_are_not_run_and_a_required_one_has_its_own_exit_code(
    cli: Cli, without_qemu: dict[str, str]
) -> None:
    some = ("run", "--op", "rms_norm", "--max-cases", "16", "--target", "c-sve@*,c-generic@native:gcc-O2")
    done = cli(*some, "--require", "c-sve@*", **without_qemu)
    assert done.returncode == 10
    assert "required target c-sve@qemu:vl=128,gcc-O0 did not run" in done.stderr
    others = 2 * len(SVE_LENGTHS) - 1
    assert f"NOT_RUN c-sve@qemu:vl=128,gcc-O0 and {others} more: " in done.stdout
    assert re.findall(r"^([a-z]+) +\d+ of \d+ ", done.stdout, re.MULTILINE) == ["generic"], "a table of what ran"
    assert "qemu-aarch64 is not installed (Debian has it in qemu-user; see " in done.stdout
    nothing = cli("run", "--op", "rms_norm", "--max-time", "8h", "--target", "c-sve@*", **without_qemu)
    assert nothing.returncode == 5
    assert counts_of(nothing.stdout) == (0, 0), "it takes no time to do nothing"
    assert "nothing found" not in nothing.stdout


@pytest.mark.whole
def test_without_qemu_the_doctor_says_what_is_missing(cli: Cli, without_qemu: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(_OF_EVERY_KIND)
    doctor = cli("doctor", "--pack", ".", **without_qemu)
    assert "qemu-user" in doctor.stdout
    assert re.search(r"^g\+\+ +missing: g\+\+ is not installed", doctor.stdout, re.MULTILINE), "torch.compile needs it"
    assert "kernelfuzz doctor --install" in doctor.stdout


def test_a_required_target_that_does_not_exist_is_known_before_the_run(cli_here: Cli) -> None:
    done = cli_here("run", "--require", "c-typo@*")
    assert done.returncode == 10
    assert "required target c-typo@*: no such target" in done.stderr


def test_a_compile_error_is_shown_whole(cli_here: Cli, planted: Planted) -> None:
    done = cli_here("run", "--pack", str(planted("int kf_rms_norm(void) { return oops; }\n")), "--max-cases", "16")
    assert done.returncode == 1
    assert "CRASH  planted" in done.stdout
    assert "$ /" in done.stdout, "the compiler's command"
    assert "oops" in done.stdout
    assert "undeclared" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.some(8)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--max-time", "soon"], "30s, 5m or 8h"),
        (["run", "--target", "c-nothing@*"], "no target matches --target c-nothing@*;"),
        (["run", "--max-time", "0s"], "must be more than 0"),
        (["run", "--output", "/etc/passwd"], "/etc/passwd cannot be written"),
        (["run", "--report", "junit=/etc/passwd/a.xml"], "/etc/passwd cannot be written"),
        (["list"], "fuzz list --help"),
        (["run", "--op", "rms_norm,no_such_op"], "no kernel of an op 'no_such_op'"),
        (["run", "-k", "sve and"], "a word is missing at the end"),
        (["run", "--pack", "/nowhere"], "is not a pack"),
        (["run", "--max-cases", "0"], "max-cases"),
        (["run", "--frobnicate"], "--frobnicate"),
        (["repro", "/nowhere.json"], "cannot be read: No such file"),
        (["frobnicate"], "frobnicate"),
        (["list", "colours"], "colours"),
        (["selftest", "-k", "no-such-mutant"], "no mutant matches"),
    ],
)
def test_bad_input_gets_one_clear_line_and_exit_code_4(cli_here: Cli, arguments: list[str], words: str) -> None:
    done = cli_here(*arguments)
    assert done.returncode == 4, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.replace("\n    ", " ").strip().splitlines()) <= 2


def test_an_altered_case_file_is_refused(cli_here: Cli, tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text("{}")
    done = cli_here("repro", "case.json")
    assert done.returncode == 4
    assert "case.json: not a case file" in done.stderr


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = ("numpy", "mpmath", "hypothesis", "sqlalchemy", "jinja2", "fuzz.core.adapters", "fuzz.campaign", "oracles")
    code = f"import sys, fuzz.cli; print([name for name in {heavy!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert answer.stdout.strip() == "[]"


@pytest.mark.whole
def test_a_full_disk_loses_no_finding(cli_here: Cli, planted: Planted) -> None:
    pack = planted(_TAIL_OFF)
    command = ("run", "--pack", str(pack), "--max-cases", "64", "--seed", "1", "--no-shrink")
    done = cli_here(*command, "--output", "/proc/findings")
    assert done.returncode == 1
    assert "FAIL  planted  " in done.stdout
    assert "/proc/findings" in done.stderr
    assert "cannot be written" in done.stderr
    records = cli_here("run", "--target", "c-generic@*", "--max-cases", "64", "--seed", "1", "--json", "/dev/full")
    assert records.returncode == 3
    assert "/dev/full: incomplete: No space left on device" in records.stderr
    assert "nothing found" in records.stdout
    assert cli_here("run", "--json", "/proc/nowhere/out.jsonl").returncode == 4


def test_coverage_names_its_gaps(cli_here: Cli, tmp_path: Path) -> None:
    short = cli_here(
        "run", "--max-cases", "64", "--seed", "1", "--target", "c-composed@*", "--coverage", "--json", "c.jsonl"
    )
    assert short.returncode == 0, short.stderr
    assert "coverage gaps: run longer" in short.stdout
    records = _records(tmp_path / "c.jsonl")
    drawn = [r for r in records if r.get("target") == "c-composed@native:gcc-O2" and "law" not in r]
    recorded = records[-1]["coverage"]["rms_norm"]
    assert recorded["tail of 256"]["gaps"]
    assert sum(recorded["dtype"]["counts"].values()) == len(drawn), "a twin visits nothing of its own"
    pairs = records[-1]["pairs"]["rms_norm"]
    held = pairs["allowed"] - len(pairs["never"])
    assert f"{held:,} of {pairs['allowed']:,} pairs of conditions of rms_norm held together (" in short.stdout
    assert 1000 < held < 0.9 * pairs["allowed"]
    assert f"and {len(pairs['never']) - 4:,} more" in " ".join(short.stdout.split())  # it may be broken over lines
    judged = {target["target"]: target["judged"] for target in records[-1]["targets"]}
    assert recorded["target"] == {"counts": judged, "gaps": []}


def test_the_first_failure_is_shown_at_once_and_ends_the_run_where_asked(planted: Planted, cli_here: Cli) -> None:
    pack = str(planted(edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n + 1, eps)")))
    words = ("--pack", pack, "--max-cases", "100000", "--seed", "1", "--no-shrink", "--require", "c-planted@*")
    done = cli_here("run", *words, "--fail-fast")
    assert done.returncode == 1, done.stderr
    [line] = re.findall(r"^\d+:\d\d planted fails: (.*)", done.stderr, re.MULTILINE)
    assert re.fullmatch(r"FAIL_NUMERIC on c-planted@native:gcc-O[02], x f(16|32) \[.*\]", line)
    assert ", stopped at the first failure: " in done.stdout
    assert "required target" not in done.stderr
    assert len([*Path(pack).parent.glob("findings/*.json")]) == 1


def test_fail_fast_ends_no_run_of_which_all_passes(planted: Planted, cli_here: Cli) -> None:
    done = cli_here("run", "--pack", str(planted(GENERIC)), "--max-cases", "40", "--seed", "1", "--fail-fast")
    assert done.returncode == 0, done.stderr
    assert counts_of(done.stdout)[1] == 40


def test_what_is_compiled_is_kept_in_the_folder_that_is_asked_for(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(
        "from pathlib import Path\nfrom fuzz.core.adapters.python_kernel import PythonKernel\n"
        'KERNELS = [PythonKernel("plain", "row_max", Path(__file__).parent / "plain.py", "numpy")]\n'
    )
    (tmp_path / "plain.py").write_text("def row_max(x):\n    return x.max(-1)\n")
    cache = tmp_path / "carried"
    done = cli("run", "--pack", str(tmp_path), "--max-cases", "16", "--cache", str(cache), "-j", "1", "--no-shrink")
    assert counts_of(done.stdout) == (16, 16)
    assert "plain.py" in {path.name for path in cache.glob("python-*/*")}
