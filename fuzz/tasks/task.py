"""A task: kernels and what they are judged on, as every front end describes them to the one driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.campaign.search.turn_runner import SearchScope
from fuzz.campaign.session import Session
from fuzz.core.adapters.target import Target
from fuzz.core.base.kernel import Kernel
from fuzz.core.laws.registry import ONE_IN, Entry
from fuzz.findings.book import FindingBook, book_in
from fuzz.findings.bucket import Source
from fuzz.findings.store import FileStore
from fuzz.findings.tally import Tally
from fuzz.references.examples import GIVEN, Beyond, beside
from oracles.formula.contract import Contract
from oracles.operand import Kept

if TYPE_CHECKING:
    from fuzz.campaign.corpus.folder import Kept as Known
    from fuzz.campaign.measured import Measuring
    from fuzz.contracts.accepts import Accepted
    from fuzz.references.replay.oracle import Replay

BALANCED = 1 / 4
"""The share of the cases of a judgement that is balanced over the axes; the others are those of a search."""
PROBED_ONE_IN = 4
"""One case in this many is called again by one of the five probes: a large share, since there are few cases."""


@dataclass(frozen=True)
class Data:
    """The inputs that a task is judged on besides the cases that are drawn for it."""

    known: Sequence[Known] = ()
    """The cases that are run first."""
    always: Mapping[str, Kept] = field(default_factory=dict)
    """The properties, such as being triangular, that the examples of each input always have, by input."""
    source: str = GIVEN
    """Where the examples come from, in words."""


@dataclass(frozen=True)
class Task:
    """Kernels of one op, which says what they should compute, and the inputs that they are judged on."""

    targets: Sequence[Target]
    """The targets that the kernels run on; all are kernels of one op."""
    data: Data = Data()
    measures: bool = False
    """Whether to measure the kernels, since they declare nothing."""
    looks_far: bool = True
    """Whether to try the longest extents at the end."""
    taken: Accepted | None = None
    """The extents that the kernel takes, if it refuses others; else None."""
    replay: Replay | None = None
    """Draws and judges the cases if the op has no formula; None if it has one."""

    @cached_property
    def searched(self) -> Sequence[Target]:
        """The targets as they are searched, limited to the extents that the kernel takes."""
        return self.targets if self.taken is None else [self.taken.narrowed(each) for each in self.targets]

    @property
    def kernels(self) -> Sequence[Kernel]:
        """The kernels of the targets, each once."""
        return [*{target.kernel.name: target.kernel for target in self.targets}.values()]

    @property
    def op(self) -> str:
        """The name of the kernels' op."""
        return self.targets[0].kernel.op

    @property
    def contract(self) -> Contract:
        """The contract of the first target."""
        return self.targets[0].contract

    def book(self, folder: Path, seed: int) -> FindingBook:
        """Return the book of failures, with case files in a folder: by a replay, of internal errors only."""
        if self.replay is None:
            return book_in(folder, seed)
        return FindingBook(FileStore(folder), lambda: Source(seed), name_of=lambda _, each: each.target, keeps=False)

    def scope(self, laws: Sequence[str], *, probed: bool = False) -> SearchScope:
        """Return the scope of a search that tries these laws. With `probed`, it tries them more often, and counts which
        values its cases had on each axis of `fuzz.findings.axes`."""
        kernels = [*{target.kernel.name: target.kernel for target in self.searched}.values()]
        return SearchScope(kernels, tuple(laws), twin_one_in=PROBED_ONE_IN if probed else ONE_IN, axes=probed)


@dataclass(frozen=True)
class Driven:
    """The results of a task besides those in the session's tally and book."""

    targets: Sequence[Target]
    """The targets that were judged. They are limited to the extents that the kernel takes only if something failed."""
    measuring: Measuring | None
    beyond: Mapping[str, Beyond]
    """What kernels do with inputs that lack a property which all examples have, by kernel."""
    again: bool
    """Whether a known case failed, so that nothing was searched."""


def drive(
    task: Task,
    session: Session,
    *,
    meanwhile: Callable[[], None] = lambda: None,
    enough: Callable[[Tally], bool] = lambda tally: False,
) -> Driven:
    """Judge a task in a session: known cases, a search, then the longest extents. Afterwards look at what was measured,
    and at inputs unlike the examples. `meanwhile` is called while workers search. The search ends when `enough` returns
    true. Raises ReplayError if the reference cannot be replayed."""
    book, pool, tally, most = session.book, session.pool, session.tally, session.limits.max_cases
    taken, targets, searched = task.taken, task.targets, task.searched
    runner = session.runner(searched)
    runner.enough = enough
    measuring: Measuring | None = None
    if task.measures:
        from fuzz.campaign.measured import Measuring
        from fuzz.core.adapters.configured import usual

        measuring = Measuring(pool, usual(searched), session.seed)

    def begun() -> None:
        if measuring is not None:
            measuring.measure()
            if most is not None:
                measuring.look_ahead(most)
        meanwhile()

    if session.here is None:
        runner.begun = begun
    elif measuring is not None:
        measuring.measure()  # kernels run in this process, where nothing can go on beside a search
    if task.data.known:
        from fuzz.campaign.corpus.folder import entries_of, in_batches

        runner.run_entries(in_batches(map(entries_of, task.data.known)))
    again = bool(tally.findings)
    if not again:
        runner.wait_for_workers()
        if task.replay is None and session.scope.axes and most is not None:
            runner.run(task.op, session.seed, 1 - BALANCED)
            from fuzz.tasks.further import balanced_entries

            runner.run_entries(balanced_entries(searched, session, most - tally.cases), known=False)
        elif task.replay is None:
            runner.run(task.op, session.seed)
        else:  # one by one: a batch that a limit of time cuts off is lost, and a case may take seconds
            runner.run_entries(task.replay.entries(session, enough))
    if taken is not None and not book.buckets:
        runner = session.runner(targets)
        runner.run_entries([[Entry(taken.refused)]])
    failed = {each.kernel for each in book.buckets.values()}
    sound = [each for each in targets if each.kernel.name not in failed]
    if task.looks_far and sound and not session.interruption.wanted:
        from fuzz.tasks.further import wrong_far

        session.runner(sound).run_entries([wrong_far(pool, sound, session)])
    session.draw_no_more()
    if measuring is not None:
        with session.err.status("looking at what was measured ..."):
            measuring.ended(session, book, most)
    always = {} if session.interruption.wanted else task.data.always
    failed = {each.kernel for each in book.buckets.values()}
    beyond = beside(pool, searched, session.seed, always, task.data.source, failed)
    return Driven(searched if book.buckets else targets, measuring, beyond, again)
