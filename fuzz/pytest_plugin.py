"""The pytest plugin: its options, and the fixture that makes one test for each target of a pack.

Every suite of its environment loads it, so it imports nothing but pytest until a test needs more.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

import pytest

if TYPE_CHECKING:
    from rich.console import Console

    from fuzz.tasks.check.check import PackTarget
    from fuzz.tasks.check.setup import Seed
    from fuzz.tasks.comparison import Comparisons

_FIXTURE = "kernelfuzz_target"
_MARKER = "kernelfuzz_pack"
_PASSED = "kernelfuzz_passed"
"""The property of a test's report that holds lines about passed checks."""
_SHOWN = 10
"""The most passed checks whose lines are in the summary, unless -v asks for all."""
_UNDECLARED = "kernelfuzz_undeclared"
"""The property of a test's report that holds what the checked kernels do not declare."""
_COMPARED = "kernelfuzz_compared"
"""The property of a test's report that holds a comparison, with `--kernelfuzz-assert`."""
_COMPARISONS: pytest.StashKey[Comparisons] = pytest.StashKey()
_MISUSE: pytest.StashKey[str] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelfuzz", "kernelfuzz: checks of numeric kernels")
    group.addoption("--kernelfuzz-max-time", metavar="TIME", help="Time of each check, such as 30s, 5m or 8h.")
    group.addoption(
        "--kernelfuzz-seed", metavar="N|random",
        help="Seed of every check, or a new one each time. By default each test has its own, the same each time.",
    )  # fmt: skip
    group.addoption(
        "--kernelfuzz-targets", action="append", default=[], metavar="GLOB",
        help="Only targets that match, such as 'c-*@native*'. Repeatable, or comma-separated.",
    )  # fmt: skip
    group.addoption(
        "--kernelfuzz-output", metavar="DIR",
        help="Folder for the case files of failures. Default: kernelfuzz in pytest's cache.",
    )  # fmt: skip
    group.addoption(
        "--kernelfuzz-explain-time", metavar="TIME",
        help="Processor time for shrinking and explaining what a check finds; 0s: show it as it is. Default: 10s.",
    )  # fmt: skip
    group.addoption(
        "--kernelfuzz-assert", action="store_true",
        help="Judge what torch.testing, torch.allclose and numpy.testing compare, in place of their tolerances.",
    )  # fmt: skip
    group.addoption(
        "--kernelfuzz-helper", action="append", default=[], metavar="MODULE:NAME",
        help="A comparison of the suite's own, such as tests.utils:assert_near, to be judged as well. Repeatable.",
    )  # fmt: skip
    parser.addini(_MARKER, f"Folder of kernels with a pack.py, for tests that use the fixture {_FIXTURE}.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARKER}(folder): the pack whose targets the fixture {_FIXTURE} goes through")
    from fuzz.tasks.check.setup import EXPLAIN_S, GIVEN, Options

    chosen = config.getoption
    explain = _seconds("explain-time", chosen("--kernelfuzz-explain-time"))
    GIVEN.options = Options(
        _seconds("max-time", chosen("--kernelfuzz-max-time")),
        _seed(chosen("--kernelfuzz-seed")),
        tuple(chosen("--kernelfuzz-targets")),
        Path(chosen("--kernelfuzz-output") or _cache_folder(config)),
        EXPLAIN_S if explain is None else explain,
        config.get_verbosity() > 0,
        config.rootpath,
    )
    if chosen("--kernelfuzz-assert"):
        _replace_comparisons(config)
    elif chosen("--kernelfuzz-helper"):
        raise pytest.UsageError("--kernelfuzz-helper needs --kernelfuzz-assert beside it")
    terminal = _Terminal(config)
    config.add_cleanup(terminal.close)
    GIVEN.console = terminal.console


