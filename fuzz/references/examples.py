"""What inputs always are in the examples that come with a reference: it is kept by the cases that are drawn, and a few
others say what a kernel does beyond, or within."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fuzz.campaign.search.examiner import Examiner
from fuzz.core.adapters.target import Target
from fuzz.core.base.capability import Capability
from fuzz.core.base.case import Case, CaseError
from fuzz.core.base.stream import Stream, dice_of
from fuzz.core.base.text import counted
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.batch import Pool
from fuzz.core.generate.observed import PROPERTIES, kept_by, observed, words_of
from fuzz.core.generate.plan import plan
from fuzz.core.generate.realise import holds_in, realise
from fuzz.core.generate.sketch import sketched
from fuzz.core.laws.registry import Entry
from oracles.dtypes import SPELLED, Format
from oracles.operand import OUTER, Kept
from oracles.ops import OPS

if TYPE_CHECKING:
    from fuzz.references.derive import Derived

GIVEN, DRAWN = "the examples", "get_inputs()"
"""Where examples come from."""
SAMPLES = 3
"""The draws of examples that must agree: what one shows by chance another one does not."""
_MOST_ELEMENTS = 1 << 22
"""Examples of more are not looked at: it would take seconds."""
_BESIDE = 40
"""The cases beyond what is kept, or within it, after a search: about a tenth of a second of a usual kernel."""
_ENOUGH = 8
"""The least number of judged cases after which a kernel is called right within it, if no case fails."""

Samples = Mapping[str, Any]
"""Arrays or tensors by the names of a reference's parameters; others are left out."""


def samples_of(draw: Callable[[int], Samples]) -> Sequence[Samples]:
    """Return several draws of examples, each of another seed; nothing if they are large, or cannot be drawn."""
    found = list[Samples]()
    for seed in range(SAMPLES):
        try:
            each = draw(seed)
        except Exception:  # whatever the code of a task raises
            return ()
        if sum(int(np.prod(one.shape)) for one in each.values() if hasattr(one, "shape")) > _MOST_ELEMENTS:
            return ()
        found.append(each)
    return found


def seen_in(found: Derived, samples: Sequence[Samples]) -> Mapping[str, Kept]:
    """Return what the inputs of an op always are in examples, by its own names."""
    return seen_of({each.name: found.called.get(each.name) or each.name for each in found.op.inputs}, samples)


def seen_of(called: Mapping[str, str], samples: Sequence[Samples]) -> Mapping[str, Kept]:
    """Return what tensors always are in examples, where these call them so."""
    seen = dict[str, Kept]()
    for own, name in called.items():
        there = [one[name] for one in samples if hasattr(one.get(name), "shape")]
        if len(there) != len(samples) or not there:
            continue
        dtype = SPELLED.get(str(there[0].dtype).removeprefix("torch."))
        u = dtype.u if isinstance(dtype, Format) else 0.0
        arrays = [np.asarray(one.detach().cpu().double() if hasattr(one, "detach") and u else one) for one in there]
        if kept := observed(arrays, u):
            seen[own] = kept
    return seen


def square_in(
    kept: Mapping[str, Kept], dims: Mapping[str, Sequence[str]], shapes: Mapping[str, Sequence[int]],
    fixed: Collection[str],
) -> tuple[tuple[str, str], ...]:  # fmt: skip
    """Return the dimensions that have as many elements, those of matrices that are square in examples."""
    pairs = dict[tuple[str, str], None]()
    for name, some in kept.items():
        axes = tuple(dims[name])[-2:]
        square = any(PROPERTIES[each].is_square for each, _ in some) and len({*shapes[name][-2:]}) == 1
        if square and len({*axes}) == 2 and {*axes}.isdisjoint((OUTER, *fixed)):
            pairs[axes[0], axes[1]] = None
    return tuple(pairs)


