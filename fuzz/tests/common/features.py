"""Features of cases that many tests speak of."""

from __future__ import annotations

from fuzz.core.base.feature import Feature

N, ROWS = Feature("extent", "n"), Feature("extent", "rows")


def left(dim: str, block: int) -> Feature:
    """Return what is left of a dimension over a block."""
    return Feature("remainder", dim, operand=block)


def there(name: str) -> Feature:
    """Return whether an optional tensor is there."""
    return Feature("presence", name)
