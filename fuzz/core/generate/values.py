"""The values of the inputs of several draws, drawn and rounded together: in small cases each step costs a call of
NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fuzz.core.base.case import Layout, Shard
from fuzz.core.base.draw import Draw, Given, Part
from fuzz.core.base.dtypes import nans, quantise
from fuzz.core.base.stream import Ahead, Asked, Reals, Stream, child_key
from fuzz.core.generate.compared import compared
from fuzz.core.generate.coverage import Labels, labels_of
from fuzz.core.generate.given import made_of, repeated_or_cut, stored
from fuzz.core.generate.menus import Menu, menus_of
from fuzz.core.generate.observed import kept_by, made_so
from fuzz.core.generate.recipes import Recipe, RowSpec
from fuzz.core.generate.related import STRAYS, Related
from fuzz.core.generate.scene import Scene
from oracles.dtypes import DOUBLE, FORMATS
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import OUTER, Kept
from oracles.ops import OPS

Values = NDArray[np.generic]
Whole = NDArray[np.int64]


class Laid:
    """A draw whose tensors have their layouts and then, as each tensor's memory holds them, the values of its
    inputs."""

    def __init__(self, draw: Draw, layouts: Mapping[str, Layout], shard: Shard | None, number: int) -> None:
        """`shard` and `number`: the place of its case in a search, as in `Origin`."""
        self.draw, self.op, self.layouts = draw, OPS[draw.op], layouts
        self.shard, self.number = shard, number
        self.arrays: dict[str, Values] = {}
        """The values by tensor, from when they are filled in."""
        self._rows: dict[str, Reals] = {}

    @lazy
    def labels(self) -> Labels:
        """Return what its case will visit, except by its values."""
        return labels_of(self.draw, self.layouts)

    @lazy
    def scene(self) -> Scene:
        """Return what inputs that follow from others are drawn from."""
        draw, op = self.draw, self.op
        given = frozenset([part.name for part in draw.parts if op.is_input(part.name)])
        stacked = frozenset([part.name for part in draw.parts if part.stack])
        wide = any(part.dtype == DOUBLE.name for part in draw.parts)
        sizes = {OUTER: math.prod(draw.batch), **draw.sizes}
        whole = op.whole(sizes) or sizes
        return Scene(op, _There(self), draw.parameters, given, stacked, wide, draw.rows, draw.n, whole)

    def jobs(self) -> Iterator[_Job]:
        """Yield what is to be filled in: the inputs with memory of their own."""
        draw, op = self.draw, self.op
        threshold, numbers = draw.parameters.get(_threshold(op), 0.0), compared(op, tuple(draw.parameters.items()))
        for part in draw.parts:
            if part.alias is not None or not op.is_input(part.name):
                continue
            rows, n = draw.block(part.name)
            rows = self.layouts[part.name].shape[0] if part.stack else rows
            spec = RowSpec(rows, n, part.dtype, threshold, numbers.get(part.name, ()))
            # The first input has the draw's own stream, so that its values are those of the seed alone.
            key = draw.seed if part.name == op.main else child_key(draw.seed, part.name)
            yield _Job(self, part, spec, None if part.given is not None else self.recipe(part), key)

    def recipe(self, part: Part) -> Recipe | Related:
        """Return what draws the values of an input, unless they are given."""
        if part.recipe in STRAYS:
            return STRAYS[part.recipe]
        found = self._menus[part.name].recipes[part.recipe]
        if found is None:  # the recipe of the first input
            found = self._menus[self.op.main].recipes[self.draw.part(self.op.main).recipe]
            assert found is not None
        return found

    @lazy
    def kept(self) -> Mapping[str, Kept]:
        """Return the properties that the values of inputs are made to have."""
        return kept_by(self.op) if self.draw.kept is None else self.draw.kept

    @lazy
    def _menus(self) -> Mapping[str, Menu]:
        return menus_of(self.op)

    def given(self, part: Part, given: Given, rows: int, stream: Stream) -> Values:
        """Return the values of a part that are given, or that follow from given ones."""
        _, n = self.draw.block(part.name)
        values = repeated_or_cut(given, rows, n, columns=part.name in self.op.columns)
        if self.op.has_rows(part.name):
            values = made_of(part.recipe, values, self.draw.part(self.op.main).dtype, stream)
        kept = stored(values, part.dtype)
        # A place among the given values may be beyond the end of a shorter dimension.
        if part.name in self.op.integers:
            whole = self._within(part.name, kept.astype(np.int64), given.places if given.bits else None)
            return whole.astype(kept.dtype)
        return kept

    def _within(self, name: str, values: Whole, count: int | None) -> Whole:
        """Return given integers that fit these extents. `count` is the number of places that there were."""
        lowest, highest = self.scene.span(name)
        places = np.clip(values, lowest, max(highest, lowest))
        if count is not None:  # what was no place before is no place here
            places = np.where(values < 0, values, np.where(values >= count, np.maximum(values, highest + 1), places))
        return np.where(values == self.op.operand(name).missing, values, places)

    def keep(self, part: Part, values: Values) -> None:
        """Store rounded values, given row by row, as the tensor's memory has them."""
        layout, draw = self.layouts[part.name], self.draw
        kept = self.kept.get(part.name, ())
        if kept and not part.stack:
            shape = (*draw.outer, draw.n) if part.name in self.op.alike else layout.shape
            values = made_so(kept, values.reshape(shape), part.dtype)
        if part.name in self.op.alike and draw.axis != draw.rank - 1:
            # Rows are made with their axis last; moving the axis keeps every row's values together.
            values = np.moveaxis(values.reshape(*draw.outer, draw.n), -1, draw.axis)
        self.arrays[part.name] = _folded(values.reshape(layout.shape), layout)

    def rows(self, name: str) -> Reals:
        """Return an input as float64, shape (rows, n); one that has neither the first input's rows nor is stacked is
        one row."""
        if name not in self._rows:
            self._rows[name] = self._as_rows(name)
        return self._rows[name]

    def _as_rows(self, name: str) -> Reals:
        with np.errstate(invalid="ignore"):  # of a signalling NaN
            values = self.arrays[name].astype(np.float64)
        if self.draw.part(name).stack:
            stacked: Reals = values[np.arange(self.draw.rows) % len(values)]
            return stacked
        if name not in self.op.alike:
            return values.reshape(-1)
        return np.moveaxis(values, self.draw.axis, -1).reshape(self.draw.rows, self.draw.n)

    def whole(self, name: str) -> Reals:
        """Return an input as a scene has it."""
        found = self.rows(name)
        return found if self.draw.part(name).stack else found.reshape(self.scene.shape(name))


