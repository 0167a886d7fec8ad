"""Torch's convolutions and pools as windows: a place is calculated from the window's position and the place in it."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuzz.references.dims import Axis, Dim, UnreadableError
from fuzz.references.elementwise import LERP, rule
from fuzz.references.lines import number, template
from fuzz.references.maps import as_axis, by_steps, linear, single, split, taken_at, with_axis
from fuzz.references.reading import Reader
from fuzz.references.recording import Two
from fuzz.references.scope import Value
from fuzz.references.sizes import added, floored, negated, of
from oracles.formula.made import plus
from oracles.formula.node import Node


@dataclass(frozen=True)
class Window:
    """The arrangement of windows along an axis."""

    stride: int
    before: Node
    """The number of places by which the first window begins before the axis."""
    dilation: int = 1
    after: Node | None = None
    """The number of places by which windows may end after the axis; None for as many as `before`."""
    apart: int = 1
    """The distance between two elements of the axis: between them are places without elements."""

    @property
    def is_inside(self) -> bool:
        """Whether every place of a window has an element."""
        return self.apart == 1 and all(each.kind == "constant" and each.value <= 0 for each in self._ends)

    @property
    def is_whole(self) -> bool:
        """Whether windows of one place are the elements of the axis."""
        return self.stride == 1 and self.is_inside and not any(each.value for each in self._ends)

    @property
    def _ends(self) -> tuple[Node, Node]:
        return self.before, self.before if self.after is None else self.after


def each_of(numbers: Any, count: int) -> Sequence[int]:
    """Return one number for each axis, from as many numbers or from one for all."""
    found = _several(numbers, count)
    if not all(isinstance(each, int) for each in found):
        raise UnreadableError("has windows that follow from extents: formulas have such of fixed steps alone")
    return found


def _several(numbers: Any, count: int) -> Sequence[Any]:
    found = [*numbers] if isinstance(numbers, (list, tuple)) else [numbers]
    return found * count if len(found) == 1 else found


def windows_of(reader: Reader, count: int, stride: Any, padding: Any, dilation: Any) -> Sequence[Window]:
    """Return the arrangement of windows along each axis. The padding may follow from extents."""
    before = map(reader.amount, _several(padding, count))
    return [*map(Window, each_of(stride, count), before, each_of(dilation, count))]


@rule("convolution", "_convolution")
def convolved(
    reader: Reader, input: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any,  # noqa: A002
    transposed: bool, output_padding: Any, groups: int | Two, **_: object,
) -> Value:  # fmt: skip
    """Return a convolution, or a transposed one."""
    count = weight.rank - 2
    steps = zip(windows_of(reader, count, stride, padding, dilation), each_of(output_padding, count), strict=True)
    value, weight = split(reader, input, 1, groups), split(reader, weight, 0, groups)
    if transposed:  # weights: groups, then input channels
        weight = replace(weight, axes=(weight.axes[0], weight.axes[2], weight.axes[1], *weight.axes[3:]))
    windows = list[Axis]()
    for at in range(3, 3 + count):
        weight, own = apart(reader, weight, at, value)
        windows.append(own)
    value = as_axis(reader, as_axis(reader, value, 1, weight.axes[0]), 2, weight.axes[2])
    for at, (window, (how, more)) in enumerate(zip(windows, steps, strict=True), 3):
        value = (
            _transposed(reader, value, at, window, how, more) if transposed else slid(reader, value, at, window, how)
        )
    axes = (value.axes[0], (*weight.axes[0], *weight.axes[1]), *value.axes[3:])
    terms = replace(value, axes=(weight.axes[2], *windows))
    found = reader.reduced("dot", "conv", terms, None, False, weight)
    found = replace(found, axes=axes)
    if bias is None:
        return found
    return reader.each("y + bias", "conv", y=found, bias=replace(bias, axes=(*bias.axes, *[()] * count)))


def apart(reader: Reader, weight: Value, at: int, other: Value) -> tuple[Value, Axis]:
    """Return weights whose window axis has one dimension, or one element, and no dimension of another value."""
    axis = weight.axes[at]
    if not axis:
        return weight, axis
    if len(axis) > 1 or not {*axis}.isdisjoint(dim for each in other.axes for dim in each):
        window = (reader.sizes.new(of(*axis), "window"),)
        return as_axis(reader, weight, at, window), window
    return weight, axis


def slid(reader: Reader, value: Value, at: int, window: Axis, how: Window, outside: float = 0.0) -> Value:
    """Return a value whose axis counts windows, with the dimension of places in a window added to its axes."""
    if not window and how.is_whole:
        return value
    value, dim = single(reader, value, at)
    length = of(dim) if how.apart == 1 else plus((of(dim) - 1.0) * float(how.apart), 1.0)
    count = _windows(length, of(*window), how)
    return _taken(reader, value, at, dim, window, how, count, None if how.is_inside else outside)


def _windows(size: Node, window: Node, how: Window) -> Node:
    """Return the number of windows along an axis."""
    length = added(size, _twice(how.before) if how.after is None else added(how.before, how.after))
    if window.kind == "constant":
        return plus(floored(plus(length, -how.dilation * (window.value - 1.0) - 1.0), how.stride), 1.0)
    reach = (window - 1.0) * float(how.dilation) if how.dilation > 1 else window - 1.0
    return plus(floored(plus(length, -1.0) - reach, how.stride), 1.0)


def _twice(count: Node) -> Node:
    return Node("constant", value=2.0 * count.value) if count.kind == "constant" else count * 2.0


def _taken(
    reader: Reader, value: Value, at: int, dim: Dim, window: Axis, how: Window, count: Node, outside: float | None
) -> Value:
    places = reader.sizes.axis(count, f"{dim.name}_out")
    terms = {**{each: float(how.stride) for each in places}, **{each: float(how.dilation) for each in window}}
    index = by_steps(linear(reader, terms, negated(how.before)), how.apart)
    return with_axis(taken_at(reader, value, dim, index, (*places, *window), outside), at, places)


def _transposed(reader: Reader, value: Value, at: int, window: Axis, how: Window, more: int) -> Value:
    """Return the input's elements for windows in the output of a transposed convolution."""
    value, dim = single(reader, value, at)
    reach = (of(*window) - 1.0) * float(how.dilation) if window else Node("constant", value=0.0)
    wide = (of(dim) - 1.0) * float(how.stride) if how.stride > 1 else of(dim) - 1.0
    count = added(plus(wide + reach if window else wide, 1.0 + more), negated(_twice(how.before)))
    places = reader.sizes.axis(count, f"{dim.name}_out")
    return containing(reader, value, at, dim, places, window, how)


