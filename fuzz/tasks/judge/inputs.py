"""The inputs of a failing case as an expression of Python, so that anybody can make them without a case file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import msgspec
import numpy as np

from fuzz.core.base.case import SPARE, Case, Tensor
from fuzz.core.base.draw import Draw
from fuzz.core.base.dtypes import from_bits
from fuzz.core.generate.realise import realise
from fuzz.core.generate.search import Search
from fuzz.references.replay.oracle import ReplayFailure
from fuzz.references.replay.recipe import ReplayRecipe, given
from fuzz.report.snippet import expression
from oracles.ops import OPS
from oracles.rounding import NATIVE

_LISTED = 16
"""The most elements that are listed one by one."""
_MOST, _MOST_BYTES = 1000, 1 << 16
"""The most characters of a tensor's packed bits, and the most bytes that are packed to see how many they are. Chosen: a
thousand characters are a few lines."""


def expression_of(cases: Sequence[Case], search: Search | None = None, pack: str = "") -> str:
    """Return an expression that makes the inputs and parameters of the first of some cases for which this takes a few
    lines, and '' if there is none: their values if they are few or alike, else their recipe if the search has drawn the
    case, else their bits."""
    for case in cases:
        if found := _dict_of(case, _listed):
            return found
        if search is not None and (recipe := _recipe(case, search)) is not None:
            made, numbers = f"fuzz.drawn({pack!r}, {recipe!r})", _numbers(case)
            return f"{{**{made}, {', '.join(numbers)}}}" if numbers else made
    return next(filter(None, (_dict_of(case, _packed) for case in cases)), "")


def replay_expression(found: ReplayFailure, against: str) -> str:
    """Return an expression that makes the inputs of a case of a replay: their values if they are few or alike, else
    their recipe, else their bits; '' if none takes a few lines. `against` is the file of the reference, or '' if inputs
    that come with its `Model` are not drawn again."""
    case, told = found.case, found.drawn
    listed = _dict_of(case, _listed)
    if listed or told is None or not against or not _is_drawn(case, told):
        return listed or _dict_of(case, _packed)
    return f"fuzz.drawn({against!r}, {_plain(told)!r})"


def _is_drawn(case: Case, recipe: ReplayRecipe) -> bool:
    """Return whether the recipe makes the inputs of a case; of inputs that come with a `Model` this is not checked."""
    made = given(recipe.arrays(), recipe.dtype)
    kept = {name: each for name, each in case.inputs.items() if name != SPARE}
    return not made or all(name in made and made[name].tobytes() == each.bits for name, each in kept.items())


def _dict_of(case: Case, written: Callable[[Tensor], str]) -> str:
    """Return a dict of the inputs and parameters of a case; '' if an input cannot be written in this way."""
    tensors = {name: written(each) for name, each in case.inputs.items() if name != SPARE}
    said = ", ".join([*(f"{name!r}: {each}" for name, each in tensors.items()), *_numbers(case)])
    return f"{{{said}}}" if all(tensors.values()) else ""


def _numbers(case: Case) -> list[str]:
    names = [each.name for each in OPS[case.op].parameters if each.name in case.params]
    return [f"{name!r}: {case.params[name]!r}" for name in names]


def _listed(tensor: Tensor) -> str:
    """Return an expression of values that are few or alike; '' if they are not, or not numbers of NumPy."""
    values = from_bits(tensor.bits, tensor.dtype, tensor.layout.shape).reshape(-1)
    dtype, shape = NATIVE.get(tensor.dtype), tensor.layout.shape
    if dtype is None or not values.size or not np.isfinite(values).all():
        return _packed(tensor) if values.size <= _LISTED else ""
    words = values.view(f"<u{values.itemsize}")  # which tell zeros apart
    if values.size > 1 and (words == words[0]).all():
        return f"np.full({shape}, {values[0]}, {dtype.str!r})"
    listed = f"np.array([{', '.join(map(str, values))}], {dtype.str!r}).reshape({shape})"
    return listed if values.size <= _LISTED else ""


def _packed(tensor: Tensor) -> str:
    """Return an expression of a tensor's bits; '' if it is too long."""
    if len(tensor.bits) > _MOST_BYTES:  # to pack them only to see that takes long
        return ""
    made = expression(tensor)
    return made if len(made) <= _MOST else ""


def _recipe(case: Case, search: Search) -> Mapping[str, Any] | None:
    """Return the recipe of a case; None if the search has not drawn it, or if the recipe makes other bits."""
    shard, number = case.origin.shard, case.origin.number
    if not isinstance(shard, int) or not case.origin.name or case.op != search.op:
        return None
    made = search.case(shard, number)
    if made is None or made.draw is None or made.case.digest != case.digest:
        return None
    recipe = _plain(replace(made.draw, origin=None))
    return recipe if realise(msgspec.convert(recipe, Draw)).digest == case.digest else None


def _plain(value: Any) -> Any:
    """Return a record as a dict of what differs from the defaults of its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        told = {each.name: (getattr(value, each.name), each) for each in fields(value)}
        return {name: _plain(some) for name, (some, each) in told.items() if some not in (each.default, {}, None)}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return msgspec.to_builtins(value)
