"""All rules, by the name of torch's operation."""

from __future__ import annotations

from collections.abc import Mapping

from oracles.reference import (
    casts,
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
)
from oracles.reference.reading import Rule

_REGISTERED = casts, gradients, moves, pieces, products, recurrences, reductions, scatter, selection, windows
assert all(_REGISTERED), "imported for their rules"
RULES: Mapping[str, Rule] = elementwise.RULES
