"""Platforms, each measured in a process of its own: what can run here, and why others cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

from fuzz.adapters.cuda import no_cuda_device
from fuzz.base.platforms import PLATFORMS
from fuzz.report.console import PlainTable
from fuzz.transport.fork_server import worker_environment
from fuzz.uses.platform.measurement import Measurement

Found = list[Measurement] | str
"""What was measured of a platform, or why nothing was."""
_LIMIT_S = 600.0
_NEEDS = {
    "triton": ("torch", "triton"), "torch": ("torch",), "numpy": ("numpy",), "c": (),
    **dict.fromkeys(("cuda", "cuda --use_fast_math"), ("torch", "cuda")),
}  # fmt: skip
"""The packages that a platform needs, by its kind."""


def unavailable(name: str) -> str:
    """Return why a platform cannot be measured here; '' where it can."""
    kind, _, place = name.partition("@")
    on_device = place == "cuda" or kind.startswith("cuda")
    missing = [each for each in _NEEDS[kind] if find_spec(each) is None]
    absent = no_cuda_device() if on_device else None
    return absent or (f"{missing[0]} is not installed" if missing else "")


def examined(name: str) -> Found:
    """Measure a platform."""
    if reason := unavailable(name):
        return reason
    command = [sys.executable, "-W", "ignore", "-m", "fuzz.uses.platform", name]
    environment = worker_environment(name.endswith("interpret"))
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LIMIT_S)
        if done.returncode == 0:
            return [Measurement(**each) for each in json.loads(done.stdout.splitlines()[-1])]
        return (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    except subprocess.TimeoutExpired:
        return f"it took more than {_LIMIT_S:.0f} s"


def names() -> tuple[str, ...]:
    """Return the platforms that may be measured: each shared library is another one."""
    return tuple(name for name in PLATFORMS if name.partition("@")[0] in _NEEDS)


def examination_table(found: dict[str, Found]) -> PlainTable:
    """A line for each thing that was measured, and for each platform that was not."""
    rows = list[tuple[str, ...]]()
    for name, each in found.items():
        if isinstance(each, str):
            rows.append((name, "all", "", f"NOT_RUN: {each}", ""))
        else:
            rows += [(name, m.about, m.documented, m.measured, "yes" if m.kept else "NO") for m in each]
    return PlainTable(("platform", "fact", "documented", "measured", "kept"), rows)
