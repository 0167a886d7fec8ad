"""What pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib

from fuzz.tests.conftest import CHECKOUT


def oldest(distribution: str) -> str:
    """The oldest version that is allowed."""
    wanted = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
    [found] = [match for each in wanted if (match := re.fullmatch(rf"{distribution}>=([\d.]+)", each))]
    return found[1]
