"""How many cases a check runs, and with which seed. Pytest's options count first, then the arguments of the call, then
the Hypothesis profile. By default each test has a seed of its own that never changes."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from hypothesis.database import ExampleDatabase
    from rich.console import Console

    from fuzz.core.adapters.target import Target


EXPLAIN_S = 10.0
PATIENCE_S = 1.0
"""The seconds after which a check shows its progress; most checks of a suite end sooner."""
RANDOM = "random"
"""The value of a seed argument that means a new seed each time."""
Seed = int | Literal["random"] | None


@dataclass(frozen=True)
class Options:
    """The options of pytest's command line; defaults outside pytest."""

    max_time: float | None = None
    seed: Seed = None
    targets: tuple[str, ...] = ()
    output: Path = Path("findings")
    """The folder for the case files of failures."""
    explain_s: float = EXPLAIN_S
    """The processor seconds for shrinking and explaining the failures of one check."""
    verbose: bool = False
    """Whether a failure is reported in full, and not by its first lines only."""
    root: Path = Path()
    """The folder that the names of tests are relative to."""


@dataclass
class _Given:
    """The options in force, which the plugin sets before tests are collected; and what checks keep for its report."""

    options: Options = field(default_factory=Options)
    undeclared: dict[str, dict[str, Mapping[str, Sequence[str]]]] = field(default_factory=dict)
    """The features that kernels of checks do not declare, by op and kernel, for the plugin to report at the end."""
    passed: list[str] = field(default_factory=list)
    """A line for each check that passed. The plugin reports these at the end of the session, too."""
    console: Callable[[], Console] | None = None
    """A function that makes the console for progress; None if checks use stderr."""
    asked: list[Checked] | None = None
    """If this is a list, checks run nothing and append here what they would check."""


@dataclass(frozen=True)
class Checked:
    """The targets of one check, and the process that runs them."""

    targets: tuple[Target, ...]
    here: Any
    """The process that runs a plain function, an `OwnProcess`; None for a declared kernel."""


GIVEN = _Given()


@dataclass(frozen=True)
class CheckSetup:
    """The limits and the seed of one check, and where its failing cases are kept."""

    seed: int
    max_cases: int | None
    max_time: float | None
    database: ExampleDatabase | None
    """The database of the Hypothesis profile. It keeps the failing cases of earlier checks, which run first."""
    key: bytes
    """The key under which the database keeps the failing cases."""
    command: str
    """The command or call that runs the same check again."""


def check_setup(label: str, seed: Seed, max_cases: int | None, max_time: float | None, source: str = "") -> CheckSetup:
    """Return the setup of the check called `label`, from the arguments of its call, pytest's options and the Hypothesis
    profile. Outside a test, `source` tells apart functions of one name in two files."""
    from hypothesis import core, settings

    profile, options = settings.default, GIVEN.options
    assert profile is not None, "Hypothesis always has a profile"
    test = running_test()
    if options.max_time is not None:
        max_cases, max_time = None, options.max_time
    elif max_cases is None and max_time is None:
        max_cases = profile.max_examples
    forced = getattr(core, "global_force_seed", None)  # what --hypothesis-seed sets
    if options.seed is not None:
        seed = options.seed
    elif forced is not None:
        seed = forced if isinstance(forced, int) else _number(str(forced))
    if seed is None:
        seed = _number(f"{test} {label}")  # the same for the same test, whatever else runs
    elif not isinstance(seed, int):
        seed = secrets.randbelow(2**32)
    command = f"pytest '{test}' --kernelfuzz-seed {seed}" if test else f"fuzz.check(..., seed={seed})"
    return CheckSetup(
        seed, max_cases, max_time, profile.database, f"kernelfuzz {test or source} {label}".encode(), command
    )


def running_test() -> str:
    """Return the node id of the test that pytest is running; '' outside pytest."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def origin_words() -> tuple[str, ...]:
    """Return the words that name, on a command line, the file whose check is running; none for a check at a prompt."""
    test = running_test()
    file = GIVEN.options.root / test.partition("::")[0] if test else Path(program())
    if not file.is_file():
        return ()
    more = [] if test else sys.argv[1:]
    return "--pack", shlex.join([os.path.relpath(file), *more]) if more else os.path.relpath(file)


def program() -> str:
    """Return the file that Python was started with."""
    return str(getattr(sys.modules["__main__"], "__file__", None) or "")
