"""The menus from which recipes for inputs are chosen, and the recipes for factors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fuzz.core.base.stream import Reals, Stream
from fuzz.core.generate import hard_recipes
from fuzz.core.generate.coded_recipes import BLOCKED, CODED
from fuzz.core.generate.compared import compared, ranked
from fuzz.core.generate.gate_recipes import GATES, LOG_GATES
from fuzz.core.generate.positive_recipes import NOT_NEGATIVE, POSITIVE
from fuzz.core.generate.recipes import RECIPES, Recipe, RowSpec, random_signs, recipe, repeated
from fuzz.core.generate.related import RELATED, Related
from fuzz.core.generate.row_recipes import LOG_PROBABILITIES, LOGITS, PROBABILITIES
from fuzz.core.generate.scene import LOCAL, Scene, graph_of, is_local
from oracles.lazy import lazy
from oracles.op import Op
from oracles.operand import CODES, ENDS, FLAGS, LENGTHS, Operand, OpError

FACTORS: dict[str, Recipe] = {}
"""The recipes for factors by name, from the plainest to the oddest."""


@recipe("another number in each of 251 columns", structured=False, registry=FACTORS)
def _distinct(spec: RowSpec, stream: Stream) -> Reals:
    # The numbers have 8 bits, so that they stay distinct in bf16.
    start = int(stream.child("start").integers(1, 0, 250)[0])
    return ((np.arange(spec.size) * 37 + start) % 251 + 1).astype(np.float64) / 64.0


@recipe("standard normal", structured=False, registry=FACTORS)
def _normal(spec: RowSpec, stream: Stream) -> Reals:
    return stream.child("normal").normal(spec.size)


@recipe("normal with zeros of either sign", structured=False, registry=FACTORS)
def _some_zero(spec: RowSpec, stream: Stream) -> Reals:
    chosen = stream.child("which").integers(spec.size, 0, 5)
    return np.where(chosen == 0, 0.0, np.where(chosen == 1, -0.0, _normal(spec, stream)))


@recipe("negative", structured=False, registry=FACTORS)
def _negative(spec: RowSpec, stream: Stream) -> Reals:
    return -0.125 - stream.child("level").uniform(spec.size)


@recipe("15.8125 of either sign: all significant bits of bf16 but one", structured=False, registry=FACTORS)
def _fifteen(spec: RowSpec, stream: Stream) -> Reals:
    return 15.8125 * random_signs(spec, stream)


@recipe("powers of two times uniform numbers, 2**-10 to 2**10", structured=False, registry=FACTORS)
def _large_and_small(spec: RowSpec, stream: Stream) -> Reals:
    powers = np.ldexp(random_signs(spec, stream), stream.child("power").integers(spec.size, *spec.powers(-10, 9)))
    return powers * (1.0 + stream.child("level").uniform(spec.size))


@recipe("about 2**-20, or a few times the smallest number", structured=False, registry=FACTORS)
def _tiny(spec: RowSpec, stream: Stream) -> Reals:
    return _normal(spec, stream) * 2.0 ** max(-20, spec.form.least + 4)


@recipe("ones", structured=False, registry=FACTORS)
def _ones(spec: RowSpec, stream: Stream) -> Reals:
    return np.ones(spec.size)


@recipe("1.5: makes rounding ties of odd significands", structured=False, registry=FACTORS)
def _three_halves(spec: RowSpec, stream: Stream) -> Reals:
    return 1.5 * random_signs(spec, stream)


@recipe("normal with one NaN", structured=False, registry=FACTORS)
def _one_nan(spec: RowSpec, stream: Stream) -> Reals:
    return _with_one(spec, stream, math.nan)


@recipe("normal with one infinity", structured=False, registry=FACTORS)
def _one_inf(spec: RowSpec, stream: Stream) -> Reals:
    return _with_one(spec, stream, math.inf)


def _with_one(spec: RowSpec, stream: Stream, what: float) -> Reals:
    values = _normal(spec, stream)
    if spec.size:
        values[int(stream.child("column").integers(1, 0, spec.size - 1)[0])] = what
    return values


MATRICES: dict[str, Recipe] = {}
"""The recipes for matrices of solves and factorisations by name. Menus add the recipes for any rows."""


@recipe("columns that differ by 2**-4 to 2**-12: an ill-conditioned matrix", structured=False, registry=MATRICES)
def _near_columns(spec: RowSpec, stream: Stream) -> Reals:
    apart = math.ldexp(1.0, -int(stream.child("apart").integers(1, 4, 12)[0]))
    return repeated(stream.child("row").normal(spec.rows), spec) + apart * _normal(spec, stream)


PLACES = "places"
"""The menu of inputs whose values are places along a dimension."""
OR_MISSING = "places or missing"
"""The menu of places that may also be missing."""
LIKE_FIRST = "like the first"
"""The recipe that fills an input by the first input's recipe, with other values."""

