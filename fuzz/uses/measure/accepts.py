"""What a kernel accepts of which nothing is declared: the extents that it raises for, as one line to declare."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.outcome import Outcome, Status
from fuzz.execute.pool import Pool
from fuzz.generate.variations import extended, made, rank_of, sized
from fuzz.uses.measure.bench import Bench, UnmeasurableError
from fuzz.uses.measure.measuring import Template, template
from oracles.op import Op
from oracles.operand import OUTER
from oracles.ops import OPS

_STEPS = (2, 4, 8, 16, 32, 64)
_USUAL = 64
"""An extent that is a multiple of all of them."""
_MOST = 1 << 16
"""The tensors of a case have no more elements: those of four dimensions have fewer along each."""
_EXTENTS = (1, 3, 5, 6, 12, 20, 24, 40, 48, 96, 112, 160, 192)
_LONG = (256, 512, 1024, 2048, 4096, 8192)
"""Those beyond which a kernel may refuse all, but where a case would have more than `_MOST_LONG` elements."""
_MOST_LONG = 1 << 19
_MOST_SHORT = 1 << 21
"""The same of shorter ones."""
_ROWS = 2
_FEWEST = 3
"""A kernel that takes fewer of all these refuses nearly everything."""
_REFUSED = (Status.RAISED, Status.REJECTED)
_OWN = re.compile(
    r"(?:AssertionError|NotImplementedError|RuntimeError|TypeError|ValueError)\b.* \((\S+ line \d+): (assert|raise)\b"
)
"""What is raised by a statement of the kernel's own that does nothing else, as a worker tells it."""
Refuses = Callable[[Outcome], str]
"""The words for where a kernel refused a case; "" where it did not."""


@dataclass(frozen=True)
class Accepted:
    """What extents are taken, where these are not all."""

    multiple_of: Mapping[str, int]
    refused: Case
    """A case that is not."""
    max: Mapping[str, int] = field(default_factory=dict)
    """The longest extents that are taken, where longer ones are refused."""
    where: tuple[str, ...] = ()
    """The places where it refuses others, such as "asserted in kernel.py line 12"."""

    @property
    def text(self) -> str:
        """Such as "takes n in multiples of 8 only: declare multiple_of={"n": 8} in its capabilities"."""
        return f"takes {self.taken} only: declare {', '.join(self.fields)} in its capabilities"

    @property
    def taken(self) -> str:
        """Such as "n in multiples of 8"."""
        steps = [f"{dim} in multiples of {step}" for dim, step in self.multiple_of.items()]
        return " and ".join([*steps, *(f"{dim} up to {most}" for dim, most in self.max.items())])

    @property
    def fields(self) -> Sequence[str]:
        """What declares that."""
        given = {"multiple_of": self.multiple_of, "max": self.max}
        return [f"{name}={json.dumps(dict(each))}" for name, each in given.items() if each]

    def narrowed(self, target: Target) -> Target:
        """The target, given nothing else."""
        able = replace(target.kernel.capabilities, multiple_of=self.multiple_of, max=self.max)
        return replace(target, kernel=replace(target.kernel, capabilities=able))


def _raises(outcome: Outcome) -> str:
    """Halves of odd length are added by some for no error."""
    return "it raises" if outcome.status in (*_REFUSED, Status.WRONG_SHAPE) else ""


def own_refusal(outcome: Outcome) -> str:
    """Return where a statement of the kernel itself raised, such as "asserted in kernel.py line 12"; "" where none
    did: what a library raises that it calls is no refusal of its own."""
    found = _OWN.match(outcome.detail) if outcome.status in _REFUSED else None
    return f"{'asserted' if found[2] == 'assert' else 'raised'} in {found[1]}" if found is not None else ""


def accepted(pool: Pool, target: Target, refuses: Refuses = _raises, *, long: bool = False) -> Accepted | None:
    """Return what a kernel takes that refuses some extents and no multiple of a power of two, and with `long` ones none
    up to a length; None where it refuses none, or as no such number says."""
    able, steps, refused = target.kernel.capabilities, dict[str, int](), list[Case]()
    most, where = dict[str, int](), dict[str, None]()
    if able.multiple_of or able.max:
        return None
    try:
        base = template(target, able.dtypes[0])
        for dim in OPS[target.kernel.op].named:
            if dim in OPS[target.kernel.op].fixed:
                continue
            every = (*_EXTENTS, *(_LONG if long else ()))
            sizes = [size for size in every if _is_few(OPS[base.draw.op], _sizes(base, dim, size))]
            cases = {size: _sized(base, dim, size) for size in (_USUAL, *sizes)}
            bench = Bench(pool, target, cases[_USUAL])
            places = {size: refuses(outcome) for size, outcome in zip(cases, bench.run([*cases.values()]), strict=True)}
            taken = [size for size, place in places.items() if not place]
            longest = max(taken, default=0)
            if long and len(taken) < _FEWEST:
                continue
            step = _step([size for size, place in places.items() if place and size < longest], taken)
            if step is None and any(place for size, place in places.items() if size < longest):
                continue
            if step is not None:
                steps[dim] = step
            is_bounded = long and 0 < longest < max(places)
            if is_bounded:
                most[dim] = longest
            if step is not None or is_bounded:
                refused += [cases[size] for size, place in places.items() if place]
                where.update(dict.fromkeys(place for place in places.values() if place))
    except (UnmeasurableError, ValueError):
        return None
    if not refused:
        return None
    return Accepted(steps, min(refused, key=lambda case: case.elements), most, tuple(where))


def _sized(base: Template, dim: str, size: int) -> Case:
    rank = max(2, rank_of(base.draw)) if OUTER in OPS[base.draw.op].inputs[0].axes else None
    return made(sized(extended(base.draw, _sizes(base, dim, size)), _ROWS, rank))


def _sizes(base: Template, dim: str, size: int) -> Mapping[str, int]:
    most = max(len(each.axes) for each in OPS[base.draw.op].inputs)
    usual = next((size for size in reversed(_STEPS) if size**most <= _MOST), 1)
    return {**dict.fromkeys(base.draw.sizes, usual), dim: size}


def _is_few(op: Op, sizes: Mapping[str, int]) -> bool:
    """Whether a case of such extents is made. There may be none, of which others follow. One that has more elements, as
    where others are fixed, takes long, and is made shorter than it should be."""
    whole = op.whole({**sizes, **op.fixed})
    if whole is None:
        return False
    elements = sum(math.prod(whole.get(axis, _ROWS) for axis in each.axes) for each in op.inputs)
    return elements <= (_MOST_LONG if max(sizes.values()) >= _LONG[0] else _MOST_SHORT)


def _step(refused: Sequence[int], taken: Sequence[int]) -> int | None:
    """The power of two that all taken extents are multiples of, and none that is refused."""
    fitting = (step for step in _STEPS if all(size % step == 0 for size in taken))
    return next((step for step in fitting if all(size % step for size in refused)), None) if refused else None
