"""All rules, by the name of torch's operation."""

from __future__ import annotations

from collections.abc import Mapping

from oracles.reference import elementwise, gradients, moves, pieces, products, recurrences, reductions, scatter, windows
from oracles.reference.reading import Rule

_REGISTERED = gradients, moves, pieces, products, recurrences, reductions, scatter, windows
assert all(_REGISTERED), "imported for their rules"
RULES: Mapping[str, Rule] = elementwise.RULES
