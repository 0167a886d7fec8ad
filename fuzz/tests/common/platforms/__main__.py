"""`python3 -m fuzz.tests.common.platforms [NAME]` prints what is measured of a platform, or of all that run here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec

from fuzz.core.adapters.cuda import no_cuda_device
from fuzz.core.base.platforms import PLATFORMS
from fuzz.core.transport.fork_server import worker_environment
from fuzz.report.console import PlainTable, print_table
from fuzz.tests.common.platforms.functions import bf16_of, calls_of, halves_of
from fuzz.tests.common.platforms.measurement import Measurement, attempted, in_bf16, in_halves, measured

_LIMIT_S = 600.0
NEEDS = {
    "triton": ("torch", "triton"), "torch": ("torch",), "numpy": ("numpy",), "c": (),
    **dict.fromkeys(("cuda", "cuda --use_fast_math"), ("torch", "cuda")),
}  # fmt: skip
"""The packages that a platform needs, by its kind. Each shared library is another one, and not measured."""


def unavailable(name: str) -> str:
    """Return why a platform cannot be measured here; '' where it can."""
    kind, _, place = name.partition("@")
    on_device = place == "cuda" or kind.startswith("cuda")
    missing = [each for each in NEEDS[kind] if find_spec(each) is None]
    absent = no_cuda_device() if on_device else None
    return absent or (f"{missing[0]} is not installed" if missing else "")


def examined(name: str) -> Sequence[Measurement] | str:
    """Return what is measured of a platform, or why nothing is: in a process of its own, so that a library that ends it
    ends nothing else."""
    if reason := unavailable(name):
        return reason
    command = [sys.executable, "-W", "ignore", "-m", "fuzz.tests.common.platforms", "--json", name]
    environment = worker_environment(name.endswith("interpret"))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode == 0:
        return [Measurement(**each) for each in json.loads(done.stdout.splitlines()[-1])]
    return (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]


def examine(name: str) -> Sequence[Measurement]:
    """Return what is measured of a platform, in this process."""
    found = [*measured(PLATFORMS[name], calls_of(name)), *in_halves(halves_of(name))]
    if narrow := bf16_of(name):
        found.append(attempted("subnormals of bf16", lambda: in_bf16(PLATFORMS[name], narrow)))
    if name.startswith("triton"):
        from fuzz.tests.common.platforms.triton_functions import bits_of_products

        def dot() -> Measurement:
            bits = bits_of_products("cuda" if name.endswith("cuda") else "cpu")
            said = f"f32 operands have {bits} bits{' (TF32)' if bits == 11 else ''}, where nothing is said"
            return Measurement("dot", "24 bits, or TF32 where there are tensor cores", said, bits in (11, 24))

        found.append(attempted("dot", dot))
    return found


def table(names: Sequence[str]) -> PlainTable:
    """Return a line for each fact that was measured, and for each platform that was not."""
    rows = list[tuple[str, ...]]()
    for name in names:
        each = examined(name)
        if isinstance(each, str):
            rows.append((name, "all", "", f"NOT_RUN: {each}", ""))
        else:
            rows += [(name, m.about, m.documented, m.measured, "yes" if m.kept else "NO") for m in each]
    return PlainTable(("platform", "fact", "documented", "measured", "kept"), rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--json"]:
        print(json.dumps([asdict(each) for each in examine(sys.argv[2])]))
    else:
        known = [name for name in PLATFORMS if name.partition("@")[0] in NEEDS]
        print_table(table(sys.argv[1:] or known), markdown=False)