def pytest_unconfigure(config: pytest.Config) -> None:
    from fuzz.tasks.check.setup import GIVEN, Options

    GIVEN.options, GIVEN.console = Options(), None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the options for kernelfuzz, so that a misspelt glob is noticed."""
    names = ("max-time", "seed", "targets")
    said = [f"{name} {config.getoption(f'--kernelfuzz-{name}')}" for name in names
            if config.getoption(f"--kernelfuzz-{name}") not in (None, [])]  # fmt: skip
    return f"kernelfuzz: {', '.join(said)}" if said else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test that uses the fixture one test for each target of its pack."""
    if _FIXTURE not in metafunc.fixturenames:
        return
    from fuzz.tasks.check.check import pack_targets
    from fuzz.tasks.check.results import CheckError

    try:
        found = pack_targets(_folder(metafunc))
    except CheckError as error:
        raise pytest.UsageError(str(error)) from error
    metafunc.parametrize(_FIXTURE, found, ids=[each.id for each in found], indirect=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Raise what is wrong about the options, in a process of pytest-xdist."""
    if misuse := item.config.stash.get(_MISUSE, ""):
        raise pytest.UsageError(misuse)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Add to the test's report what its checks ran and did not exercise; so it arrives from any process."""
    comparisons = item.config.stash.get(_COMPARISONS, None)
    with nullcontext() if comparisons is None else comparisons.judging():
        yield
    from fuzz.tasks.check.setup import GIVEN

    for each in comparisons.found if comparisons is not None else ():
        item.user_properties.append((_COMPARED, json.dumps(asdict(each))))

    for line in GIVEN.passed:
        item.user_properties.append((_PASSED, line))
    GIVEN.passed.clear()
    if GIVEN.undeclared:
        item.user_properties.append((_UNDECLARED, json.dumps(GIVEN.undeclared)))
        GIVEN.undeclared.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the passed checks ran, and what no check exercised because the kernels do not declare it."""
    reports = [report for several in terminalreporter.stats.values() for report in several]
    called = [report for report in reports if getattr(report, "when", "") == "call"]
    told = [(name, str(value)) for report in called for name, value in report.user_properties]
    passed = [value for name, value in told if name == _PASSED]
    undeclared = [json.loads(value) for name, value in told if name == _UNDECLARED]
    _tell_comparisons(terminalreporter, [json.loads(value) for name, value in told if name == _COMPARED])
    if not passed and not undeclared:
        return
    from fuzz.report.totals import not_exercised
    from fuzz.report.wrapping import columns, wrapped_text

    terminalreporter.section("kernelfuzz")
    lines = passed if terminalreporter.verbosity > 0 else passed[:_SHOWN]
    if len(passed) > len(lines):
        lines = [*lines, f"and {len(passed) - len(lines)} more checks that passed; -v shows them"]
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for by_op in undeclared:
        for op, kernels in by_op.items():
            found.setdefault(op, {}).update(kernels)
    terminalreporter.write_line(wrapped_text("\n".join([*lines, *not_exercised(found)]), columns()))


def _replace_comparisons(config: pytest.Config) -> None:
    try:
        import torch  # noqa: F401 (whose functions are replaced)
    except ImportError as error:
        raise pytest.UsageError("--kernelfuzz-assert needs torch: pip install torch") from error
    from fuzz.tasks.comparison import Comparisons

    config.stash[_COMPARISONS] = Comparisons()
    replaced = ExitStack()
    replaced.enter_context(config.stash[_COMPARISONS].replacing())
    config.add_cleanup(replaced.close)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Replace the suite's own comparisons, where its modules hold them."""
    comparisons = session.config.stash.get(_COMPARISONS, None)
    if comparisons is None or not session.items:
        return
    for named in session.config.getoption("--kernelfuzz-helper"):
        module, _, name = named.partition(":")
        own = getattr(sys.modules.get(module), name, None)
        if not callable(own):
            said = f"no test imports a function {name!r} of {module!r}" if name else "write it as MODULE:NAME"
            session.config.stash[_MISUSE] = f"--kernelfuzz-helper {named}: {said}"
            if not hasattr(session.config, "workerinput"):
                raise pytest.UsageError(session.config.stash[_MISUSE])
            return  # pytest-xdist shows no such error of a process: each test has it
        judged = comparisons.judged(own)
        for each in [each for each in sys.modules.values() if isinstance(each, ModuleType)]:
            for alias in [alias for alias, value in vars(each).items() if value is own]:
                setattr(each, alias, judged)


def _tell_comparisons(terminal: pytest.TerminalReporter, found: Sequence[Mapping[str, Any]]) -> None:
    """Print which comparisons let an error through, and which refuse what is right."""
    if not found:
        return
    from fuzz.report.wrapping import columns, wrapped_text
    from fuzz.tasks.comparison import SuiteComparison, told

    terminal.section("kernelfuzz: comparisons")
    terminal.write_line(wrapped_text("\n".join(told([SuiteComparison(**each) for each in found])), columns()))


@pytest.fixture
def kernelfuzz_target(request: pytest.FixtureRequest) -> PackTarget:
    """One target of the pack that `kernelfuzz_pack` names, in the ini file or as a marker; see its `check`."""
    target: PackTarget = request.param
    reason = target.why_skipped()
    if reason is not None:
        pytest.skip(f"NOT_RUN: {reason}")
    return target


def _folder(metafunc: pytest.Metafunc) -> Path:
    marker = metafunc.definition.get_closest_marker(_MARKER)
    if marker is not None and len(marker.args) == 1:
        return Path(metafunc.definition.path).parent / str(marker.args[0])
    named = str(metafunc.config.getini(_MARKER))
    if marker is not None or not named:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: name the pack: {_MARKER} = FOLDER in the ini file, "
            f"or @pytest.mark.{_MARKER}(FOLDER)"
        )
    return metafunc.config.rootpath / named


