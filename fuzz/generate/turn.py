"""The cases of one turn: a sketch that Hypothesis draws for one capability, and what dice make of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuzz.base.capability import SMALL, Capability
from fuzz.base.case import Case
from fuzz.base.draw import Draw
from fuzz.base.stream import Dice, Stream, dice_of
from fuzz.generate.aliasing import aliased, aliased_as
from fuzz.generate.capabilities import out_of_capability
from fuzz.generate.coverage import Label, Labels
from fuzz.generate.gaps import ALONE, PARTS, Gaps, corners_of
from fuzz.generate.plan import plan
from fuzz.generate.realise import Laid, cases_of, laid
from fuzz.generate.relatives import LENGTH, sequence
from fuzz.generate.sketch import Sketch, at_limit, drawn_from, near, sketched
from fuzz.generate.steering import nudged, steer

BATCH = 16
"""The number of cases in one turn: enough to amortise a draw and a message, few enough to keep the progress line
moving."""
FAN = 4
"""So many cases of a turn in a row are relatives of one sketch. Hypothesis draws the sketch of a call
sequence, dice draw the others in the same way, for a twentieth of the price."""
STEERED = 10
"""So many cases of a turn fill coverage gaps, while there are any; the others only go near them."""
STEERED_LATER = 2
"""So many do once turns for a capability have begun with every part of its gaps: what a shard has not visited, others
have."""
SEQUENCE_EVERY = 2
"""One turn of a capability in this many begins with a call sequence in place of its first fan."""
_OUT_ONE_IN = 16
"""One sketch in this many is of what the kernel promises to reject."""


@dataclass(frozen=True)
class Made:
    """A case, and how it was made."""

    case: Case
    draw: Draw | None
    """None of a case that is not the case of a draw alone: in a call sequence, or a big one."""
    capability: Capability


class TurnMaker:
    """Makes the turns of one capability. What it makes depends on nothing but the turn's stream, rank and state."""

    def __init__(self, capability: Capability, ahead: int, sequences: bool) -> None:
        self.capability, self.sequences = capability, sequences
        self._ahead = ahead
        """The sweep of the gaps begins so many turns further on: that of each capability elsewhere."""
        self._outside = out_of_capability([capability])
        self._corners = corners_of(capability)

    def cases(self, stream: Stream, rank: int, state: bytes) -> tuple[list[Made], bytes]:
        """The cases of the turn that comes after `rank` others, and the next state: what its shard has visited."""
        visited = int.from_bytes(state, "little")
        gaps = self._corners.gaps(visited, rank + self._ahead)
        dice = dice_of(stream, BATCH)
        begins = self.sequences and rank % SEQUENCE_EVERY == 0
        sketches = list(self._sketches(stream, dice, by_hypothesis=begins))
        made = list[Made]()
        if begins:
            head = sketches[0]
            calls = sequence(plan(head, dice=dice[0]), head.capability, rank // SEQUENCE_EVERY)
            made = [Made(case, None, head.capability) for case in calls]
        first, plain = len(made), BATCH - (STEERED if rank < PARTS else STEERED_LATER)
        drawn = list[Laid]()
        wanted: dict[int, tuple[Label, int]] = {}
        for place in range(first, BATCH):
            if gaps and place >= plain:
                turn = (rank + self._ahead) * STEERED + place - plain
                asked = gaps.wanted(turn)
                wanted[place] = asked[0], turn
                draw = steer(sketches[place], self.capability, gaps, asked, turn, dice[place])
            else:
                draw = self._free(sketches[place], dice[place], gaps)
            drawn.append(laid(draw))
            if place in wanted or sketches[place].capability is self.capability:
                gaps = gaps.without(self._corners.seen(_counted(drawn[-1].labels, _is_small(draw))))
        for place, (each, case) in enumerate(zip(drawn, cases_of(drawn), strict=True), start=first):
            made.append(self._made(case, each.draw, sketches[place], dice[place], wanted.get(place)))
        visited |= self._seen(made)
        return made, visited.to_bytes(-(-self._corners.size // 8), "little")

    def _made(self, case: Case, draw: Draw, sketch: Sketch, dice: Dice, wanted: tuple[Label, int] | None) -> Made:
        """Here tensors come to share memory, which draws do not know of."""
        if wanted is None:
            return Made(aliased(case, self.capability, dice), draw, sketch.capability)
        (kind, value), turn = wanted
        return Made(aliased_as(case, value, turn) if kind == ALONE else case, draw, self.capability)

    def _sketches(self, stream: Stream, dice: Sequence[Dice], *, by_hypothesis: bool) -> Iterator[Sketch]:
        for place in range(0, BATCH, FAN):
            head, capability = dice[place], self.capability
            if self._outside and head.one_in(_OUT_ONE_IN):
                capability = head.pick(self._outside)
            if place == 0 and by_hypothesis and capability is self.capability:
                sketch = drawn_from(capability)(stream.child("sketch"))
            else:
                sketch = sketched(capability, head.below)
            yield at_limit(sketch, head)
            yield from (at_limit(near(sketch, each), each) for each in dice[place + 1 : place + FAN])

    def _free(self, sketch: Sketch, dice: Dice, gaps: Gaps) -> Draw:
        if gaps and sketch.capability is self.capability:
            sketch = nudged(sketch, gaps)
        return plan(sketch, dice=dice)

    def _seen(self, made: list[Made]) -> int:
        found = 0
        for each in made:
            if each.capability is self.capability:
                found |= self._corners.seen(_counted(each.case.origin.labels, SMALL.holds(each.case)))
        return found


def _counted(labels: Labels, small: bool) -> Labels:
    """What a case counts for. One that slow targets are not given leaves to others what is not about its size."""
    if small:
        return labels
    return tuple(label for label in labels if label[0] in ("n", "rows") or label[0].startswith("tail of "))


def _is_small(draw: Draw) -> bool:
    """As SMALL would say of its case."""
    return draw.rows <= SMALL.rows and draw.rows * draw.n <= SMALL.elements
