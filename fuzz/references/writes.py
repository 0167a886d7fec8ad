"""What is written into a part of a tensor: every so manieth element of it, or one place along an axis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fuzz.references.dims import UnreadableError
from fuzz.references.elementwise import rule
from fuzz.references.lines import number, of_dims, template
from fuzz.references.maps import linear, single, taken_at, with_axis
from fuzz.references.pieces import at_start, pair_along, place_of
from fuzz.references.reading import Reader
from fuzz.references.scope import Value
from fuzz.references.sizes import negated


@rule("slice_scatter")
def _written(
    reader: Reader, self: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """What is written where a slice has the place of an element, elsewhere what was there."""
    if not isinstance(step, int):
        raise UnreadableError("takes steps that follow from extents")
    at = reader.axis(self, dim)
    first = at_start(start or 0, pair_along(self, at))
    if step == 1 and first == (0, 0) and pair_along(src, at) == pair_along(self, at):
        return replace(src, axes=self.axes)
    self, along = single(reader, self, at)
    src, own = single(reader, src, at)
    begin = place_of(reader, first, along)
    index = linear(reader, {along: 1.0}, negated(begin))
    if step > 1:
        index = reader.lines.add(template("a / step", {"a": index, "step": number(float(step))}), "index")
    written = with_axis(taken_at(reader, src, own, index, (along,), 0.0), at, (along,))
    written, self = reader.met(written, self)
    there = ["(index >= 0.0)"] * (first != (0, 0)) + ["(f.floor(index) >= index)"] * (step > 1)
    there += ["(index < n)"] * (end is not None and at_start(end, along.sizes) != along.sizes)
    parts = {"index": index, "n": template("f.extent(dim)", {"dim": of_dims([own])}),
             "a": reader.expression(written), "b": reader.expression(self)}  # fmt: skip
    made = reader.lines.add(template(f"f.where({' & '.join(there)}, a, b)", parts), "written")
    return Value(made, reader.aligned([written, self]), written.has | self.has | {along}, self.dtype)


@rule("select_scatter")
def _placed(reader: Reader, self: Value, src: Value, dim: int, index: Any) -> Value:
    """What is written at one place along an axis, elsewhere what was there."""
    at = reader.axis(self, dim)
    src = replace(src, axes=(*src.axes[:at], (), *src.axes[at:]))
    if not self.axes[at]:
        return replace(src, axes=self.axes)
    self, along = single(reader, self, at)
    place = reader.sizes.expression(place_of(reader, at_start(index, along.sizes), along))
    src, self = reader.met(src, self)
    parts = {"at": reader.place(along), "place": place, "a": reader.expression(src), "b": reader.expression(self)}
    made = reader.lines.add(template("f.where(at == place, a, b)", parts), "written")
    return Value(made, reader.aligned([src, self]), src.has | self.has | {along}, self.dtype)
