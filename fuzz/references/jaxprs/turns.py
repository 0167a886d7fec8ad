"""One turn of a loop in JAX: which of its equations make what for the next turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fuzz.references.dims import UnreadableError
from fuzz.references.jaxprs.tracing import Equation, Number, Program

LOOPS = "A loop over a dimension is read if it is jax.lax.scan or fori_loop"


def difference(one: Equation, other: Equation) -> str:
    """Return what differs between the programs of two sets of extents."""
    where = f" ({one.places[0]})" if one.places else ""
    return f"with other extents it does something else: lax.{one.name} or lax.{other.name}{where}. {LOOPS}"


@dataclass
class Turn:
    """One turn of a loop, in both programs."""

    first: Program
    second: Program
    ends: Mapping[int, int | Number]
    """What it makes for the next one, of each that it has of the one before."""
    done: set[int] = field(default_factory=set)
    """The ends that are known."""

    def second_end(self, number: int) -> Number:
        """Return an end that is a number, in the second program."""
        found = self.second.outputs[[*self.ends].index(number)]
        assert isinstance(found, Number)
        return found

    def before(self, number: int) -> set[int]:
        """What the end of one is made of, of all that there is of the turn before."""
        found = {self.ends[number]}
        for each in reversed(self.first.equations):
            if {*each.made} & found - self.done:
                found |= {*each.given}
        return {each for each in self.ends if each in found}

    def made_for(self, end: int | Number) -> Iterator[tuple[Equation, Equation]]:
        """The equations that an end is made by."""
        wanted = {end}
        for each in reversed(self.first.equations):
            if {*each.made} & wanted - self.done:
                wanted |= {*each.given}
        yield from self._of(lambda each: bool({*each.made} & wanted - self.done))

    def rest(self) -> Iterator[tuple[Equation, Equation]]:
        """All others; and those again that are made of what the turn before made, which is known now."""
        yield from self._of(lambda each: not {*each.made} & self.done)

    def _of(self, wanted: Callable[[Equation], bool]) -> Iterator[tuple[Equation, Equation]]:
        for mine, theirs in zip(self.first.equations, self.second.equations, strict=True):
            if mine.name != theirs.name:
                raise UnreadableError(difference(mine, theirs))
            if wanted(mine):
                yield mine, theirs
