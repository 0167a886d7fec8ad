"""Times as people write them."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, None: 1.0}


def seconds(text: str) -> float:
    """Seconds in '30s', '5m', '8h' or a plain number of seconds. Raises ValueError, saying what to write."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time: write 30s, 5m or 8h")
    found = float(match[1]) * _SECONDS[match[2]]
    if found == 0:
        raise ValueError("must be more than 0")
    return found


def written(duration: float) -> str:
    """The shortest text that `seconds` reads as that: '8h', '90s', '0.5s'."""
    unit = next(unit for unit, size in _SECONDS.items() if duration % size == 0 or unit == "s")
    return f"{duration / _SECONDS[unit]:g}{unit}"