def keeping(found: Derived, samples: Sequence[Samples], source: str, *, any_values: bool = False) -> Derived:
    """Return what was read, with what its inputs always are in examples: magnitudes and signs are only told, and of
    matrices that may have `any_values` only that they are square is kept."""
    seen = seen_in(found, samples)
    op = replace(found.op, inputs=tuple(replace(each, kept=seen.get(each.name, ())) for each in found.op.inputs))
    kept, dims = kept_by(op), {each.name: each.axes for each in op.inputs}
    shapes = {name: tuple(samples[0][found.called.get(name) or name].shape) for name in kept}
    words = "" if any_values else words_of(kept)
    square = dict.fromkeys((*op.square, *square_in(kept, dims, shapes, op.fixed)))
    op = replace(found.op if any_values else op, square=tuple(square))
    return replace(found, op=op, said=f"{found.said}; kept as in {source}: {words}" if words else found.said)


@dataclass(frozen=True)
class Beyond:
    """What a kernel does with values that its cases do not have: beyond what inputs always are in examples, or within
    that where others failed."""

    always: str
    """What the inputs always are, in words."""
    right_within: bool
    """Whether it is right for such inputs, and wrong beyond."""
    judged: int
    failing: int
    source: str

    @property
    def text(self) -> str:
        """The sentence; '' where it is the same on both sides."""
        if not self.right_within:
            return ""
        have = "draws" if self.source == DRAWN else "have"
        right = f"right for inputs as {self.source} {have} them ({self.always})"
        if not self.failing:
            return (
                f"{right}: {counted(self.judged, 'further case passes', 'further cases pass')}; wrong beyond, "
                "which counts"
            )
        return (
            f"{right}; wrong beyond: {self.failing:,} of {counted(self.judged, 'other case fails', 'other cases fail')}"
        )


def beside(
    pool: Pool, targets: Sequence[Target], seed: int, seen: Mapping[str, Kept], source: str, failed: Collection[str]
) -> Mapping[str, Beyond]:
    """Return what kernels do on the other side of what was `seen`, by their names: beyond it those that have not
    failed, where it was kept; within it those that have, where it was not all kept."""
    if not seen:
        return {}
    op = OPS[targets[0].kernel.op]
    kept, found = kept_by(op), dict[str, Beyond]()
    for within in (False, True):
        some = [each for each in targets if (each.kernel.name in failed) is within]
        if not some or (not kept if not within else {**kept} == {**seen}):
            continue
        entries = [Entry(case) for case in _cases(some[0].kernel.capability, seed, seen if within else {})]
        ran, failing = _counts(pool, some, entries)
        always = words_of(seen if within else kept)
        for name in dict.fromkeys(each.kernel.name for each in some):
            right = ran[name] >= _ENOUGH and not failing[name] if within else failing[name] > 0
            found[name] = Beyond(always, right, ran[name], failing[name], source)
    return found


def _cases(capability: Capability, seed: int, kept: Mapping[str, Kept]) -> Iterator[Case]:
    for dice in dice_of(Stream(seed).child("beside examples"), _BESIDE):
        try:
            case = realise(replace(plan(sketched(capability, dice.below), dice=dice), kept=kept))
        except CaseError:  # of dimensions that contradict each other
            continue
        if capability.accepts(case) and holds_in(case, kept or None) is bool(kept):
            yield case


def _counts(pool: Pool, targets: Sequence[Target], entries: Sequence[Entry]) -> tuple[Counter[str], Counter[str]]:
    """The runs that were judged, and those of them that failed, by kernel."""
    ran, failing, names = Counter[str](), Counter[str](), {each.id: each.kernel.name for each in targets}
    examiner = Examiner(pool, targets, decides=False)
    parts = examiner.examined([entries], examiner.submit(entries)) if entries else []
    for each in (judgement for part in parts for some in part.judgements for judgement in some):
        if each.verdict is Verdict.PASS or each.verdict.is_finding:
            ran[names[each.target]] += 1
            failing[names[each.target]] += each.verdict is not Verdict.PASS
    return ran, failing
