"""All rules, by the name of torch's operation, or by "lax." and the name of JAX's primitive."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.references import (
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
)  # fmt: skip
from fuzz.references.jaxprs import elementwise as jax_elementwise
from fuzz.references.jaxprs import moves as jax_moves
from fuzz.references.jaxprs import reductions as jax_reductions
from fuzz.references.scope import Rule

_REGISTERED = (
    complexes, gradients, moves, pieces, products, recurrences, reductions, scatter, selection,
    windows, jax_elementwise, jax_moves, jax_reductions,
)  # fmt: skip
assert all(_REGISTERED), "imported for their rules"
RULES: Mapping[str, Rule] = elementwise.RULES
