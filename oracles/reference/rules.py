"""All rules, by the name of torch's operation."""

from __future__ import annotations

from collections.abc import Mapping

from oracles.reference import elementwise, moves, pieces, products, reductions, windows
from oracles.reference.reading import Rule

assert all((moves, pieces, products, reductions, windows)), "imported for the rules that they register"
RULES: Mapping[str, Rule] = elementwise.RULES
