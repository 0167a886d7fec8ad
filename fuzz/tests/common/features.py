"""Features of cases that many tests speak of."""

from __future__ import annotations

from fuzz.base.feature import Feature, feature

N, ROWS = feature("extent", "n"), feature("extent", "rows")


def left(dim: str, block: int) -> Feature:
    """Return what is left of a dimension over a block."""
    return feature("remainder", dim, operand=block)


def there(name: str) -> Feature:
    """Return whether an optional tensor is there."""
    return feature("presence", name)
