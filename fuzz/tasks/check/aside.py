"""A check that leaves nothing behind: what it found is returned."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings

from fuzz.core.base.capability import Capabilities
from fuzz.explain.explanation import Explanation
from fuzz.findings import casefile
from fuzz.tasks.check.check import CheckFailed, check
from fuzz.tasks.check.function import Arrays
from fuzz.tasks.check.plan import GIVEN

_PROFILE = "kernelfuzz aside"


def found_by_check(
    kernel: Callable[..., Any],
    op: str,
    able: Capabilities,
    explain_s: float,
    seed: int,
    arrays: Arrays = "torch",
    max_cases: int | None = None,
) -> list[Explanation]:
    """What `fuzz.check` finds wrong with a plain function, explained for that many seconds; nothing if it passes."""
    with _aside(op, kernel.__name__, explain_s) as folder:
        with suppress(CheckFailed):
            check(kernel, op=op, capabilities=able, seed=seed, arrays=arrays, max_cases=max_cases)
        kept = [casefile.load(path)[1] for path in sorted(folder.glob("*.json"))]
    return [each.explanation for each in kept if each is not None and each.explanation is not None]


@contextmanager
def _aside(op: str, name: str, explain_s: float) -> Iterator[Path]:
    """The folder of its findings, which is gone afterwards."""
    options, undeclared, profile = GIVEN.options, GIVEN.undeclared, settings.get_current_profile_name()
    # What failed the last time would be run first, and the search left out.
    settings.register_profile(_PROFILE, database=None)
    with tempfile.TemporaryDirectory() as folder:
        settings.load_profile(_PROFILE)
        GIVEN.options = replace(options, output=Path(folder), explain_s=explain_s)
        GIVEN.undeclared = {op: {name: {}}}  # said already: the kernel is not its reader's
        try:
            yield Path(folder)
        finally:
            GIVEN.options, GIVEN.undeclared = options, undeclared
            settings.load_profile(profile)