def containing(reader: Reader, value: Value, at: int, dim: Dim, places: Axis, window: Axis, how: Window) -> Value:
    """Return, for each place, the elements of the windows that contain it: those at distances of whole steps."""
    terms = {**dict.fromkeys(places, 1.0), **dict.fromkeys(window, -float(how.dilation))}
    index = by_steps(linear(reader, terms, how.before), how.stride)
    return with_axis(taken_at(reader, value, dim, index, (*places, *window), 0.0), at, places)


def _pooled(
    reader: Reader, value: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, outside: float
) -> tuple[Value, Sequence[tuple[Dim, Axis, Dim, Window]]]:
    """Return a value with windows as further axes, and for each axis: its dimension, the axis of windows, the dimension
    of places in a window, and the arrangement."""
    count = len(each_of(kernel, 0)) or 1
    count = max(count, value.rank - 2 if isinstance(kernel, int) else 0)
    sizes = each_of(kernel, count)
    numbers = zip(sizes, *(each_of(each, count) for each in (stride or sizes, padding, dilation)), strict=True)
    found = list[tuple[Dim, Axis, Dim, Window]]()
    for at, (size, step, before, dilated) in enumerate(numbers, value.rank - count):
        how = Window(step, reader.amount(before), dilated)
        if (size, step, before) == (1, 1, 0):
            continue
        value, dim = single(reader, value, at)
        wide = Node("constant", value=float(size))
        window = reader.sizes.new(wide, f"{dim.name}_window")
        if ceil and step + before > dilated * (size - 1) + 1:  # no window may begin in the padding at the end
            places = floored(plus(of(dim), before + step - 1.0), step)
        else:
            places = _windows(plus(of(dim), step - 1.0) if ceil else of(dim), wide, how)
        value = _taken(reader, value, at, dim, (window,), how, places, outside if before or ceil else None)
        found.append((dim, value.axes[at], window, how))
    return value, found


