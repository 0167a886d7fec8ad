"""All rules, by the name of torch's operation."""

from __future__ import annotations

from collections.abc import Mapping

from oracles.reference import elementwise, moves, products, reductions
from oracles.reference.reading import Rule

assert all((moves, products, reductions)), "imported for the rules that they register"
RULES: Mapping[str, Rule] = elementwise.RULES
