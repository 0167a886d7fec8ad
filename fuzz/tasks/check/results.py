"""The end of a check: the exceptions that it raises, their messages, and the line of a check that passes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import oracles
from fuzz.core.adapters.target import NotRun, Target
from fuzz.core.base.exits import Exit
from fuzz.core.base.text import counted
from fuzz.core.execute.batch import Pool
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket
from fuzz.findings.tally import Tally
from fuzz.report.totals import largest_text, never_text, remarks
from fuzz.report.use_outcome import outcome_of
from fuzz.report.wrapping import columns, wrapped_text
from fuzz.tasks.check.setup import GIVEN, CheckSetup, running_test

if TYPE_CHECKING:  # what passes explains nothing
    from fuzz.explain.explanation import Explanation
    from fuzz.references.replay.oracle import ReplayFailure

_INDENT = len("E       ")
"""The columns that pytest puts before each line of an exception's message."""
_NAMED = len("fuzz.CheckFailed: ")
"""The columns that pytest puts before the first line of the message."""

_VARIABLE = "KERNELFUZZ_EXPLAIN_S"
OPTION = "--kernelfuzz-explain-time"
"""The option of pytest's command line that sets the time for explaining."""


class CheckFailed(AssertionError):  # noqa: N818 (named as test suites name it)
    """Raised if the kernel failed, or if nothing could be judged. The message is the whole report. `failures` are the
    records that the report is about; there are none if nothing was judged."""

    __module__ = "fuzz"

    def __init__(self, message: str, failures: Sequence[Explanation | ReplayFailure] = ()) -> None:
        super().__init__(message)
        self.failures = tuple(failures)


class CheckError(Exception):
    """A check that cannot be made as requested. The message says what to do."""

    __module__ = "fuzz"


class NotRunWarning(UserWarning):
    """A warning that a target did not run here, although its check passed."""

    __module__ = "fuzz"


_OURS = tuple(f"{folder}/" for folder in (Path(__file__).parents[2], *oracles.__path__))
_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def users(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of this package."""
    if traceback is None:
        return None
    more = users(traceback.tb_next)
    if traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        return more
    return TracebackType(more, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def reason_of(error: BaseException) -> BaseException | None:
    """Return the exception that a reference raised, without this package's frames; None if our own code raised it."""
    cause = error.__cause__
    if cause is None or type(cause).__module__.startswith(("oracles.", "fuzz.references.")):
        return None
    return cause.with_traceback(users(cause.__traceback__))


def program_ends(before: _Hook, kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
    """Show the exception that ends a program outside pytest; a check's report without this package's frames."""
    if isinstance(error, (CheckFailed, CheckError)):
        tb = users(tb)
        error = error.with_traceback(tb)
    before(kind, error, tb)


sys.excepthook = partial(program_ends, sys.excepthook)


def told(info: Any) -> bool:
    """Return whether pytest hides this package's frames: for a check's own exceptions, whose message says everything,
    but not for internal errors."""
    return isinstance(info.value, (CheckFailed, CheckError))


def explaining() -> tuple[float, str]:
    """Return the seconds for explaining the findings of a check, and the option for more time. A program without pytest
    has an environment variable in place of the option."""
    text = os.environ.get(_VARIABLE)
    if running_test() or text is None:
        return GIVEN.options.explain_s, OPTION if running_test() else f"{_VARIABLE}=60"
    try:
        return float(text), f"a larger {_VARIABLE}"
    except ValueError:
        raise CheckError(f"{_VARIABLE}={text}: it is a number of seconds, such as 60") from None


def report(
    tally: Tally,
    book: FindingBook,
    pool: Pool,
    targets: Sequence[Target],
    setup: CheckSetup,
    pack_option: tuple[str, ...],
    *,
    interrupted: bool = False,
) -> str:
    """Return the report of everything that is wrong; '' if something ran and everything that ran has passed."""
    if book.errors:
        return "\n".join(book.errors)
    if book.buckets:
        texts = [_text(each, setup, pack_option, 0 if at else _NAMED) for at, each in enumerate(told_first(book))]
        return "\n\n".join([*texts, *([book.trouble] if book.trouble else [])])
    broken = [
        (target.kernel.name, target.id, status.reason, status.broken)
        for target in targets
        if isinstance(status := pool.statuses.get(target.id), NotRun) and status.broken
    ]
    if broken:
        from fuzz.report.outline import broken_kernels

        return "\n\n".join(each.text("", whole=True) for each in broken_kernels(broken))
    outcome = outcome_of(tally, interrupted=interrupted)
    if outcome.code is Exit.NOTHING_RAN:
        return f"{outcome.ending}: {targets[0].id}: {_why_nothing(tally, pool)}"
    return "" if outcome.passed else f"{outcome.ending}: {'; '.join(remarks(outcome))}; {setup.command}"


def told_first(book: FindingBook) -> list[Bucket]:
    """Return the failures, those that are explained before those that no time was left for: one bug may make both."""
    return sorted(book.buckets.values(), key=lambda each: not each.is_explained)


def passed_line(
    name: str, targets: Sequence[Target], tally: Tally, setup: CheckSetup, earlier: int, seconds: float
) -> str:
    """Return the lines of a passing check: what ran and what never ran, such as 'softmax passed: 100 cases on
    torch-softmax@cpu in 2.1 s, extents in f32 up to 8,193 (rows 1,025, elements 16,384), seed 7'."""
    ran = [target.id for target in targets if target.id in tally.targets and tally.targets[target.id].judged]
    where = ran[0] if len(ran) == 1 else f"{len(ran)} targets"
    outcome = outcome_of(tally)
    before = f", {counted(earlier, 'case')} that failed before among them" if earlier else ""
    cases = counted(tally.cases, "case")
    said = f"{name} passed: {cases} on {where} in {seconds:.1f} s{before}"
    return f"{said}, {largest_text(outcome.largest)}, seed {setup.seed}\n  {never_text(outcome.never)}"


def meant_words(book: FindingBook) -> str:
    """Return the line with the argument `contract` by which a check would allow the failure; '' if no contract does."""
    fitting = [bucket.told.contract for bucket in book.buckets.values()]
    said = next((each.says for each in fitting if each is not None and each.telling), "")
    return f"  if that is meant, check with contract=dict({said})" if said else ""


def width() -> int:
    """Return the columns that are left for each line of an exception's message."""
    return columns() - _INDENT


def _text(bucket: Bucket, setup: CheckSetup, pack_option: tuple[str, ...], before: int) -> str:
    """Return the first lines of a failure, or all of it with -v. A check that was typed at a prompt cannot be found
    again by `repro` and `show`. So its failure is printed in full, and its case file can be passed to a check."""
    from fuzz.report.brief import WIDTH, Provenance, brief, commands_of
    from fuzz.report.failure import HANG, full_text

    path, told = bucket.path if pack_option else None, bucket.told
    commands = commands_of(told, path, Provenance(setup.seed, setup.command, pack_option))
    text = brief(told, commands, min(width(), WIDTH + before), before)
    if path is None or GIVEN.options.verbose:
        text += f"\n\n{full_text(told, commands, width=width())}"
    if bucket.path is None or path is not None:
        return text
    kept = f"  case file     {bucket.path}, to be run first by fuzz.check(..., cases=[...])"
    return f"{text}\n{wrapped_text(kept, width(), HANG)}"


def _why_nothing(tally: Tally, pool: Pool) -> str:
    reasons = [status.reason for status in pool.statuses.values() if isinstance(status, NotRun)]
    return reasons[0] if reasons else f"none of {counted(tally.cases, 'case')} fits what the kernel takes"
