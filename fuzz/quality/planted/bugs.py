"""All planted bugs, by their names."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.quality.planted.bug import Bug
from fuzz.quality.planted.conditions import CONDITIONS
from fuzz.quality.planted.pairs import PAIRS

BUGS: Mapping[str, Bug] = {bug.name: bug for bug in (*CONDITIONS, *PAIRS)}
"""Each planted bug."""
