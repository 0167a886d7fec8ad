"""An array of a library that nobody has: NumPy knows it by DLPack alone."""

from __future__ import annotations

from typing import Any

import numpy as np


class Foreign:
    """It has a copy of the elements."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def __dlpack__(self, **given: Any) -> Any:
        return self.values.__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.values.__dlpack_device__()