PLACED = ("spike", "one_nan", "one_inf")
"""Recipes that place one element in each row. If the first input has one of them, coverage counts the positions."""

assert hard_recipes.__name__, "imported for the recipes that it registers"


def recipes() -> Mapping[str, Recipe]:
    """Return all recipes for rows by name, the plainest first, since Hypothesis shrinks towards the first."""
    return RECIPES


@dataclass(frozen=True)
class Menu:
    """The recipes that an input is drawn from."""

    recipes: Mapping[str, Recipe | Related | None]
    """The recipes by name; None stands for the first input's recipe."""
    often: tuple[str, ...]
    """The recipes that are drawn most of the time."""

    @lazy
    def names(self) -> tuple[str, ...]:
        """Return the recipes that a search should visit."""
        return tuple(self.recipes)


_OWN = 2
"""A recipe that the op defines itself is listed this many times as often as another frequent one. The same holds for
recipes of numbers near those that the op compares elements with."""
_NEAR, _NEAR_CODES = "near_numbers", "near_codes"
"""The recipes for numbers near the compared ones, for floats and for integers."""

_MASKED: Mapping[str, Sequence[str]] = {"any": ("tied", "masked", "one_finite"), "finite": ("tied",)}
"""The recipes that are added to a menu for an input that the op puts in order: equal elements, and fewer finite
elements than are chosen."""


def _menu(often: Sequence[str], recipes: Mapping[str, Recipe]) -> Menu:
    known: Mapping[str, Recipe | Related | None] = {**RECIPES, **RELATED, LIKE_FIRST: None}
    return Menu({**recipes, **{name: known[name] for name in often if name not in recipes}}, tuple(often))


_ANY_PLACES = (
    "any_place", "any_place", "end_places", "ascending_places", "descending_places", "one_place", "last_place",
    "first_place",
)  # fmt: skip
_ODD = {name: RECIPES[name] for name in ("normal", "zero_rows", "mixed_rows", "one_nan", "one_inf")}
"""Recipes of values that are no probabilities, for inputs that should be: callers may pass anything."""

_TAME = {name: each for name, each in RECIPES.items() if name not in (
    "one_nan", "one_inf", "infinite_rows", "near_overflow", "subnormal", "magnitudes", "ordinal", "row_scales",
    "mixed_rows",
)}  # fmt: skip
"""Recipes without NaN and infinities, whose squares and exponentials rarely over- or underflow."""
_TAME_FACTORS = {name: each for name, each in FACTORS.items() if name not in ("one_nan", "one_inf")}

MENUS: Mapping[str, Menu] = {
    "any": _menu(("normal", "normal", LIKE_FIRST, LIKE_FIRST, LIKE_FIRST, "zero_rows"), RECIPES),
    "addend": _menu(("normal", "normal", LIKE_FIRST, LIKE_FIRST, LIKE_FIRST, "cancelling", "zero_rows"), RECIPES),
    "finite": _menu(("normal", "normal", LIKE_FIRST, LIKE_FIRST, LIKE_FIRST, "cancelling", "zero_rows"), _TAME),
    "finite_factor": _menu(tuple(_TAME_FACTORS), _TAME_FACTORS),
    "positive": _menu(tuple(POSITIVE), POSITIVE),
    "not_negative": _menu((*POSITIVE, *NOT_NEGATIVE), {**POSITIVE, **NOT_NEGATIVE}),
    "gates": _menu(tuple(GATES), GATES),
    "log_gates": _menu(tuple(LOG_GATES), LOG_GATES),
    "gradient": _menu(("normal", "normal", "normal", "uniform", "ones", "one_hot"), RECIPES),
    "factor": _menu(tuple(FACTORS), FACTORS),
    "matrices": _menu(tuple(MATRICES), {**_TAME, **MATRICES}),
    "logits": _menu(("normal", *LOGITS), {**RECIPES, **LOGITS}),
    "coded": _menu(("normal", *CODED), {**RECIPES, **CODED}),
    "blocked": _menu(("normal", *CODED, *BLOCKED), {**RECIPES, **CODED, **BLOCKED}),
    "probabilities": _menu(tuple(PROBABILITIES), {**PROBABILITIES, **_ODD}),
    "log_probabilities": _menu(tuple(LOG_PROBABILITIES), {**LOG_PROBABILITIES, **_ODD}),
    PLACES: _menu(_ANY_PLACES, {}),
    OR_MISSING: _menu((*_ANY_PLACES, "some_missing", "some_missing", "missing_after", "one_kept", "all_missing"), {}),
    FLAGS: _menu(("any_place", "any_place", "set_up_to", "set_up_to", "last_place", "first_place"), {}),
    ENDS: _menu(
        (
            "any_ends",
            "any_ends",
            "early_ends",
            "even_ends",
            "every_other_end",
            "one_piece",
            "last_place",
            "first_place",
        ),
        {},
    ),
    LENGTHS: _menu((*_ANY_PLACES, "next_to_blocks", "next_to_blocks"), {}),
    CODES: _menu(("any_code", "any_code", "small_codes", "end_codes", "high_codes", "lowest_code", "one_code"), {}),
    LOCAL: _menu(("true", "true", "true", "true", "true", "nearly_true", "unrelated"), {}),
}
"""The menus that `Operand.values` may name. The names of the op's own recipes may follow the name of the menu."""


