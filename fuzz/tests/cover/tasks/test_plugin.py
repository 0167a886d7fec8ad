"""The plugin as a user's suite meets it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz.tests.common.tails_suite import TAILS, explain_tails
from fuzz.tests.conftest import CHECKOUT, GENERIC, copy_headers, edited
from oracles.tests.common.whole import WHOLE

Suite = Callable[..., pytest.RunResult]
PAGE = (CHECKOUT / "fuzz" / "docs" / "in-pytest.md").read_text()

_PROFILE = """
from hypothesis import settings
settings.register_profile("few", max_examples=16, derandomize=True, database=None)
settings.load_profile("few")
"""
_FUNCTIONS = """
import fuzz, numpy, torch

def norm(x, weight=None, *, eps):
    y = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype)

def test_right():
    fuzz.check(norm, op="rms_norm", capabilities=fuzz.Capabilities(dtypes=("f32", "f16")))

def test_closure_and_tuple():
    def fused(x, residual, weight=None, *, eps):
        return norm(x + residual, weight, eps=eps), x + residual
    fuzz.check(fused, op="fused_add_rms_norm", returns=("y", "sum"))

def test_numpy():
    exact = fuzz.Contract(compute="f64", sums={"n": fuzz.AnyOrder()})
    def of_arrays(x, eps):
        wide = x.astype("f8")
        return (wide / numpy.sqrt((wide * wide).mean(-1, keepdims=True) + eps)).astype(x.dtype)
    fuzz.check(of_arrays, op="rms_norm", arrays="numpy", contract=exact)

def test_wrong():
    fuzz.check(lambda x, weight=None, *, eps: norm(x, None, eps=eps), op="rms_norm", max_cases=32)

def test_wild():
    def wild(x, eps, y):
        y.copy_(norm(x, eps=eps))
        y.as_strided((1,), (1,), y.storage_offset() + y.numel()).fill_(1.0)
    fuzz.check(wild, op="rms_norm")

def test_forgetful():
    fuzz.check(lambda x, eps, y: None, op="rms_norm")

def test_raising():
    def raising(x, eps):
        raise RuntimeError("of no use")
    fuzz.check(raising, op="rms_norm")

def test_gamma():
    fuzz.check(lambda x, gamma, eps: x, op="rms_norm")

def test_op():
    fuzz.check(norm, op="rmsnorm")

def test_nothing():
    fuzz.check(norm, op="rms_norm", targets=["torch-norm@cuda"])
