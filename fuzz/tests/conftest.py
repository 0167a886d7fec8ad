"""Shared by the engine's tests: the command line as a user runs it, packs of planted kernels, suites of users.

Tests lie in folders by their cost, as Hypothesis's do, and there by the part of the engine: `cover` has one quick test
for each promise and is what every change must pass, `nightly` has what takes minutes, `common` has what both use.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

import fuzz
import oracles
from fuzz.cli import app
from fuzz.cli.exits import leave
from fuzz.core.adapters.build import Builder, cache_directory
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.python_kernel import Device
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Outcome
from fuzz.core.execute.pool import WorkerPool
from fuzz.tasks.check.setup import GIVEN, Options
from fuzz.tests.common.own_pack import unknown_afterwards
from fuzz.tests.common.planted import ANYTHING, HEAD, Run, c_program, c_target
from fuzz.tests.common.python_planted import TORCH_HEAD, RunPython, indented, outcomes, python_target
from oracles.ops import OPS
from oracles.tests.common.whole import WHOLE

# The same examples in every run: no outcome is left to chance, nor to how busy the machine is.
settings.register_profile("tests", derandomize=True, database=None, deadline=None, max_examples=100 if WHOLE else 15)
settings.load_profile("tests")

# pytest-xdist sets it for its workers, which are no terminal: a line is one line there, unless a test says otherwise.
os.environ.pop("COLUMNS", None)

CHECKOUT = Path(__file__).resolve().parents[2]

HANG_S = 900
"""No command takes so long on any machine: what does has stopped for good. No test waits for it to pass."""

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _gcc_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and counts are the same on a machine that has clang too, which doubles the targets of C kernels."""
    monkeypatch.setattr("fuzz.core.adapters.toolchain.families", lambda host: ("gcc",))


@pytest.fixture(autouse=True)
def _ops_as_they_were() -> Iterator[None]:
    """An op that a test brings is not known to the tests after it in the same process, nor in the place of another."""
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