def _seed(text: str | None) -> Seed:
    from fuzz.tasks.check.setup import RANDOM

    if text is None or text == RANDOM:
        return text  # type: ignore[return-value]
    if not text.isdecimal():
        raise pytest.UsageError(f"--kernelfuzz-seed: {text!r} is neither a number nor 'random'")
    return int(text)


class _Terminal:
    """The terminal of pytest, even while it captures output. A check's lines begin below pytest's present line."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file: TextIO | None = None

    def console(self) -> Console:
        """Return the console for a check's progress; a silent one if there is no terminal."""
        from rich.console import Console

        from fuzz.report import console

        with self._uncaptured():
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            shown = reporter._tw._file if reporter is not None else None
            if shown is None or not shown.isatty():
                return console.silent()
            if self._file is None:
                self._file = os.fdopen(os.dup(shown.fileno()), "w", encoding=shown.encoding)
        below: Any = self
        return Console(file=below, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def write(self, text: str) -> int:
        """Write text to the file that pytest writes to, on a new line."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter.currentfspath is not None:
            with self._uncaptured():
                reporter.ensure_newline()
                reporter.flush()
        return self._file.write(text) if self._file is not None else 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _uncaptured(self) -> AbstractContextManager[None]:
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        return nullcontext() if capture is None else capture.global_and_fixture_disabled()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _seconds(option: str, text: str | None) -> float | None:
    from fuzz.cli.options import seconds

    if text is None:
        return None
    if option == "explain-time" and text.strip() in ("0", "0s"):
        return 0.0
    try:
        return seconds(text)
    except ValueError as error:
        raise pytest.UsageError(f"--kernelfuzz-{option}: {error}") from error


def _cache_folder(config: pytest.Config) -> Path:
    """Return a folder that pytest keeps from run to run; if it keeps none, one outside the source tree."""
    cache = getattr(config, "cache", None)
    if cache is None:
        import tempfile

        return Path(tempfile.gettempdir()) / "kernelfuzz"
    return Path(config.rootpath, str(config.getini("cache_dir")), "d", "kernelfuzz")
