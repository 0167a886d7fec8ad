"""The upkeep of a corpus: which files say nothing that another does not, and what another folder adds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fuzz.adapters.target import TargetId
from fuzz.base.case import Case, Layout
from fuzz.base.draw import Frame
from fuzz.uses.corpus.folder import Kept, keep, kept_cases
from oracles.dtypes import ITEMSIZE
from oracles.ops import OPS

_TAIL = 64
"""The widest common block has this many elements: rows of one residue and one class of length go the same way."""


@dataclass(frozen=True)
class Subsumed:
    """A file that may go, since `by` shows the same on a smaller case."""

    kept: Kept
    by: Kept


def subsumed(corpus: Iterable[Kept]) -> list[Subsumed]:
    """Files found as the same failure on the same kind of input as a smaller one. Documented cases always stay."""
    best: dict[tuple[object, ...], Kept] = {}
    dropped = []
    for kept in sorted(corpus, key=lambda each: (each.case.elements, each.case.digest)):
        if kept.found is None or kept.about:
            continue
        first = best.setdefault(signature(kept), kept)
        if first is not kept:
            dropped.append(Subsumed(kept, first))
    return dropped


def signature(kept: Kept) -> tuple[object, ...]:
    """What two files must have in common for one of them to be enough."""
    case, found = kept.case, kept.found
    law = found.law.name if found and found.law else ""
    seen = (TargetId.parse(found.target).implementation, found.verdict, law) if found else ()
    return (
        case.op,
        seen,
        case.structured,
        case.origin.recipe,
        tuple((name, t.dtype, _layout_class(t.layout, t.dtype)) for name, t in sorted(case.tensors.items())),
        tuple(sorted((name, output.alias) for name, output in case.outputs.items())),
        _row_class(case),
    )


def merge(source: Path, into: Path, known: Iterable[Kept]) -> list[Path]:
    """Copy the cases below `source` that are not known yet into the folder `into`; where they went."""
    seen, written = {each.case.digest for each in known}, []
    for kept in kept_cases(source):
        if kept.case.digest not in seen:
            seen.add(kept.case.digest)
            written.append(keep(kept, into))
    return [path for path in written if path is not None]


def _layout_class(layout: Layout, dtype: str) -> tuple[object, ...]:
    """Rank, signs and order of the strides, and whether it is aligned and dense."""
    sizes = [abs(stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent > 1]
    order = sizes == sorted(sizes, reverse=True)
    signs = tuple((stride > 0) - (stride < 0) for stride in layout.strides)
    return len(layout.shape), signs, order, layout.extent == layout.size, layout.alignment(ITEMSIZE[dtype]) == 0


def _row_class(case: Case) -> tuple[object, ...]:
    frame = Frame(case)
    zeros = tuple(each.name for each in OPS[case.op].parameters if case.params.get(each.name) == 0 != each.neutral)
    return frame.n % _TAIL, frame.n > _TAIL, math.prod(frame.grid) > frame.n, zeros
