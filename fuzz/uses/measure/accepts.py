"""What a kernel accepts of which nothing is declared: the extents that it raises for, as one line to declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fuzz.adapters.target import Target
from fuzz.base.case import Case
from fuzz.base.outcome import Status
from fuzz.execute.pool import Pool
from fuzz.triage.trial.variations import extended, made, rank_of, sized
from fuzz.uses.measure.bench import Bench, UnmeasurableError
from fuzz.uses.measure.measuring import Template, template
from oracles.operand import OUTER
from oracles.ops import OPS

_STEPS = (2, 4, 8, 16, 32, 64)
_USUAL = 64
"""An extent that is a multiple of all of them."""
_MOST = 1 << 16
"""The tensors of a case have no more elements: those of four dimensions have fewer along each."""
_EXTENTS = (1, 3, 5, 6, 12, 20, 24, 40, 48, 96, 112, 160, 192)
_REFUSED = (Status.RAISED, Status.REJECTED)


@dataclass(frozen=True)
class Accepted:
    """What extents are taken, where these are not all."""

    multiple_of: Mapping[str, int]
    refused: Case
    """A case that is not."""

    @property
    def text(self) -> str:
        """Such as "takes n in multiples of 8 only: declare multiple_of={"n": 8} in its capabilities"."""
        taken = " and ".join(f"{dim} in multiples of {step}" for dim, step in self.multiple_of.items())
        said = ", ".join(f'"{dim}": {step}' for dim, step in self.multiple_of.items())
        return f"takes {taken} only: declare multiple_of={{{said}}} in its capabilities"

    def narrowed(self, target: Target) -> Target:
        """The target, given nothing else."""
        able = replace(target.kernel.capabilities, multiple_of=self.multiple_of)
        return replace(target, kernel=replace(target.kernel, capabilities=able))


def accepted(pool: Pool, target: Target) -> Accepted | None:
    """Return what a kernel takes that raises for some extents and for no multiple of a power of two; None where it
    raises for none, or as no such number says."""
    able, steps, refused = target.kernel.capabilities, dict[str, int](), list[Case]()
    if able.multiple_of or able.max:
        return None
    try:
        base = template(target, able.dtypes[0])
        for dim in OPS[target.kernel.op].named:
            cases = {size: _sized(base, dim, size) for size in (_USUAL, *_EXTENTS)}
            bench = Bench(pool, target, cases[_USUAL])
            raised = {
                size: outcome.status in _REFUSED
                for size, outcome in zip(cases, bench.run([*cases.values()]), strict=True)
            }
            step = _step([size for size in raised if raised[size]], [size for size in raised if not raised[size]])
            if step is not None:
                steps[dim] = step
                refused += [cases[size] for size in raised if raised[size]]
    except (UnmeasurableError, ValueError):
        return None
    return Accepted(steps, min(refused, key=lambda case: case.elements)) if steps else None


def _sized(base: Template, dim: str, size: int) -> Case:
    op = OPS[base.draw.op]
    most = max(len(each.axes) for each in op.inputs)
    usual = next((size for size in reversed(_STEPS) if size**most <= _MOST), 1)
    sizes = {**dict.fromkeys(base.draw.sizes, usual), dim: size}
    rank = max(2, rank_of(base.draw)) if OUTER in op.inputs[0].axes else None
    return made(sized(extended(base.draw, sizes), 2, rank))


def _step(refused: Sequence[int], taken: Sequence[int]) -> int | None:
    """The power of two that all taken extents are multiples of, and none that is refused."""
    fitting = (step for step in _STEPS if all(size % step == 0 for size in taken))
    return next((step for step in fitting if all(size % step for size in refused)), None) if refused else None
