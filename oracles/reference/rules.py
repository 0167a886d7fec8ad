"""All rules, by the name of torch's operation, or of JAX's primitive after "lax."."""

from __future__ import annotations

from collections.abc import Mapping

from oracles.reference import (
    casts,
    complexes,
    elementwise,
    gradients,
    moves,
    pieces,
    products,
    recurrences,
    reductions,
    scatter,
    selection,
    windows,
    writes,
)
from oracles.reference.jaxprs import elementwise as jax_elementwise
from oracles.reference.jaxprs import gathers as jax_gathers
from oracles.reference.jaxprs import moves as jax_moves
from oracles.reference.jaxprs import places as jax_places
from oracles.reference.jaxprs import products as jax_products
from oracles.reference.jaxprs import reductions as jax_reductions
from oracles.reference.scope import Rule

_REGISTERED = (
    casts, complexes, gradients, moves, pieces, products, recurrences, reductions, scatter, selection, windows, writes,
)  # fmt: skip
_OF_JAX = jax_elementwise, jax_gathers, jax_moves, jax_places, jax_products, jax_reductions
assert all((*_REGISTERED, *_OF_JAX)), "imported for their rules"
RULES: Mapping[str, Rule] = elementwise.RULES
