"""The values of the inputs of several draws, drawn and rounded together: in small cases calls of NumPy take longest."""

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
from fuzz.core.generate.compared import compared, hides_nan
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
    """A draw whose tensors have layouts, and later the values of its inputs, arranged as in each tensor's memory."""

    def __init__(self, draw: Draw, layouts: Mapping[str, Layout], shard: Shard | None, number: int) -> None:
        """Start without values. The case is number `number` of shard `shard` of a search."""
        self.draw, self.op, self.layouts = draw, OPS[draw.op], layouts
        self.shard, self.number = shard, number
        self.arrays: dict[str, Values] = {}
        """The values by tensor, once they are filled in."""
        self._rows: dict[str, Reals] = {}

    @lazy
    def labels(self) -> Labels:
        """Return the labels that the case will visit, apart from those that depend on values."""
        return labels_of(self.draw, self.layouts)

    @lazy
    def scene(self) -> Scene:
        """Return the scene for inputs whose values depend on other inputs."""
        draw, op = self.draw, self.op
        given = frozenset([part.name for part in draw.parts if op.is_input(part.name)])
        stacked = frozenset([part.name for part in draw.parts if part.stack])
        wide = any(part.dtype == DOUBLE.name for part in draw.parts)
        sizes = {OUTER: math.prod(draw.batch), **draw.sizes}
        whole = op.whole(sizes) or sizes
        return Scene(op, _There(self), draw.parameters, given, stacked, wide, draw.rows, draw.n, whole)

    def jobs(self) -> Iterator[_Job]:
        """Yield a job for each input that has its own memory."""
        draw, op = self.draw, self.op
        threshold, numbers = draw.parameters.get(_threshold(op), 0.0), compared(op, tuple(draw.parameters.items()))
        for part in draw.parts:
            if part.alias is not None or not op.is_input(part.name):
                continue
            rows, n = draw.block(part.name)
            rows = self.layouts[part.name].shape[0] if part.stack else rows
            spec = RowSpec(rows, n, part.dtype, threshold, numbers.get(part.name, ()))
            # The first input has the draw's own stream, so that its values depend on the seed alone.
            key = draw.seed if part.name == op.main else child_key(draw.seed, part.name)
            yield _Job(self, part, spec, None if part.given is not None else self.recipe(part), key)

    def recipe(self, part: Part) -> Recipe | Related:
        """Return the recipe that draws the values of an input, unless they are given."""
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
        """Return the values of a part that are given, or derived from given ones."""
        _, n = self.draw.block(part.name)
        values = repeated_or_cut(given, rows, n, columns=part.name in self.op.columns)
        if self.op.has_rows(part.name):
            values = made_of(part.recipe, values, self.draw.part(self.op.main).dtype, stream)
        kept = stored(values, part.dtype)
        # A given place may be beyond the end of a shorter dimension.
        if part.name in self.op.integers:
            whole = self._within(part.name, kept.astype(np.int64), given.places if given.bits else None)
            return whole.astype(kept.dtype)
        return kept

    def _within(self, name: str, values: Whole, count: int | None) -> Whole:
        """Return given integers, changed to fit these extents. `count` is the number of places that existed when they
        were given; None if they are no places."""
        lowest, highest = self.scene.span(name)
        places = np.clip(values, lowest, max(highest, lowest))
        if count is not None:  # a number that was no place stays no place
            places = np.where(values < 0, values, np.where(values >= count, np.maximum(values, highest + 1), places))
        return np.where(values == self.op.operand(name).missing, values, places)

    def keep(self, part: Part, values: Values) -> None:
        """Store rounded values, given row by row, in the order of the tensor's memory."""
        layout, draw = self.layouts[part.name], self.draw
        kept = self.kept.get(part.name, ())
        if kept and not part.stack:
            shape = (*draw.outer, draw.n) if part.name in self.op.alike else layout.shape
            values = made_so(kept, values.reshape(shape), part.dtype)
        if part.name in self.op.alike and draw.axis != draw.rank - 1:
            # Rows are made with their axis last. Moving the axis keeps the values of every row together.
            values = np.moveaxis(values.reshape(*draw.outer, draw.n), -1, draw.axis)
        self.arrays[part.name] = _folded(values.reshape(layout.shape), layout)

    def rows(self, name: str) -> Reals:
        """Return an input as float64, shape (rows, n). An input without rows that is not stacked counts as one row."""
        if name not in self._rows:
            self._rows[name] = self._as_rows(name)
        return self._rows[name]

    def _as_rows(self, name: str) -> Reals:
        with np.errstate(invalid="ignore"):  # a signalling NaN would warn
            values = self.arrays[name].astype(np.float64)
        if self.draw.part(name).stack:
            stacked: Reals = values[np.arange(self.draw.rows) % len(values)]
            return stacked
        if name not in self.op.alike:
            return values.reshape(-1)
        return np.moveaxis(values, self.draw.axis, -1).reshape(self.draw.rows, self.draw.n)

    def whole(self, name: str) -> Reals:
        """Return an input with an axis for each of its dimensions, or shape (rows, n) if it is stacked."""
        found = self.rows(name)
        return found if self.draw.part(name).stack else found.reshape(self.scene.shape(name))


class _There(Mapping[str, Reals]):
    """The inputs that have their values already, by name. Each is brought into its shape when it is read."""

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
    """The task of filling in the values of one input."""

    laid: Laid
    part: Part
    spec: RowSpec
    recipe: Recipe | Related | None
    """The recipe; None for given values."""
    key: int
    """The key of the input's stream."""

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
        """The stage in which the input is filled in. Inputs that others depend on come first."""
        return self.recipe.stage if isinstance(self.recipe, Related) else 0


def fill_in(drawn: Sequence[Laid]) -> None:
    """Give the inputs of these draws their values. They are the same as if each draw were filled in alone."""
    jobs = [job for each in dict.fromkeys(drawn) for job in each.jobs()]  # a draw may be listed twice
    ahead = _ahead(jobs)
    stages: dict[int, list[_Job]] = {}
    for job in jobs:
        stages.setdefault(job.stage, []).append(job)
    for stage in sorted(stages):
        _fill(stages[stage], ahead)


@lru_cache(maxsize=64)
def _threshold(op: Op) -> str:
    """Return the parameter that the op adds to mean squares of the first input, or '' if there is none."""
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
                words = Stream(job.key).child("nan").words(len(reals))
                own[where] = nans(dtype, words, quiet=hides_nan(job.laid.op))[where]
            job.laid.keep(job.part, own)
            at += len(reals)


def _ahead(jobs: Iterable[_Job]) -> Ahead:
    """Return numbers drawn ahead for the known requests of recipes to their streams."""
    normals, words = list[Asked](), list[Asked]()
    for job in jobs:
        for ask in job.recipe.asks if isinstance(job.recipe, Recipe) else ():
            (normals if ask.normal else words).append((child_key(job.key, ask.label), ask.count(job.spec)))
    return Ahead(normals, words)


def _folded(values: Values, layout: Layout) -> Values:
    """Return values that the memory can hold: elements that share memory become equal."""
    if 0 not in layout.strides:
        return values
    for axis, stride in enumerate(layout.strides):
        if stride == 0 and values.shape[axis] > 1:
            values = np.broadcast_to(values.take([0], axis=axis), values.shape)
    return values
