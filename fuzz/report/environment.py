"""The environment of a run, for every record: what was used, in which version."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from fuzz.base import __version__

_DISTRIBUTIONS = ("numpy", "hypothesis", "mpmath", "gmpy2", "ml_dtypes", "torch", "triton")


def environment() -> dict[str, Any]:
    """Versions and machine facts. No host name, no user, no paths."""
    return {
        "kernelfuzz": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_model(),
        "processors": os.cpu_count(),
        "packages": {name: _version(name) for name in _DISTRIBUTIONS},
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - a kernel file, read once
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"
