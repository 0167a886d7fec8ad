"""What JAX's reductions are, its cumulated sums, and what it selects by order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fuzz.references.dims import UnreadableError
from fuzz.references.elementwise import opposite
from fuzz.references.jaxprs.elementwise import along, primitive
from fuzz.references.lines import template
from fuzz.references.moves import taken
from fuzz.references.pieces import cumulated, flipped, multiplied, multiplied_up_to
from fuzz.references.reading import Reader
from fuzz.references.reductions import least, most
from fuzz.references.scope import Value
from fuzz.references.selection import first_ranks, is_sorted, place_of


@primitive("reduce_sum")
def _sum(reader: Reader, args: Sequence[Value], axes: Sequence[int], **_: object) -> Value:
    return reader.reduced("total", "total", args[0], axes, False) if axes else args[0]


@primitive("reduce_max")
def _max(reader: Reader, args: Sequence[Value], axes: Sequence[int], **_: object) -> Value:
    return most(reader, args[0], axes) if axes else args[0]


@primitive("reduce_min")
def _min(reader: Reader, args: Sequence[Value], axes: Sequence[int], **_: object) -> Value:
    return least(reader, args[0], axes) if axes else args[0]


@primitive("reduce_or", "reduce_and")
def _any(reader: Reader, args: Sequence[Any], axes: Sequence[int], **_: object) -> Value:
    whole = reader.step.op == "lax.reduce_and"
    mask = opposite(reader, args[0]) if whole else args[0]
    mask = replace(mask, expression=None, condition=reader.mask(mask))
    found = reader.reduced("greatest", "flag", mask, axes, False)
    made = reader.lines.add(template("x > 0.0", {"x": reader.expression(found)}), "mask")
    found = replace(found, expression=None, dtype="torch.bool", condition=made)
    return opposite(reader, found) if whole else found


@primitive("reduce_prod")
def _prod(reader: Reader, args: Sequence[Any], axes: Sequence[int], **_: object) -> Value:
    found: Value = multiplied(reader, args[0], axes) if axes else args[0]
    return found


@primitive("cumsum", "cumprod")
def _cumulated(reader: Reader, args: Sequence[Any], axis: int, reverse: bool) -> Value:
    value = flipped(reader, args[0], [axis]) if reverse else args[0]
    found: Value = (cumulated if reader.step.op == "lax.cumsum" else multiplied_up_to)(reader, value, axis)
    return flipped(reader, found, [axis]) if reverse else found


@primitive("argmax", "argmin")
def _argmax(reader: Reader, args: Sequence[Any], axes: Sequence[int], **_: object) -> Value:
    found: Value = place_of(reader, args[0], axes[0], reader.step.op.partition(".")[2], keep=False)
    return found


@primitive("top_k")
def _top_k(reader: Reader, args: Sequence[Any], k: Any, axis: int = -1, **_: object) -> Any:
    values, places = first_ranks(reader, args[0], k, axis, ties="first")
    return values, replace(places, dtype="torch.int32")


@primitive("sort")
def _sort(reader: Reader, args: Sequence[Any], dimension: int, is_stable: bool, num_keys: int) -> Any:
    """The first operand sorted, and others as its elements lie then: places along it are those of its elements."""
    if num_keys != 1:
        raise UnreadableError("sorts by several keys")
    y, places = is_sorted(reader, args[0], dimension, stable=is_stable)
    found = [y]
    for each in args[1:]:
        dim = along(reader, each)
        if dim is not None and each.axes[dimension] == (dim,):
            found.append(replace(places, dtype=each.dtype))
            continue
        own = taken(reader, each, dimension, places, "taken")
        found.append(replace(own, axes=y.axes))
    return found if len(found) > 1 else y
