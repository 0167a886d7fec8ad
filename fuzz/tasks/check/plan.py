"""How much a check runs and with which seed: pytest's options first, then the call, then the Hypothesis profile. The
seed of a test is its own, the same each time."""

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
"""The seconds after which a check shows its progress: most checks of a suite are over by then."""
RANDOM = "random"
"""In place of a seed: a new one each time."""
Seed = int | Literal["random"] | None


@dataclass(frozen=True)
class Options:
    """What the command line of the test suite says; nothing of it outside pytest."""

    max_time: float | None = None
    seed: Seed = None
    targets: tuple[str, ...] = ()
    output: Path = Path("findings")
    """The case files of failures go here."""
    explain_s: float = EXPLAIN_S
    """This many seconds of processors are for shrinking and explaining the failures of one check."""
    verbose: bool = False
    """Whether all that is known of a failure is told, and not its first lines alone."""
    root: Path = Path()
    """The folder that the names of tests are relative to."""


@dataclass
class _Given:
    """The options in force, which the plugin sets once, before any test is collected; and what checks leave for it."""

    options: Options = field(default_factory=Options)
    undeclared: dict[str, dict[str, Mapping[str, Sequence[str]]]] = field(default_factory=dict)
    """What the kernels of checks do not declare, by op and kernel, until the plugin takes it to the end of the run."""
    passed: list[str] = field(default_factory=list)
    """A line for each check that passed, until the plugin takes it there too."""
    console: Callable[[], Console] | None = None
    """It makes the console on which checks show how they are going; None where stderr is it."""
    asked: list[Checked] | None = None
    """Where this is a list, checks run nothing, and say here what they would check."""


@dataclass(frozen=True)
class Checked:
    """What one check is about."""

    targets: tuple[Target, ...]
    here: Any
    """The process that runs a plain function; None for a declared kernel."""


GIVEN = _Given()


@dataclass(frozen=True)
class CheckPlan:
    """What one check does."""

    seed: int
    max_cases: int | None
    max_time: float | None
    database: ExampleDatabase | None
    """The database of the Hypothesis profile. It has the failing cases of earlier checks, which are run first."""
    key: bytes
    """The database has those cases under this key."""
    command: str
    """This command runs the same check again."""


def plan(label: str, seed: Seed, max_cases: int | None, max_time: float | None, source: str = "") -> CheckPlan:
    """The plan of the check called `label`, from its own arguments and all that goes before or after them. Outside a
    test, functions of one name in two files are told apart by their `source`."""
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
    return CheckPlan(
        seed, max_cases, max_time, profile.database, f"kernelfuzz {test or source} {label}".encode(), command
    )


def running_test() -> str:
    """Node id of the test that pytest is running; '' outside it."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def origin_words() -> tuple[str, ...]:
    """The words that name, on a command line, the file whose check runs now; none where it is typed at a prompt."""
    test = running_test()
    file = GIVEN.options.root / test.partition("::")[0] if test else Path(program())
    if not file.is_file():
        return ()
    more = [] if test else sys.argv[1:]
    return "--pack", shlex.join([os.path.relpath(file), *more]) if more else os.path.relpath(file)


def program() -> str:
    """Return the file that Python was started with."""
    return str(getattr(sys.modules["__main__"], "__file__", None) or "")
