"""What takes the turns of a search: its interface, this process alone, and other machines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from fuzz.campaign.search.turn_runner import AHEAD, FindingId, Terms, TurnJob, TurnReport, TurnRunner
from fuzz.core.adapters.target import Attestation, Target
from fuzz.core.base.case import Case
from fuzz.core.execute.lane import Wait
from fuzz.core.execute.pool import Pool
from fuzz.findings.book import FindingBook
from fuzz.findings.bucket import Bucket

Watch = Callable[[Sequence[Wait]], object]
"""Told several times a second what is waited for."""


def silent(waits: Sequence[Wait]) -> None:
    """Says nothing."""


class Executor(Protocol):
    """Takes the turns that it is given."""

    watch: Watch

    @property
    def count(self) -> int:
        """Return how many processes take turns."""
        ...

    def ready(self, seconds: float) -> bool:
        """Wait so long at most for the workers of quick targets to be started, or for those of slow ones where there
        are no others. Whether they are: before that nothing is given."""
        ...

    def room(self, group: int) -> int:
        """Return how many more turns may be given to that group now."""
        ...

    def give(self, task: TurnJob, lessons: Sequence[bytes]) -> None:
        """Have a turn taken; `lessons` are those of all places that are judged, in order."""
        ...

    def take(self, seconds: float) -> TurnReport | None:
        """Return the next turn that ends, or None if none does within the given seconds."""
        ...

    def cut(self) -> None:
        """Wait no longer for cases that run: what is on its way ends soon."""
        ...

    def drop(self) -> None:
        """Forget the turns that are on their way."""
        ...

    def keep(self, findings: Collection[FindingId]) -> None:
        """The calls before these findings will be asked for, and those before others will not."""
        ...

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        """The calls of its process before a finding, as far as they are known."""
        ...


class Crew(Executor, Protocol):
    """Processes that take the turns of a session, here or on other machines, while it is entered."""

    terms: Terms
    deaths: int
    """The number of processes that ended although nobody here ended them."""
    given_up: list[str]
    """Turns that ended a process every time."""
    missing: dict[str, str]
    """Why a target has no worker in some process."""

    @property
    def restarts(self) -> Mapping[str, int]:
        """Return how many workers were replaced although their kernel did nothing wrong, by target."""
        ...

    @property
    def words(self) -> str:
        """Return how many processes there are and how much memory they take, in a few words."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class Engine(Protocol):
    """Other machines that take the turns of a session in place of this one's processes. A session is handed one, so
    that none is loaded where none is named."""

    @property
    def told(self) -> Mapping[str, Attestation]:
        """Return what workers there attested, by target."""
        ...

    def executor(
        self, targets: Sequence[Target], terms: Terms, case_limit: float | None, longest: float | None
    ) -> Crew:
        """Return what takes the turns of these targets there."""
        ...

    def explain(self, book: FindingBook, pile: Sequence[Bucket], seconds: float, over: Callable[[], bool]) -> None:
        """Have other machines explain what failed on them alone, within the given seconds for each cause."""
        ...


class SerialExecutor:
    """This process."""

    def __init__(self, pool: Pool, targets: Sequence[Target], terms: Terms) -> None:
        self.watch: Watch = silent  # the pool has one of its own
        self._turn_runner = TurnRunner(pool, targets, terms)
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
        """The watch of the pool does it."""

    def drop(self) -> None:
        self._turn_runner.forget()
        self._given = []

    def keep(self, findings: Collection[FindingId]) -> None:
        self._turn_runner.kept = findings

    def before(self, finding: FindingId) -> tuple[Case, ...]:
        return self._turn_runner.calls.before(finding)