class _There(Mapping[str, Reals]):
    """The inputs that have their values already; each is made into rows when it is asked for."""

    def __init__(self, laid: Laid) -> None:
        self._laid = laid

    def __getitem__(self, name: str) -> Reals:
        return self._laid.whole(name)

    def __contains__(self, name: object) -> bool:
        return name in self._laid.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._laid.arrays)

    def __len__(self) -> int:
        return len(self._laid.arrays)


@dataclass(frozen=True)
class _Job:
    """The values of one input that are to be filled in."""

    laid: Laid
    part: Part
    spec: RowSpec
    recipe: Recipe | Related | None
    """The recipe; None for given values."""
    key: int
    """The key of its stream."""

    def drawn(self, ahead: Ahead) -> Reals:
        """Return the values, row by row, before they are rounded."""
        stream = Stream(self.key, ahead)
        if isinstance(self.recipe, Recipe):
            return self.recipe.fill(self.spec, stream).reshape(-1) if self.spec.size else np.zeros(0)
        assert self.recipe is not None, "given values are not drawn"
        values = self.recipe.fill(self.laid.scene, self.part.name, stream)
        if self.part.stack:
            values = np.broadcast_to(values, (self.spec.rows, self.spec.n))
        return values.reshape(-1)

    @property
    def stage(self) -> int:
        """The stage: inputs that others follow from are filled in first."""
        return self.recipe.stage if isinstance(self.recipe, Related) else 0


def fill_in(drawn: Sequence[Laid]) -> None:
    """Give the inputs of these draws their values: the same as for each draw alone."""
    jobs = [job for each in dict.fromkeys(drawn) for job in each.jobs()]  # one draw may be asked for twice
    ahead = _ahead(jobs)
    stages: dict[int, list[_Job]] = {}
    for job in jobs:
        stages.setdefault(job.stage, []).append(job)
    for stage in sorted(stages):
        _fill(stages[stage], ahead)


@lru_cache(maxsize=64)
def _threshold(op: Op) -> str:
    """Return the parameter that is added to mean squares of the first input: the one that scales as they do."""
    power = 2 * op.scaling.get(op.main, 0)
    return next((each.name for each in op.parameters if power and each.power == power), "")


def _fill(jobs: Iterable[_Job], ahead: Ahead) -> None:
    waiting: dict[str, list[tuple[_Job, Reals]]] = {}
    for job in jobs:
        if job.part.given is not None:
            values = job.laid.given(job.part, job.part.given, job.spec.rows, Stream(job.key))
            job.laid.keep(job.part, values)
        else:
            waiting.setdefault(job.part.dtype, []).append((job, job.drawn(ahead)))
    for dtype, drawn in waiting.items():
        rounded = quantise(np.concatenate([values for _, values in drawn]), dtype)
        at = 0
        for job, reals in drawn:
            own = rounded[at : at + len(reals)]
            if dtype in FORMATS and (where := np.isnan(reals)).any():  # from float64, all NaNs would be quiet
                own[where] = nans(dtype, Stream(job.key).child("nan").words(len(reals)))[where]
            job.laid.keep(job.part, own)
            at += len(reals)


def _ahead(jobs: Iterable[_Job]) -> Ahead:
    """Return numbers drawn ahead, by what recipes are known to ask of their streams."""
    normals, words = list[Asked](), list[Asked]()
    for job in jobs:
        for ask in job.recipe.asks if isinstance(job.recipe, Recipe) else ():
            (normals if ask.normal else words).append((child_key(job.key, ask.label), ask.count(job.spec)))
    return Ahead(normals, words)


def _folded(values: Values, layout: Layout) -> Values:
    """Return values that the memory can hold: elements that share memory are equal."""
    if 0 not in layout.strides:
        return values
    for axis, stride in enumerate(layout.strides):
        if stride == 0 and values.shape[axis] > 1:
            values = np.broadcast_to(values.take([0], axis=axis), values.shape)
    return values
