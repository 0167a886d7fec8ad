"""The angle of a point."""

from oracles.elementary.function import OfTwo

FUNCTION = OfTwo(name="atan2", summary="the angle of the point (other, value), in radians", usual=2.0, loose=4.0)
