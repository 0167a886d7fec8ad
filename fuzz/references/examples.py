"""Properties that inputs always have in the examples of a reference. Drawn cases keep them, and a few further cases
show what a kernel does with inputs that lack them, or that have them."""

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
from fuzz.core.generate.drawing import draw_from
from fuzz.core.generate.observed import kept_by, words_of
from fuzz.core.generate.realise import holds_in, realise
from fuzz.core.generate.sketch import sketched
from fuzz.core.laws.registry import Entry
from oracles.dtypes import SPELLED, Format
from oracles.operand import OUTER, Kept
from oracles.ops import OPS

if TYPE_CHECKING:
    from fuzz.references.derive import Derived

GIVEN, DRAWN = "the examples", "get_inputs()"
"""Words for the source of examples."""
SAMPLES = 3
"""The number of draws of examples that must all have a property, since one draw may have it by chance."""
_MOST_ELEMENTS = 1 << 22
"""The most elements of a draw of examples. Larger ones are ignored, since looking at them would take seconds."""
_BESIDE = 40
"""The number of further cases after a search: about a tenth of a second of a usual kernel."""
_ENOUGH = 8
"""The least number of judged cases, all passing, after which a kernel counts as right for such inputs."""

Samples = Mapping[str, Any]
"""One draw of examples: arrays or tensors by the names of a reference's parameters, without other arguments."""


def samples_of(draw: Callable[[int], Samples]) -> Sequence[Samples]:
    """Return `SAMPLES` draws of examples, for different seeds; () if they are large or drawing them raises."""
    found = list[Samples]()
    for seed in range(SAMPLES):
        try:
            each = draw(seed)
        except Exception:  # the code of a task may raise anything
            return ()
        if sum(int(np.prod(one.shape)) for one in each.values() if hasattr(one, "shape")) > _MOST_ELEMENTS:
            return ()
        found.append(each)
    return found


def seen_in(found: Derived, samples: Sequence[Samples]) -> Mapping[str, Kept]:
    """Return the properties that the inputs of an op always have in examples, by input."""
    return seen_of({each.name: found.called.get(each.name) or each.name for each in found.op.inputs}, samples)


def seen_of(called: Mapping[str, str], samples: Sequence[Samples]) -> Mapping[str, Kept]:
    """Return the properties that tensors always have in examples. `called` are their names in the examples."""
    from fuzz.core.generate.properties import observed

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
    """Return the pairs of last dimensions of the matrices that are square in all examples."""
    from fuzz.core.generate.properties import PROPERTIES

    pairs = dict[tuple[str, str], None]()
    for name, some in kept.items():
        axes = tuple(dims[name])[-2:]
        square = any(PROPERTIES[each].is_square for each, _ in some) and len({*shapes[name][-2:]}) == 1
        if square and len({*axes}) == 2 and {*axes}.isdisjoint((OUTER, *fixed)):
            pairs[axes[0], axes[1]] = None
    return tuple(pairs)


def keeping(found: Derived, samples: Sequence[Samples], source: str, *, any_values: bool = False) -> Derived:
    """Return a derived op whose inputs keep the properties that they always have in examples. Magnitudes and signs are
    not kept, only reported. With `any_values` only squareness of matrices is kept."""
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
    """The result of a kernel for inputs that its cases did not have: inputs without the properties of the examples, or,
    if cases without them failed, inputs with them."""

    always: str
    """The properties that inputs always have in examples, in words."""
    right_within: bool
    """Whether the kernel is right for inputs with these properties, and wrong for others."""
    judged: int
    failing: int
    source: str

    @property
    def text(self) -> str:
        """The sentence for the report; "" if the kernel does not differ between both kinds of inputs."""
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
    """Return, by kernel, the results of further cases. A kernel that has not failed gets inputs without the properties
    that were kept; a kernel that `failed` gets inputs with all properties `seen` in examples, unless all were kept."""
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
            case = realise(replace(draw_from(sketched(capability, dice.below), dice=dice), kept=kept))
        except CaseError:  # some extents contradict each other
            continue
        if capability.accepts(case) and holds_in(case, kept or None) is bool(kept):
            yield case


def _counts(pool: Pool, targets: Sequence[Target], entries: Sequence[Entry]) -> tuple[Counter[str], Counter[str]]:
    """Return the number of judged runs, and of failing ones, by kernel."""
    ran, failing, names = Counter[str](), Counter[str](), {each.id: each.kernel.name for each in targets}
    examiner = Examiner(pool, targets, decides=False)
    parts = examiner.examined([entries], examiner.submit(entries)) if entries else []
    for each in (judgement for part in parts for some in part.judgements for judgement in some):
        if each.verdict is Verdict.PASS or each.verdict.is_finding:
            ran[names[each.target]] += 1
            failing[names[each.target]] += each.verdict is not Verdict.PASS
    return ran, failing