@rule("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(
    reader: Reader, self: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    taken, windows = _pooled(reader, self, kernel_size, stride, padding, dilation, ceil_mode, -math.inf)
    found = over_windows(reader, taken, "greatest", [window for _, _, window, _ in windows])
    return (found, None) if "indices" in reader.step.op else found


def over_windows(reader: Reader, value: Value, how: str, windows: Sequence[Dim]) -> Value:
    """Return a reduction of a value over the dimensions of places in windows."""
    found = reader.reduced(how, "pool", replace(value, axes=(*value.axes, tuple(windows))), [value.rank], False)
    return replace(found, axes=value.axes)


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(
    reader: Reader, self: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    taken, windows = _pooled(reader, self, kernel_size, stride, padding, 1, ceil_mode, 0.0)
    dims = [window for _, _, window, _ in windows]
    is_inside = all(how.is_inside for *_, how in windows)
    if divisor_override is None and not ceil_mode and (count_include_pad or is_inside):
        return over_windows(reader, taken, "avg", dims)
    total = over_windows(reader, taken, "total", dims)
    if divisor_override is not None:
        return reader.each("x / n", "pool", x=total, n=divisor_override)
    for dim, places, window, how in windows:
        total = _divided(reader, total, dim, places, window, how, how.before.value if count_include_pad else 0.0)
    return total


def _divided(reader: Reader, value: Value, dim: Dim, places: Axis, window: Dim, how: Window, more: float) -> Value:
    """Return a sum divided by the number of places of each window inside the axis, made `more` longer at both ends."""
    first = linear(reader, dict.fromkeys(places, float(how.stride)), negated(how.before))
    sizes = {name: template("f.extent(dim)", dim=each) for name, each in (("n", dim), ("k", window))}
    least, most = number(0.0 - more), template("n + more" if more else "n", **sizes, more=more)
    start = reader.add("f.where(a < least, least, a)", "start", a=first, least=least)
    last: ast.expr = template("a + k", a=first, **sizes)
    end = reader.add("f.where(n < a, n, a)", "end", a=last, n=most)
    made = reader.add("x / (end - start)", "pool", x=value, start=start, end=end)
    return replace(value, expression=made, has=value.has | {*places})


_NEAREST = "upsample_nearest", "_upsample_nearest_exact"


@rule(*(f"{name}{rank}d" for name in _NEAREST for rank in (1, 2, 3)))
def _upsampled(reader: Reader, self: Value, **given: Any) -> Value:
    """Return a nearest-neighbour resize: each element is repeated a whole number of times, each k-th is taken, or the
    one at a calculated place, which another order of operations may move where it is near a whole number."""
    half = 0.5 if "exact" in reader.step.op else 0.0

    def nearest(value: Value, at: int, dim: Dim, places: Axis, times: float) -> Value:
        place, size = linear(reader, dict.fromkeys(places, 1.0)), reader.shape()[at]
        steps = {old // max(new, 1) if old % max(new, 1) == 0 else 0 for old, new in zip(dim.sizes, size, strict=True)}
        if half or not ((times.is_integer() and times) or (len(steps) == 1 and 0 not in steps)):
            sizes = _ratio(reader, dim, places, given, at)
            index = reader.add("f.floor((a + half) * (n / m))", "at", a=place, half=half, **sizes)
            index = reader.lines.add(_clamped(reader, index, template("f.extent(dim) - 1.0", dim=dim)), "at")
            return taken_at(reader, value, dim, index, places, 0.0)  # in few bits the last place may round to the next
        if times.is_integer() and times:
            index = template("f.floor(a / n)", a=place, n=times)
        else:
            index = template("n * a", a=place, n=float(steps.pop()))
        return taken_at(reader, value, dim, index, places)

    return _resized(reader, self, nearest)


@rule("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
def _blended(reader: Reader, self: Value, align_corners: bool, **given: Any) -> Value:
    """Return a linear or cubic resize. Linear ones by a power of two have shares that are exact in every dtype."""
    cubic = reader.step.op == "upsample_bicubic2d"

    def blended(value: Value, at: int, dim: Dim, places: Axis, times: float) -> Value:
        if cubic or align_corners or math.frexp(times)[0] != 0.5 or times < 1:
            sizes = _ratio(reader, dim, places, {} if align_corners else given, at)
            return _by_places(reader, value, dim, places, sizes, between_ends=align_corners, cubic=cubic)
        return _by_halves(reader, value, at, dim, places, times)

    return _resized(reader, self, blended)


def _by_halves(reader: Reader, value: Value, at: int, dim: Dim, places: Axis, times: float) -> Value:
    place = linear(reader, dict.fromkeys(places, 1.0), 0.5)
    source = template("a * n - 0.5", a=place, n=1 / times)
    low = reader.add("f.floor(a)", "low", a=source)
    texts = "f.where(a < 0.0, 0.0, a)", "f.where(a + 1.0 < f.extent(n) - 1.0, a + 1.0, f.extent(n) - 1.0)"
    ends = (taken_at(reader, value, dim, reader.add(each, "end", a=low, n=dim), places) for each in texts)
    one, other = (with_axis(each, at, places) for each in ends)
    share = reader.add("a - b", "share", a=source, b=low)
    given = {"a": one, "b": other, "t": Value(share, (places, *[()] * (value.rank - at - 1)), frozenset(places))}
    return reader.ways(reader.each("(1.0 - t) * a + t * b", "blend", **given), LERP, **given)


def _by_places(
    reader: Reader, value: Value, dim: Dim, places: Axis, sizes: Mapping[str, ast.expr], *, between_ends: bool,
    cubic: bool = False,
) -> Value:  # fmt: skip
    """Return a resize by calculated places: first and last elements lie `between_ends`, or half an element inside.
    Kernels round places differently, but at an element its neighbours have the share 0, so that both sides agree."""
    side = 3.0 if cubic else 2.0  # elements on either side, an integer
    near = reader.sizes.new(Node("constant", value=2.0 * side), "near")
    end = reader.add("f.extent(dim) - 1.0", "last", dim=dim)
    names = {"a": linear(reader, dict.fromkeys(places, 1.0)), "end": end, **sizes}
    if between_ends:
        names["m"] = reader.add("f.where(m < 2.0, 1.0, m - 1.0)", "steps", **names)
        low, source = template("f.floor(a * end / m)", **names), template("a * (end / m)", **names)
    else:
        low = template("f.floor((2.0 * a * n + n - m) / (2.0 * m))", **names)
        source = reader.add("(a + 0.5) * (n / m) - 0.5", "source", **names)
        source = source if cubic else _clamped(reader, source, end)
    names |= {"low": reader.lines.add(low, "low"), "place": reader.place(near), "s": reader.lines.add(source, "source")}
    index = reader.add("low - before + place", "at", **names, before=side - 1.0)
    # Kernels count from either end, so that a small share has the error of 1 minus it.
    away = reader.add("abs(s - at)", "away", **names, at=index)
    left = reader.add("2.0 - a - 1.0", "left", a=away)
    share = reader.add("f.where(a < 0.0, 0.0, a)", "share", a=left)
    if cubic:  # torch's spline of -0.75: outer piece, then inner
        outer = reader.add("f.where(2.0 < a, 2.0, a)", "outer", a=away)
        text = "((3.75 - 0.75 * u) * u - 6.0) * u + 3.0 - 2.0 * (v * v * v)"
        share = reader.add(text, "share", u=outer, v=share)
        index = _clamped(reader, index, end)
    taken = taken_at(reader, value, dim, index, (*places, near), None if cubic else 0.0)
    terms, shares = replace(taken, axes=(*taken.axes, (near,))), Value(share, (), frozenset((*places, near)))
    return replace(reader.reduced("dot", "blend", terms, [-1], False, shares), axes=taken.axes)


def _ratio(reader: Reader, dim: Dim, places: Axis, given: Mapping[str, Any], at: int) -> Mapping[str, ast.expr]:
    """Return what the distance of places in a resized axis is a quotient of: extents, or one and its multiple by the
    scale if the caller says that, which need not be their quotient."""
    scales = [each for name, each in given.items() if name.startswith("scales")]
    n = template("f.extent(dim)", dim=dim)
    if at - 2 < len(scales) and isinstance(scales[at - 2], float):
        return {"n": n, "m": template("s * n", s=scales[at - 2], n=n)}
    return {"n": n, "m": template("f.extent(dim)", dim=places) if places else number(1.0)}


def _clamped(reader: Reader, place: ast.expr, end: ast.expr) -> ast.expr:
    """Return a place limited to the range from the first to the last place."""
    place = reader.add("f.where(a < 0.0, 0.0, a)", "place", a=place)
    return template("f.where(end < a, end, a)", a=place, end=end)


def _resized(reader: Reader, value: Value, how: Callable[[Value, int, Dim, Axis, float], Value]) -> Value:
    """Return a value resized along the axes after the second. `how` resizes one axis, given the value, the axis, its
    dimension, its new places, and the ratio of extents, or 0 if the ratio differs between calls."""
    for at, size in [*enumerate(reader.shape())][2:]:
        value, dim = single(reader, value, at)
        if size == dim.sizes:
            continue
        times = size[0] / max(dim.sizes[0], 1)
        times = times if size == (times * dim.sizes[0], times * dim.sizes[1]) else 0.0
        is_whole = bool(times) and times.is_integer()
        count = of(dim) * times if is_whole else reader.amount(size[0] if size[0] == size[1] else Two(*size))
        places = reader.sizes.axis(count, f"{dim.name}_out")
        value = with_axis(how(value, at, dim, places, times), at, places)
    return value