def run_cli(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python3 -m fuzz` in a folder; keyword arguments become environment variables."""
    if not environment:
        from fuzz.tests.common.running import finished

        return finished(folder, *arguments)
    return subprocess.run(
        [sys.executable, "-m", "fuzz", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.fixture
def quick_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`fuzz.check` explains nothing, and keeps its findings in this test's folder; its ops are known no longer."""
    monkeypatch.setattr(GIVEN, "options", Options(output=tmp_path / "findings", explain_s=0.0))
    with unknown_afterwards():
        yield


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """`run_cli` in an empty folder."""
    return partial(run_cli, tmp_path)


@pytest.fixture
def cli_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The same in this process: starting one takes longer than most commands. With `app` another command line."""

    def run(*arguments: str, app: Callable[..., object] = app) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["kernelfuzz", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            leave(app)
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, int(str(ended.value.code)), shown.out, shown.err)

    return run


GENERIC = (CHECKOUT / "kernels" / "rms_norm" / "c" / "generic.c").read_text()


def edited(old: str, new: str) -> str:
    """The source of the generic kernel with one edit; fails if the source no longer has the text."""
    assert GENERIC.count(old) == 1, f"generic.c has {old!r} {GENERIC.count(old)} times"
    return GENERIC.replace(old, new)


def copy_headers(folder: Path) -> None:
    """Put what the C kernels of rms_norm include into one folder."""
    for place in ("rms_norm/c", "common"):
        for header in (CHECKOUT / "kernels" / place).glob("*.h"):
            (folder / header.name).write_text(header.read_text().replace('"../../common/', '"'))


@pytest.fixture
def planted(tmp_path: Path) -> Callable[..., Path]:
    """A pack with one portable kernel called 'planted', made of the given C source."""

    def make(source: str, name: str = "planted") -> Path:
        folder = tmp_path / f"pack-{name}"
        folder.mkdir()
        (folder / f"{name}.c").write_text(source)
        copy_headers(folder)
        (folder / "pack.py").write_text(
            "from pathlib import Path\n"
            "from fuzz import Capabilities, CKernel\n"
            f"KERNELS = (CKernel({name!r}, 'rms_norm', Path(__file__).parent / '{name}.c',\n"
            "    capabilities=Capabilities(dtypes=('f32', 'f16'), strides='pitched', aliases=(('y', 'x'),))),)\n"
        )
        return folder

    return make


@pytest.fixture(scope="session")
def cache() -> Path:
    """The cache that all runs share: what one process built, no other builds again."""
    return cache_directory()


class _Noting(Builder):
    """It notes the names of what is compiled, or was."""

    def compiled(self, name: str, commands: Callable[[Path], Iterable[Sequence[str]]]) -> Path:
        self.notices.append(name)
        return super().compiled(name, commands)


@pytest.fixture
def own_cache(tmp_path: Path, cache: Path) -> Path:
    """A cache of the test's own, with what native workers are made of beside a kernel: compiling that takes seconds."""
    builder = _Noting(cache)
    generic = CKernel("generic", "rms_norm", CHECKOUT / "kernels" / "rms_norm" / "c" / "generic.c")
    c_program(c_target(generic, "native"), builder)
    (tmp_path / "cache").mkdir()
    for name in builder.notices:
        if not name.startswith("worker"):
            for path in (cache / name, cache / f"{name}.sha256"):
                shutil.copy(path, tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture(params=["native", "qemu"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_target(tmp_path: Path, place: str) -> Callable[[str], Target]:
    """A target for the body of `kf_rms_norm(c)`, native or emulated."""

    def make(body: str, before: str = "") -> Target:
        source = tmp_path / "planted.c"
        source.write_text(f"{before}{HEAD}{body}\n    return KF_OK;\n}}\n")
        target = c_target(CKernel("planted", "rms_norm", source, "runtime", capabilities=ANYTHING), place)
        assert target.unavailable() is None, "tests need every compiler and emulator: kernelfuzz doctor --install"
        return target

    return make


@pytest.fixture
def run(make_target: Callable[..., Target], cache: Path) -> Run:
    """Outcomes of a kernel body on cases."""

    def go(body: str, *cases: Case, limit: float = 10.0, second_run: bool = False, before: str = "") -> list[Outcome]:
        target = make_target(body, before)
        with WorkerPool([target], limit=limit, second_run=second_run, cache=cache, bounded=False) as pool:
            return [outcomes[target.id] for outcomes in pool.submit(cases).outcomes()]

    return go


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.param
    return found


@pytest.fixture
def run_python(tmp_path: Path, cache: Path, device: Device) -> RunPython:
    """Outcomes of a torch kernel's body on cases."""

    def go(body: str, *cases: Case, head: str = TORCH_HEAD, **options: object) -> list[Outcome]:
        return outcomes(python_target(tmp_path, head + indented(body), device=device), cache, *cases, **options)

    return go


Suite = Callable[..., pytest.RunResult]
_UNUSED = re.compile(r"\.(tests\b.*|__main__|probe|tf32|triton_functions)$")
"""Modules that no suite in this process needs: those with torch and Triton take seconds, and Alembic runs its own."""


@pytest.fixture(scope="session")
def _loaded() -> None:
    """Suites that are run in this process forget what they imported. Extensions such as NumPy's cannot be loaded twice,
    and a class that is loaded twice is two: all that such a suite may need is loaded before."""
    known = "triton" in sys.modules
    for package in (fuzz, oracles):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not _UNUSED.search(module.name):
                importlib.import_module(module.name)
    assert known or "triton" not in sys.modules, "it would be forgotten, and who loads it again aborts the process"


@pytest.fixture
def suite(_loaded: None, cache: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Run pytest with our plugin, those of Hypothesis and xdist, and no other that may be installed.

    Failures are shown as they are found, unless the options say otherwise: explaining takes seconds.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("KERNELFUZZ_CACHE", str(cache))  # pytester has a home of its own, in which nothing is built
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    # What --hypothesis-seed sets in this process outlives the suite that it was given to.
    monkeypatch.setattr("hypothesis.core.global_force_seed", None)
    plugins = [word for name in ("fuzz.pytest_plugin", "_hypothesis_pytestplugin", "xdist") for word in ("-p", name)]

    def run(*options: str, here: bool = False) -> pytest.RunResult:
        if "--kernelfuzz-explain-time" not in options:
            options = ("--kernelfuzz-explain-time", "0s", *options)
        if here:  # saves a process, where nothing that is imported or warned of matters
            return pytester.runpytest_inprocess(*plugins, *options)
        return pytester.run(sys.executable, "-m", "pytest", *plugins, *options, timeout=HANG_S)

    return run
