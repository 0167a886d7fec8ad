"""Failures that need earlier calls as a user meets them: recognised, kept with the calls, replayed with them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.findings.casefile import load
from fuzz.tests.conftest import GENERIC, Cli, edited

Planted = Callable[..., Path]
SUM = "float total = 0.0f;"
EPS = "reciprocal_rms(total, n, eps)"
CALL = "int kf_rms_norm(const kf_rms_norm_call *call) { return each_row(call, generic_row); }"
LATER_CALLS = """
static void later(const float *x, float *y, size_t n, float eps) { for (size_t i = 0; i < n; i++) y[i] = x[i] + eps; }
int kf_rms_norm(const kf_rms_norm_call *call) {
    static unsigned calls;
    return each_row(call, calls++ < 300 ? generic_row : later);
}
"""
FIRST_EPS = "({ static float first = -1; if (first < 0) first = eps; reciprocal_rms(total, n, first); })"


def _run(cli: Cli, pack: Path, cases: int = 48, *options: str) -> str:
    done = cli("run", "--pack", str(pack), "--max-cases", str(cases), "--seed", "1", "-v", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def _printed(text: str) -> list[str]:
    """The arguments of the first command that reproduces something."""
    command = re.search(r"reproduce +kernelfuzz (repro .*)", text)
    assert command is not None
    return shlex.split(command[1])


def test_a_kernel_that_keeps_state_is_told_apart_and_replayed_with_its_history(
    cli_here: Cli, planted: Planted, tmp_path: Path
) -> None:
    text = _run(cli_here, planted(edited(EPS, FIRST_EPS)))
    assert "needs history: passes alone in a fresh process, fails there after 1 earlier call: eps " in text
    again = cli_here(*_printed(text))
    assert again.returncode == 1, again.stdout
    assert "run in one new process after 1 earlier call: eps " in again.stdout
    (path, *_) = (tmp_path / "findings").glob("*.json")
    case, found = load(path)
    assert found is not None
    (call,) = found.history
    assert {**call.params, "eps": 0} == {**case.params, "eps": 0}, "the same call but for eps"
    assert call.inputs == case.inputs

    record = json.loads(path.read_text())
    del record["found"]["history"]
    (tmp_path / "alone.json").write_text(json.dumps(record))
    alone = cli_here("repro", "alone.json", *_printed(text)[2:])
    assert alone.returncode == 0
    assert "it passes there now: the kernel was changed, or the failure needs calls before it" in alone.stdout

    record = json.loads(path.read_text())
    record["found"]["history"]["calls"][0]["params"]["eps"]["hex"] = "0x1p-30"
    path.write_text(json.dumps(record))
    altered = cli_here("repro", str(path))
    assert altered.returncode == 4
    assert "found.history.calls[0]: digest: " in altered.stderr
    assert len(altered.stderr.replace("\n    ", " ").strip().splitlines()) == 1


@pytest.mark.whole
def test_a_crash_that_needs_history_is_kept_with_it(cli_here: Cli, planted: Planted) -> None:
    trap = "static float first = -1; if (first < 0) first = eps; if (first != eps) __builtin_trap(); " + SUM
    text = _run(cli_here, planted(edited(SUM, trap)))
    assert "CRASH  planted" in text
    assert "needs history" in text
    assert cli_here(*_printed(text)).returncode == 1


@pytest.mark.whole
def test_a_kernel_that_fails_from_a_call_on_is_kept_with_so_many(cli_here: Cli, planted: Planted) -> None:
    """More than a worker keeps of what it was given."""
    text = _run(cli_here, planted(edited(CALL, LATER_CALLS)), 272, "-j", "1")
    times = "fails there after 300 earlier calls: the same call, 300 times, and from call 301 on"
    assert f"{times}; so it keeps state" in text
    again = cli_here(*_printed(text))
    assert again.returncode == 1, again.stdout
    assert "run in one new process after 300 earlier calls: the same call, 300 times" in again.stdout


@pytest.mark.whole
def test_what_does_not_repeat_is_reported_and_said_not_to(cli_here: Cli, planted: Planted, tmp_path: Path) -> None:
    """Wrong in one call only, of all processes: the folder that it makes is there afterwards."""
    made = f'mkdir("{tmp_path / "made"}", 0700)'
    once = (
        f"int mkdir(const char *, unsigned); static unsigned calls; float total = calls++ > 99 && !{made} ? 1e9f : 0;"
    )
    text = _run(cli_here, planted(edited(SUM, once)), 320, "-j", "1")
    assert "FAIL_NUMERIC  planted" in text
    assert re.search(r"does not repeat: passes alone in a fresh process, and after the \d+ calls before it", text)


TORCH_PACK = """
from pathlib import Path
from fuzz import Capabilities, PythonKernel
KERNELS = (PythonKernel("cached", "rms_norm", Path(__file__).parent / "cached.py", "torch",
    capabilities=Capabilities(dtypes=("f32",), strides="any")),)
"""
CACHED = """
import torch

_ROOTS = {}


def rms_norm(x, y, eps, axis):
    n = x.shape[axis]
    if n not in _ROOTS:
        _ROOTS[n] = eps
    mean = (x * x).sum(dim=axis, keepdim=True) / n if n else 0
    y.copy_(x * (1.0 / torch.sqrt(mean + _ROOTS[n])) if n else x)
"""


@pytest.mark.whole
def test_a_python_kernel_that_caches_by_n_alone_is_kept_with_the_call_that_filled_the_cache(
    cli_here: Cli, tmp_path: Path
) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "pack.py").write_text(TORCH_PACK)
    (pack / "cached.py").write_text(CACHED)
    done = cli_here(
        "run", "--pack", str(pack), "--max-cases", "160", "--seed", "1", "--target", "torch-cached@cpu", "-v"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "needs history: passes alone in a fresh process, fails there after 1 earlier call: eps " in done.stdout
    again = cli_here(*_printed(done.stdout))
    assert again.returncode == 1, again.stdout


HISTORY_MUTANT = """
from fuzz import Mutant
MUTANTS = (Mutant("m", "planted", (({old!r}, {new!r}),), ("*@native:gcc-O2",), "always",
    ("FAIL_NUMERIC", "FAIL_NONFINITE"), "a test",
    needs_history=True),)
"""


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (FIRST_EPS, 0, "needs history: fails after 1 earlier call: eps "),
        ("reciprocal_rms(total, n + 1, eps)", 1, "expected to need history: fails alone"),
    ],
)
def test_selftest_sees_whether_a_mutant_needs_history(
    cli_here: Cli, planted: Planted, new: str, code: int, words: str
) -> None:
    pack = planted(GENERIC)
    entry = pack / "pack.py"
    entry.write_text(entry.read_text() + HISTORY_MUTANT.format(old=EPS, new=new))
    done = cli_here("selftest", "--pack", str(pack), "--max-cases", "64")
    assert done.returncode == code, done.stdout
    assert words in done.stdout
