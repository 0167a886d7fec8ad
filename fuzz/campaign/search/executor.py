"""The interface of executors, which take the turns of a search in this process, in other ones, or on other machines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from fuzz.campaign.search.turn_runner import AHEAD, FindingId, SearchScope, TurnJob, TurnReport, TurnRunner
from fuzz.core.adapters.target import Attestation, Target
from fuzz.core.base.case import Case
from fuzz.core.execute.batch import Pool, Wait
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket

Watch = Callable[[Sequence[Wait]], object]
"""A function that is called several times a second with the calls that are being waited for."""


def silent(waits: Sequence[Wait]) -> None:
    """Ignore the calls that are being waited for."""


class Executor(Protocol):
    """Takes turns of a search and returns their reports."""

    watch: Watch

    @property
    def count(self) -> int:
        """The number of processes that take turns."""
        ...

    def ready(self, seconds: float) -> bool:
        """Wait at most `seconds` until the workers of quick targets have started, or of slow ones if there are no
        others. Return whether they have; before that no turn may be given."""
        ...

    def room(self, group: int) -> int:
        """Return how many more turns may be given to that group now."""
        ...

    def give(self, task: TurnJob, lessons: Sequence[bytes]) -> None:
        """Hand out a turn. `lessons` are the lessons of all judged positions, in order."""
        ...

    def take(self, seconds: float) -> TurnReport | None:
        """Return the report of the next turn that ends, or None if none ends within `seconds`."""
        ...

    def cut(self) -> None:
        """Stop waiting for running cases, so that the turns in work end soon."""
        ...

    def drop(self) -> None:
        """Forget the turns that have not ended."""
        ...

    def keep(self, findings: Collection[FindingId]) -> None:
        """Keep the earlier calls of these findings, which will be asked for, and drop all others."""
        ...

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        """Return the calls that came before a finding in its process, as far as they are known."""
        ...


class Crew(Executor, Protocol):
    """An executor that is a context manager: its processes, here or on other machines, take the turns of a session."""

    scope: SearchScope
    deaths: int
    """The number of processes that ended by themselves."""
    given_up: list[str]
    """Turns that ended a process each time they were tried."""
    missing: dict[str, str]
    """The reasons why targets have no worker in some process, by target."""

    @property
    def restarts(self) -> Mapping[str, int]:
        """The number of workers that were replaced although their kernel did nothing wrong, by target."""
        ...

    @property
    def words(self) -> str:
        """The number of processes and the memory that they take, in a few words."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Engine(Protocol):
    """Other machines that take a session's turns instead of its own processes. It is an argument of a session, so that
    its packages are imported only if it is used."""

    @property
    def told(self) -> Mapping[str, Attestation]:
        """Return the attestations of workers on the other machines, by target."""
        ...

    def executor(
        self, targets: Sequence[Target], scope: SearchScope, case_limit: float | None, longest: float | None
    ) -> Crew:
        """Return an executor that takes the turns of these targets on the other machines."""
        ...

    def explain(self, book: FindingBook, pile: Sequence[Bucket], seconds: float, over: Callable[[], bool]) -> None:
        """Explain on other machines the findings that occur only there, in at most `seconds` for each cause."""
        ...


class SerialExecutor:
    """Takes turns in this process."""

    def __init__(self, pool: Pool, targets: Sequence[Target], scope: SearchScope) -> None:
        self.watch: Watch = silent  # the pool has its own
        self._turn_runner = TurnRunner(pool, targets, scope)
        self._given: list[TurnJob] = []
        self._ended: deque[TurnReport] = deque()

    @property
    def count(self) -> int:
        return 1

    def ready(self, seconds: float) -> bool:
        return True

    def room(self, group: int) -> int:
        return AHEAD - self._turn_runner.on_their_way - len(self._given)

    def give(self, task: TurnJob, lessons: Sequence[bytes]) -> None:
        known = self._turn_runner.searched(task.op, task.seed)
        known.lessons += lessons[len(known.lessons) :]
        self._given.append(task)

    def take(self, seconds: float) -> TurnReport | None:
        while not self._ended and (first := self._turn_runner.next_of(self._given)):
            self._turn_runner.begin(*first)
            del self._given[: len(first)]
        if not self._ended and self._turn_runner.on_their_way:
            self._ended.extend(self._turn_runner.end())
        return self._ended.popleft() if self._ended else None

    def cut(self) -> None:
        """Nothing to do here: the pool's watch ends what runs."""

    def drop(self) -> None:
        self._turn_runner.forget()
        self._given = []

    def keep(self, findings: Collection[FindingId]) -> None:
        self._turn_runner.kept = findings

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        return self._turn_runner.calls.before(finding)
