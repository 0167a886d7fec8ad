"""Hunters: processes that each hunt for one mutant after the other, with workers of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from msgspec import json

from fuzz.base.errors import InternalError
from fuzz.base.kernel import Mutant
from fuzz.judge.trouble import error_words
from fuzz.uses.parallel import spread
from fuzz.uses.search.stopping import Interruption
from fuzz.uses.selftest.report import Hunted


def hunted_by(
    processes: int, mutants: Sequence[Mutant], hunt: Callable[[Mutant], Hunted], say: Callable[[str], None],
    stop: Interruption,
) -> Iterator[Hunted]:  # fmt: skip
    """Yield what became of each mutant, in any order, until a stop is wanted: what is under way is dropped then,
    since their mutant may just not have been found yet. Raises InternalError where a hunt comes upon an error of ours.
    """

    def hunted(place: int) -> bytes | str:
        try:
            return json.encode(hunt(mutants[place]))
        except Exception as error:
            return error_words(error)

    def told() -> Iterator[int]:
        for place, mutant in enumerate(mutants):
            say(f"[{place + 1}/{len(mutants)}] {mutant.name}: {mutant.trigger}")
            yield place

    with closing(spread(hunted, told(), min(processes, len(mutants)), "fork", lambda: stop.wanted)) as found:
        for place, came in found:
            if not isinstance(came, bytes):
                why = came or "the process that hunted for it was ended from outside"
                raise InternalError(f"{mutants[place].name}: {why}")
            yield json.decode(came, type=Hunted)