"""

_UNEXPLAINED = ("--kernelfuzz-explain-time", "0.1s")
"""The test is about what is found."""


@pytest.mark.whole
def test_functions_are_checked_where_they_are(suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_PROFILE.replace("16", "8"))
    [shown_there] = re.findall(r"```python file=test_mine.py\n(.*?)```", PAGE, re.DOTALL)
    pytester.makepyfile(test_mine=_FUNCTIONS, test_readme=shown_there)
    shown = suite("-v", "-W", "error", *_UNEXPLAINED)
    shown.assert_outcomes(passed=4, failed=7)
    text = shown.stdout.str()
    for expected in (
        r"CheckFailed: FAIL  lambda  ignores weight",
        r"found by      pytest 'test_mine.py::test_wrong' --kernelfuzz-seed \d+",
        r"reproduce     kernelfuzz repro \S*\.pytest_cache/d/kernelfuzz/lambda-fail_\w+-\w+\.json --pack test_mine.py ",
        r"CheckFailed: FAIL  wild  reads or writes outside its tensors",
        r"what          wrote 4 bytes outside y: right after the end of y",
        r"CheckFailed: FAIL  lambda  leaves elements as they were",
        r"CheckFailed: FAIL  raising  crashes",
        r"RuntimeError: of no use \(test_mine.py line \d+\)",
        r"CheckError: <lambda>: parameter 'gamma' is nothing that it can be called with: did you mean 'weight'\? ",
        r"CheckError: op='rmsnorm': name the op that it is a kernel of: rms_norm, fused_add_rms_norm",
        r"CheckFailed: NOTHING RAN: no target matches 'torch-norm@cuda'; there are torch-norm@cpu",
        r"\nnorm passed: 8 cases on torch-norm@cpu in [\d.]+ s, extents in \w+ up to [\d,]+ \(",
        r"\n  never ran: larger cases, ",
        r"\nnot exercised, as no kernel of rms_norm declares it: rstd \(takes\); ",
    ):
        assert re.search(expected, text), expected
    assert "fuzz/tasks/check" not in text, "frames of ours are shown"


@pytest.fixture
def pack(pytester: pytest.Pytester) -> Path:
    """Kernels 'right' and 'wrong' in the folder `kernels` of the suite."""
    folder = pytester.mkdir("kernels")
    sources = {
        "right": GENERIC,
        "wrong": edited("reciprocal_rms(total, n, eps)", "reciprocal_rms(total, n, 0.0f * eps)"),
    }
    for name, source in sources.items():
        (folder / f"{name}.c").write_text(source)
    copy_headers(folder)
    (folder / "pack.py").write_text(
        "from pathlib import Path\n"
        "from fuzz import Capabilities, CKernel\n"
        "KERNELS = tuple(CKernel(name, 'rms_norm', Path(__file__).parent / f'{name}.c',\n"
        "    capabilities=Capabilities(strides='pitched')) for name in ('right', 'wrong'))\n"
    )
    return folder


@pytest.mark.whole
def test_a_pack_is_one_test_per_target_also_in_other_processes(
    suite: Suite, pytester: pytest.Pytester, pack: Path
) -> None:
    pytester.makeini("[pytest]\nkernelfuzz_pack = kernels\n")
    pytester.makeconftest(_PROFILE)
    pytester.makepyfile(test_pack="def test_kernels(kernelfuzz_target):\n    kernelfuzz_target.check()\n")
    targets = ("--kernelfuzz-targets", "c-*@native:gcc-*", *_UNEXPLAINED)
    shown = suite("-n", "2" if WHOLE else "1", "-v", "-W", "error", *targets)
    shown.assert_outcomes(passed=2, failed=2)
    shown.stdout.fnmatch_lines_random(
        [
            "kernelfuzz: targets *c-[*]@native:gcc-[*]*",
            "*PASSED*test_pack.py::test_kernels[[]c-right@native:gcc-O0]*",
            "*FAILED*test_pack.py::test_kernels[[]c-wrong@native:gcc-O2]*",
            "*CheckFailed: FAIL  wrong  wrong *",
            "*reproduce     kernelfuzz repro *.json --pack * --target c-wrong@native:gcc-O2*",
            "not exercised, as no kernel of rms_norm declares it: weight, rstd (takes); *",
        ]
    )


@pytest.mark.whole
def test_the_seed_decides_and_case_files_are_run_first(suite: Suite, pytester: pytest.Pytester, pack: Path) -> None:
    pytester.makepyfile(
        test_case="""
        from pathlib import Path
        import fuzz, pytest
        HERE = Path(__file__).parent
        WRONG = fuzz.CKernel("wrong", "rms_norm", HERE / "kernels" / "wrong.c")

        @pytest.mark.kernelfuzz_pack("kernels")
        def test_marked(kernelfuzz_target):
            assert kernelfuzz_target.id == f"c-{kernelfuzz_target.kernel.name}@native:gcc-O2"

        def test_searched():
            fuzz.check(WRONG)

        def test_kept():
            fuzz.check(WRONG, cases=[HERE / "kept"], max_cases=1)
        """
    )
    pytester.makeconftest(_PROFILE.replace("16, derandomize=True", "24"))
    options = ("--strict-markers", "--kernelfuzz-targets", "c-*@native:gcc-O2", "--kernelfuzz-output", "kept")
    texts = []
    for seed in (("--kernelfuzz-seed", "5"), ("--hypothesis-seed", "5"), ("--kernelfuzz-seed", "6")):
        for path in Path("kept").glob("*"):
            path.unlink()
        shown = suite(*options, *seed, "-v", here=True)
        shown.assert_outcomes(passed=2, failed=2)
        texts.append(sorted(line for line in shown.outlines if re.match(r"E  +(x|worst|got|found by) ", line)))
        assert any("test_kept" in line for line in texts[-1]), "the kept case was not run"
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.whole
def test_a_failure_names_its_law_with_the_traceback_hidden(suite: Suite, pytester: pytest.Pytester) -> None:
    explain_tails(suite, pytester, here=True)


@pytest.mark.whole
def test_too_little_time_shows_the_failure_and_the_option(suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_tails=TAILS)
    # Too little to begin with, whatever the machine; with some more it may have begun, or even be done.
    for given, done in (("0.1s", r"(?!)"), ("0.6s", r"when n mod 64 = 63\b|no simple rule says when")):
        shown = suite("--kernelfuzz-explain-time", given, here=True)
        shown.assert_outcomes(failed=1)
        told = r"the time for all|no rule was found in time"
        text = " ".join(re.sub("(?m)^E +", "", shown.stdout.str()).split())
        assert re.search(f"{told}|{done}", text)
    unwanted = suite(here=True).stdout.str()
    assert "CheckFailed: FAIL  norm  " in unwanted
    assert "the time for all" not in unwanted
    wrong = suite("--kernelfuzz-explain-time", "long", here=True)
    wrong.stderr.fnmatch_lines(["*--kernelfuzz-explain-time: 'long' is not a time: write 30s, 5m or 8h"])


def test_time_limits_and_what_is_wrong_with_the_options(suite: Suite, pytester: pytest.Pytester, pack: Path) -> None:
    pytester.makepyfile(test_pack="def test_kernels(kernelfuzz_target):\n    kernelfuzz_target.check()\n")
    shown = suite("--kernelfuzz-max-time", "soon", here=True)
    assert shown.ret == pytest.ExitCode.USAGE_ERROR
    shown.stderr.fnmatch_lines(["*--kernelfuzz-max-time: 'soon' is not a time: write 30s, 5m or 8h"])
    unnamed = suite(here=True)
    assert unnamed.ret == pytest.ExitCode.INTERRUPTED
    unnamed.stdout.fnmatch_lines(["*test_kernels: name the pack: kernelfuzz_pack = FOLDER in the ini file*"])
    nowhere = suite("-o", "kernelfuzz_pack=kernels", "--kernelfuzz-targets", "c-*@natve", here=True)
    nowhere.stdout.fnmatch_lines(["*--kernelfuzz-targets c-[*]@natve: no target of * matches"])
    pytester.makepyfile(
        test_pack="from fuzz.tasks.check.setup import GIVEN\n"
        "def test_limit():\n    assert GIVEN.options.max_time == 90.0\n"
    )
    suite("--kernelfuzz-max-time", "90s", here=True).assert_outcomes(passed=1)


_PASSING = """
import fuzz, numpy, pytest
EXACT = fuzz.Contract(compute="f64", sums={"n": fuzz.AnyOrder()})

