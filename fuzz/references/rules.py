"""All rules, by the name of torch's operation, or of JAX's primitive after "lax."."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.references import (
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
from fuzz.references.jaxprs import elementwise as jax_elementwise
from fuzz.references.jaxprs import gathers as jax_gathers
from fuzz.references.jaxprs import moves as jax_moves
from fuzz.references.jaxprs import places as jax_places
from fuzz.references.jaxprs import products as jax_products
from fuzz.references.jaxprs import reductions as jax_reductions
from fuzz.references.scope import Rule

_REGISTERED = (
    casts, complexes, gradients, moves, pieces, products, recurrences, reductions, scatter, selection, windows, writes,
)  # fmt: skip
_OF_JAX = jax_elementwise, jax_gathers, jax_moves, jax_places, jax_products, jax_reductions
assert all((*_REGISTERED, *_OF_JAX)), "imported for their rules"
RULES: Mapping[str, Rule] = elementwise.RULES