@lru_cache(maxsize=64)
def menus_of(op: Op) -> Mapping[str, Menu]:
    """Return the menu of each input of an op. Raise OpError if its `values` name something unknown."""
    return {each.name: _menu_of(op, each.name) for each in op.inputs}


def _menu_of(op: Op, name: str) -> Menu:
    menu, own = _named(op.operand(name)), op.operand(name).values.split()[1:]
    if menu not in MENUS:
        raise OpError(f"{op.name}: {name}: values {menu!r} is not one of {', '.join(MENUS)}")
    if (menu in (PLACES, OR_MISSING, ENDS, LENGTHS)) != bool(op.operand(name).index):
        raise OpError(f"{op.name}: {name}: values {menu!r} do not go with its index")
    if menu in (FLAGS, CODES) and name not in op.integers:
        raise OpError(f"{op.name}: {name}: values {menu!r} do not go with its dtype and index")
    for each in own:
        if each not in op.recipes:
            raise OpError(f"{op.name}: {name}: the op has no recipe {each!r} of its own")
    if is_local(op.operand(name)) and not op.operand(name).optional:
        raise OpError(f"{op.name}: {name}: values {LOCAL!r} are for an optional input, which the formula finds itself")
    found, recipes = MENUS[menu], MENUS[menu].recipes
    near = _near(op, name, found)
    if menu in _MASKED and name in ranked(op):
        recipes = {**recipes, **{each: LOGITS[each] for each in _MASKED[menu]}}
    if name == op.main:  # the first input depends on no other
        recipes = {each: known for each, known in recipes.items() if isinstance(known, Recipe)}
        return Menu(recipes, (*recipes, *near))
    recipes = {**recipes, **{each: _own(each, op.recipes[each]) for each in own}}
    recipes = {**recipes, **{each: RELATED.get(each, RECIPES.get(each)) for each in near}}
    return Menu(recipes, (*found.often, *(each for each in own for _ in range(_OWN)), *near))


def _near(op: Op, name: str, menu: Menu) -> tuple[str, ...]:
    """Return recipes to draw often if the op compares an input with numbers. For integers they make up a third of all
    cases, since most mistakes with integers show in no other way."""
    numbers = compared(op, tuple((each.name, each.values[0]) for each in op.parameters if each.values)).get(name, ())
    operand = op.operand(name)
    if name not in op.integers:
        return (_NEAR,) * _OWN if numbers and (_NEAR in menu.recipes or menu is MENUS["factor"]) else ()
    least = -math.inf if operand.is_code else 0.0 if operand.missing is None else 1.0
    if operand.is_flags or not any(each >= least for each in numbers):
        return ()  # other recipes draw missing places, which 0 separates from the rest
    return (_NEAR_CODES,) * (1 + len(menu.often) // 2)


def menu_of(operand: Operand) -> Menu:
    """Return the menu of an input, without recipes that its op defines itself."""
    return MENUS[_named(operand)]


def usual(operand: Operand) -> str:
    """Return the recipe that comes first among those often drawn for an input."""
    return menu_of(operand).often[0]


def _named(operand: Operand) -> str:
    """Return the name of an input's menu. An input of places along a dimension need not name one."""
    menu = next(iter(operand.values.split()), "")
    places = PLACES if operand.missing is None else OR_MISSING
    return places if operand.index and menu == "any" else menu


def check_menus(op: Op) -> None:
    """Raise OpError if the values of some input cannot be drawn or judged, or if a parameter has no values."""
    needed = frozenset(each.name for each in op.inputs if not each.optional)
    menus_of(op)
    for each in op.inputs:
        if is_local(each):
            graph_of(op, needed, frozenset(), each.name)
    for parameter in op.parameters:
        if not parameter.values:
            raise OpError(f"{op.name}: {parameter.name}: write what it is drawn from, values=(...)")


def _own(name: str, fill: Callable[[Scene, Stream], Reals]) -> Related:
    """Return an op's own recipe. It counts as structured, since no op says whether its rounding errors are random."""
    summary = (fill.__doc__ or "").split("\n")[0]
    return Related(name, summary, structured=True, fill=lambda scene, _, stream: fill(scene, stream))
