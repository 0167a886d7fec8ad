"""What each operand's values are drawn from, as data."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.base.op import Menu
from fuzz.generate import hard_recipes
from fuzz.generate.recipes import RECIPES, Recipe
from fuzz.generate.related import RELATED
from fuzz.generate.weights import WEIGHTS

LIKE_X = "like x"
"""the recipe that x has, with values of its own."""

PLACED = ("spike", "one_nan", "one_inf")
"""recipes that place one element per row; where, is counted."""

assert hard_recipes.__name__, "imported for the recipes that it registers"


def recipes() -> Mapping[str, Recipe]:
    """All recipes for rows by name, from the plainest to the oddest: Hypothesis shrinks towards the first."""
    return RECIPES


_OFTEN: Mapping[Menu, tuple[str, ...]] = {
    "addend": ("normal", "normal", LIKE_X, LIKE_X, LIKE_X, "cancelling", "zero_rows"),
    "gradient": ("normal", "normal", "normal", "uniform", "ones", "one_hot", "along", "along"),
    "rstd": ("true", "true", "true", "true", "true", "nearly_true", "unrelated"),
}
"""what is drawn often; the rest of the menu is drawn now and then."""

MENUS: Mapping[Menu, tuple[str, ...]] = {
    "any": tuple(RECIPES),
    "addend": (*dict.fromkeys((*_OFTEN["addend"], *RECIPES)),),
    "gradient": (*dict.fromkeys((*_OFTEN["gradient"], *RECIPES)),),
    "weight": tuple(WEIGHTS),
    "rstd": tuple(dict.fromkeys(_OFTEN["rstd"])),
}
"""by menu: the recipes to be visited."""


def often(menu: Menu) -> tuple[str, ...]:
    """The recipes of a menu that are drawn most of the time."""
    return _OFTEN.get(menu, MENUS[menu])


def is_structured(name: str, x: str) -> bool:
    """Whether rows of that recipe have rounding errors that are not random, where x has the recipe `x`."""
    name = x if name == LIKE_X else name
    return RECIPES[name].structured if name in RECIPES else RELATED[name].structured
