"""The pytest plugin: options, and the fixture that makes one test of each target of a pack.

It is loaded in every suite of an environment that has it, so it imports nothing but pytest until a test asks for more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fuzz.uses.check.packs import PackTarget

_FIXTURE = "kernelfuzz_target"
_MARKER = "kernelfuzz_pack"
_UNDECLARED = "kernelfuzz_undeclared"
"""The property of a test's report with what the kernels that it checks do not declare."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernelfuzz", "kernelfuzz: checks of numeric kernels")
    group.addoption("--kernelfuzz-max-time", metavar="TIME", help="Time of each check, such as 30s, 5m or 8h.")
    group.addoption("--kernelfuzz-seed", type=int, metavar="N", help="Seed of every check: same seed, same cases.")
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
        help="Time for shrinking and explaining what a check finds; 0s: show it as it is. Default: 15s.",
    )  # fmt: skip
    parser.addini(_MARKER, f"Folder of kernels with a pack.py, for tests that use the fixture {_FIXTURE}.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_MARKER}(folder): the pack whose targets the fixture {_FIXTURE} goes through")
    from fuzz.uses.check.plan import EXPLAIN_S, GIVEN, Options

    chosen = config.getoption
    explain = _seconds("explain-time", chosen("--kernelfuzz-explain-time"))
    GIVEN.options = Options(
        _seconds("max-time", chosen("--kernelfuzz-max-time")),
        chosen("--kernelfuzz-seed"),
        tuple(chosen("--kernelfuzz-targets")),
        Path(chosen("--kernelfuzz-output") or _cache_folder(config)),
        EXPLAIN_S if explain is None else explain,
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    from fuzz.uses.check.plan import GIVEN, Options

    GIVEN.options = Options()


def pytest_report_header(config: pytest.Config) -> str | None:
    """What of the command line is for kernelfuzz: a misspelt glob is seen there."""
    names = ("max-time", "seed", "targets")
    said = [f"{name} {config.getoption(f'--kernelfuzz-{name}')}" for name in names
            if config.getoption(f"--kernelfuzz-{name}") not in (None, [])]  # fmt: skip
    return f"kernelfuzz: {', '.join(said)}" if said else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that uses the fixture becomes one test for each target of its pack."""
    if _FIXTURE not in metafunc.fixturenames:
        return
    from fuzz.uses.check.packs import pack_targets
    from fuzz.uses.check.results import CheckError

    try:
        found = pack_targets(_folder(metafunc))
    except CheckError as error:
        raise pytest.UsageError(str(error)) from error
    metafunc.parametrize(_FIXTURE, found, ids=[each.id for each in found], indirect=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What its checks did not exercise goes with the test's report, from whatever process ran it."""
    yield
    from fuzz.uses.check.plan import GIVEN

    if GIVEN.undeclared:
        item.user_properties.append((_UNDECLARED, json.dumps(GIVEN.undeclared)))
        GIVEN.undeclared.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What no check exercised, since the kernels do not declare it."""
    reports = [report for several in terminalreporter.stats.values() for report in several]
    told = [
        json.loads(str(value))
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == _UNDECLARED
    ]
    if told:
        from fuzz.report.totals import not_exercised

        terminalreporter.section("kernelfuzz")
        found: dict[str, dict[str, dict[str, list[str]]]] = {}
        for by_op in told:
            for op, kernels in by_op.items():
                found.setdefault(op, {}).update(kernels)
        for line in not_exercised(found):
            terminalreporter.write_line(line)


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
    """A folder of what pytest keeps from run to run, and nowhere in the source tree where it keeps nothing."""
    cache = getattr(config, "cache", None)
    if cache is None:
        import tempfile

        return Path(tempfile.gettempdir()) / "kernelfuzz"
    return Path(config.rootpath, str(config.getini("cache_dir")), "d", "kernelfuzz")
