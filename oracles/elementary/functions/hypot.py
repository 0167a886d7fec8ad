"""The length of the longest side of a right triangle."""

from oracles.elementary.function import OfTwo

FUNCTION = OfTwo(name="hypot", summary="sqrt(value^2 + other^2), without overflow on the way", usual=3.0, loose=4.0)