def norm(x, eps):
    wide = x.astype("f8")
    return (wide / numpy.sqrt((wide * wide).mean(-1, keepdims=True) + eps)).astype(x.dtype)

@pytest.mark.parametrize("number", range(12))
def test_right(number):
    fuzz.check(norm, op="rms_norm", arrays="numpy", contract=EXACT, max_cases=2)
"""


def test_a_check_that_passes_says_in_the_summary_what_it_ran(suite: Suite, pytester: pytest.Pytester) -> None:
    """Each has a seed of its own, the same each time unless a new one is asked for."""
    pytester.makepyfile(test_mine=_PASSING)
    seeds = []
    for words in (("-v",), ("-rP",), ("-q", "--kernelfuzz-seed", "random")):
        shown = suite(*words, here=True)
        seeds.append(
            [line.rpartition(" ")[2] for line in shown.outlines if line.startswith("norm passed: 2 cases on ")]
        )
        if words != ("-v",):
            shown.stdout.fnmatch_lines(["and 2 more checks that passed; -v shows them"])
    assert list(map(len, seeds)) == [12, 12 + 10, 10], "each, each with its test and ten in the summary, and ten"
    assert set(seeds[0]) == set(seeds[1])
    assert len(set(seeds[0])) == 12
    assert not set(seeds[0]) & set(seeds[2])
    wrong = suite("--kernelfuzz-seed", "new", here=True)
    wrong.stderr.fnmatch_lines(["*--kernelfuzz-seed: 'new' is neither a number nor 'random'"])


_WRONG = """
import fuzz, numpy

def a_kernel_of_the_softmax_of_rows(x):
    with numpy.errstate(all="ignore"):
        e = numpy.exp(x)
        return e / e.sum(-1, keepdims=True)

def test_wrong():
    fuzz.check(a_kernel_of_the_softmax_of_rows, op="softmax", arrays="numpy", max_cases=40)
"""


@pytest.mark.whole
def test_nothing_that_is_said_is_wider_than_the_terminal(
    suite: Suite, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for a path or a command, which nobody could copy from two lines."""
    monkeypatch.setenv("COLUMNS", "80")
    # In CI pytest tells the whole message a second time, in its summary.
    monkeypatch.setenv("CI", "true")
    pytester.makepyfile(test_mine=_WRONG)
    shown = suite(*("-v", "-p", "no:cacheprovider", "--kernelfuzz-output", "kept"), here=True)
    shown.assert_outcomes(failed=1)
    told = [line for line in shown.outlines if re.match(r"E  |not exercised|  ", line)]
    wide = [line for line in told if len(line) > 80]
    assert all(re.match(r"E? +(reproduce |found by |kept/\S+$)", line) for line in wide), wide
    first = told.index(next(line for line in told if "CheckFailed: " in line))
    assert re.fullmatch(
        r"E +fuzz.CheckFailed: FAIL  a_kernel_of_the_softmax_of_rows  wrong NaN or +", f"{told[first]} "
    )
    text = " ".join(" ".join(line.removeprefix("E ") for line in told[first:]).split())
    assert re.search(r" wrong NaN or infinity .* -> y\[[\d, ]+\] = nan, must be .* next: kernelfuzz repro \w+ ", text)


