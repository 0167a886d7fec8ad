"""The choices that make a reduction: integers, of which 0 is the plainest and the largest keeps the case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fuzz.core.base.case import Case
from fuzz.core.base.draw import Draw
from fuzz.core.generate.given import KINDS
from fuzz.core.generate.realise import draw_of, realise
from fuzz.explain.shrink.reduction import PLACES, STACKS, STRIDES, WAYS, Reduction, Span, plain_values, reduced
from oracles.op import NO_EXTENTS, Extents
from oracles.ops import OPS

Vector = tuple[int, ...]
Label = tuple[str, str]
"""The kind of a choice, and the tensor or axis that it concerns."""


START = {"rows": "row start", "n": "column start", "extent": "extent start"}
"""For each choice of a count, the choice of the first counted element."""
SHARING = ("over", "shared", "stack")
"""The choices about memory that tensors share."""


@dataclass(frozen=True)
class Choices:
    """All reductions of one case, as vectors of integers. Hypothesis minimises the first integers before the later
    ones. Partly shared memory comes first, since its distance decides how few rows and columns suffice. Rows come
    before columns, both before the layout, and values last."""

    case: Case

    @cached_property
    def ranges(self) -> dict[Label, int]:
        """The largest value of each choice."""
        return {label: most for label, most in self._all() if most > 0}

    @property
    def whole(self) -> Vector:
        """The vector that keeps the case unchanged, with every block beginning at the first row and column."""
        return self.starting((0,) * len(self._draw.outer), 0)

    def starting(self, rows: tuple[int, ...], column: int, extents: Extents = NO_EXTENTS) -> Vector:
        """Return the vector that keeps the case; blocks with fewer rows and columns will begin at these indices."""
        starts = {("row start", str(axis)): row for axis, row in enumerate(rows)}
        starts["column start", ""] = column
        starts |= {("extent start", dim): extents.get(dim, 0) for dim in self._draw.extents}
        return tuple(starts.get(label, most) for label, most in self.ranges.items())

    def reduction(self, vector: Vector) -> Reduction:
        """Return the reduction for a vector."""
        chosen = dict(zip(self.ranges, vector, strict=True))
        case, draw = self.case, self._draw

        def of(kind: str, name: str = "") -> int:
            return chosen.get((kind, name), 0)

        counted = {label for label, _ in self._counts}

        def block(extent: int, count: str, name: str) -> Span:
            if (count, name) not in counted:
                return 0, extent
            size = min(extent, 1 + of(count, name))
            return min(of(START[count], name), extent - size), size

        names = (*case.inputs, *case.outputs)
        return Reduction(
            rows=tuple(block(extent, "rows", str(a)) for a, extent in enumerate(draw.outer)),
            columns=block(draw.n, "n", ""),
            extents={dim: block(size, "extent", dim) for dim, size in draw.extents.items()},
            dropped=frozenset(name for name in names if ("there", name) in chosen and not of("there", name)),
            memory={name: WAYS[most] for (kind, name), most in chosen.items() if kind in ("over", "in place")},
            unshared=frozenset(name for name in case.inputs if ("shared", name) in chosen and not of("shared", name)),
            stacks={name: STACKS[of("stack", name)] for name in case.inputs if ("stack", name) in chosen},
            collapsed=not of("axes"),
            strides={name: STRIDES[of("strides", name)] for name in names if ("strides", name) in chosen},
            places={name: PLACES[of("place", name)] for name in names},
            values={name: KINDS[of("values", name)] for name in case.inputs if ("values", name) in chosen},
            params=dict(self._changed_params(chosen)),
        )

    def apply(self, vector: Vector) -> Case:
        """Return the case for a vector. Raises CaseError if there is none."""
        kept = dict(zip(self.ranges, vector, strict=True))
        changed = any(kept[label] != most for label, most in self.ranges.items() if not label[0].endswith("start"))
        return realise(reduced(self._draw, self.reduction(vector))) if changed else self.case

    def _changed_params(self, chosen: Mapping[Label, int]) -> Iterator[tuple[str, float]]:
        """Yield the parameters that change; the largest choice keeps a parameter."""
        for name, plain in self._plain_params.items():
            if chosen["parameter", name] < len(plain):
                yield name, plain[chosen["parameter", name]]

    @cached_property
    def _plain_params(self) -> Mapping[str, tuple[float, ...]]:
        """The plain values of each parameter that has no neutral value."""
        given = ((each, self.case.params.get(each.name, each.neutral)) for each in OPS[self.case.op].parameters)
        return {each.name: plain_values(each) for each, value in given if value is not None and value != each.neutral}

    @cached_property
    def _draw(self) -> Draw:
        return draw_of(self.case)

    @cached_property
    def _counts(self) -> Sequence[tuple[Label, int]]:
        """The choices of how many elements are kept along a dimension, each with its extent; fixed dimensions have
        none."""
        draw, op = self._draw, OPS[self.case.op]
        names = [*[""] * (draw.rank - len(op.inner)), *op.inner[:-1]]
        rows = [(("rows", str(axis)), size) for axis, size in enumerate(draw.outer) if names[axis] not in op.fixed]
        n = [(("n", ""), draw.n)] if op.row not in op.fixed else []
        return *rows, *n, *((("extent", dim), size) for dim, size in draw.extents.items() if dim not in op.fixed)

    def _all(self) -> Iterator[tuple[Label, int]]:
        case, draw = self.case, self._draw
        optional = {operand.name for operand in OPS[case.op].operands if operand.optional}
        names = (*case.inputs, *case.outputs)
        over = [part.name for part in draw.parts if part.shift is not None]
        yield from ((("over", name), len(WAYS) - 1) for name in over)
        yield from ((("shared", name), 1) for name, tensor in case.inputs.items() if tensor.alias is not None)
        yield from ((("stack", part.name), len(STACKS) - 1) for part in draw.parts if part.stack)
        yield from ((label, extent - 1) for label, extent in self._counts)
        yield from ((("there", name), 1) for name in names if name in optional)
        yield from ((("in place", name), 1) for name, out in case.outputs.items() if out.alias and name not in over)
        yield ("axes", ""), 1
        yield from ((("strides", name), len(STRIDES) - 1) for name in names)
        yield from ((("place", name), len(PLACES) - 1) for name in names)
        yield from ((("parameter", name), len(plain)) for name, plain in self._plain_params.items())
        yield from ((("values", name), len(KINDS) - 1) for name in case.inputs)
        yield from (((START[kind], name), extent - 1) for (kind, name), extent in self._counts)