@pytest.mark.whole
def test_progress_is_shown_on_the_terminal_of_pytest_below_its_line(suite: Suite, pytester: pytest.Pytester) -> None:
    """The terminal is one of our own: its size and its words are known."""
    every_time = "from fuzz.report import progress\nprogress._LIVE_INTERVAL = 0.0\n"  # however fast it runs
    pytester.makeconftest("from fuzz.tasks.check import check\ncheck.PATIENCE_S = 0.0\n" + every_time)
    pytester.makepyfile(test_mine=_PASSING.replace("range(12)", "range(1)").replace("max_cases=2", "max_cases=60"))
    ours, theirs = os.openpty()
    words = [sys.executable, "-m", "pytest", "-p", "fuzz.pytest_plugin", "-q", "test_mine.py"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(words, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as run:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # the end of it
            while more := os.read(ours, 4096):
                said += more
    os.close(ours)
    assert run.returncode == 0, said
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode()).replace("\r", "\n")
    assert re.search(r"\n\d:\d\d · no failure · [\d,]+ of 60 cases · ", text), text


def test_a_suite_that_does_not_use_it_is_left_alone(suite: Suite, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing():\n    assert True\n")
    shown = suite("-W", "error", "--strict-markers", "--strict-config")
    shown.assert_outcomes(passed=1)
    assert "kernelfuzz" not in shown.stdout.str()
    assert sorted(path.name for path in Path.cwd().iterdir() if "kernelfuzz" in path.name) == []


def test_it_is_found_by_its_entry_point_and_loads_nothing_heavy(tmp_path: Path) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"kernelfuzz": "oracles.entry"}
    assert project["scripts"] == {"kernelfuzz": "oracles.entry:main"}
    heavy = ("numpy", "hypothesis", "torch", "typer", "rich", "fuzz.core.base.kernel", "oracles.op")
    program = (
        "import sys, pytest, oracles.entry, fuzz.pytest_plugin, fuzz.tasks.check.setup\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    assert done.stdout.strip() == "[]"


_FOREIGN = "raise SystemExit('code of a stranger was run')\n"


@pytest.mark.some(2)
@pytest.mark.parametrize("distributed", [True, False])
@pytest.mark.parametrize("name", ["fuzz.py", "fuzz/__init__.py"])
def test_another_package_of_our_name_is_told_in_a_line(tmp_path: Path, name: str, distributed: bool) -> None:
    """By the command, and by the plugin, which lets a suite pass that does not use it. It is not run."""
    folder = tmp_path / "others"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(_FOREIGN)
    remedy = "rename it, or take its folder off the path"
    if distributed:
        (folder / "fuzz-0.1.dist-info").mkdir()
        (folder / "fuzz-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: fuzz\nVersion: 0.1\n")
        remedy = "pip uninstall fuzz, then pip install --force-reinstall kernelfuzz"
    (tmp_path / "oracles").mkdir()
    for file in ("__init__.py", "entry.py"):
        (tmp_path / "oracles" / file).write_bytes((CHECKOUT / "oracles" / file).read_bytes())
    (tmp_path / "test_theirs.py").write_text("def test_theirs():\n    pass\n")
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{tmp_path}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    told = run("-c", "import oracles.entry; oracles.entry.main()", "--version")
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (4, "", 1)
    assert f"`import fuzz` finds {folder / name}," in told.stderr
    assert remedy in told.stderr
    suite = run("-m", "pytest", "-p", "oracles.entry", "test_theirs.py")
    assert suite.returncode == 0, suite.stdout + suite.stderr
    assert told.stderr.strip() in suite.stdout


def test_our_own_package_is_no_stranger(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text("def test_theirs():\n    pass\n")
    (tmp_path / "kernelfuzz").mkdir()  # as a clone is called
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for words in (
        ("-c", "import oracles.entry; oracles.entry.main()", "--version"),
        ("-m", "pytest", "-p", "oracles.entry", "--kernelfuzz-seed", "3", "test_theirs.py"),
    ):
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "import fuzz" not in done.stdout + done.stderr
