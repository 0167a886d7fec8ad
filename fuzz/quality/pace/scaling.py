"""How much one command judges with so many processes: the command itself, as people call it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fuzz.adapters.target import Target
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Kernel
from fuzz.cli.exits import Exit
from fuzz.quality.pace import Scaling
from fuzz.transport.fork_server import worker_environment
from oracles.ops import OPS

_K = TypeVar("_K", bound=Kernel)

_PACK = '''"""Kernels of another pack, given short rows alone."""

from pathlib import Path

from fuzz.adapters.pack import load
from fuzz.quality.pace.scaling import bounded

KERNELS = tuple(bounded(kernel, {max_n}) for kernel in load(Path({path!r})).kernels)
'''


def bounded(kernel: _K, max_n: int) -> _K:
    """Return the kernel, which says of itself that it takes no longer rows, or none of several tiles where one tile is
    longer. It rejects none: nobody wrote that it does."""
    able, row = kernel.capabilities, OPS[kernel.op].row
    longest = max(max_n, able.multiple_of.get(row, 1))
    most = {**able.max, row: min(longest, able.max.get(row, longest))}
    return replace(kernel, capabilities=replace(able, max=most, outside="undefined"))


@contextmanager
def bounded_pack(path: Path, max_n: int) -> Iterator[Path]:
    """A pack of the kernels of the pack in `path`, bounded."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pack.py").write_text(_PACK.format(max_n=max_n, path=str(path.resolve())), encoding="utf-8")
        yield Path(folder)


def measure(pack: Path, targets: Sequence[Target], processes: int, seconds: float, seed: int) -> Scaling:
    """`kernelfuzz run` on these targets for so long. Raises UsageError where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run.json"
        chosen = [word for target in targets for word in ("--target", target.id)]
        command = [
            sys.executable, "-m", "fuzz", "run", "--pack", str(pack), *chosen, "--max-time", f"{seconds}s",
            "--seed", str(seed), "-j", str(processes), "--json", str(record), "--no-shrink",
            "--output", str(Path(folder) / "findings"),
        ]  # fmt: skip
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=worker_environment(False),
            stdin=subprocess.DEVNULL,
        )
        if answer.returncode not in (Exit.OK, Exit.FINDINGS):
            raise UsageError(f"kernelfuzz run -j {processes} ended with {answer.returncode}:\n{answer.stderr}")
        with record.open(encoding="utf-8") as lines:
            summary = next(facts for facts in map(json.loads, lines) if facts["kind"] == "summary")
    if not summary["judged"]:
        raise UsageError(f"kernelfuzz run -j {processes} judged nothing in {seconds:g} s: give it more --seconds")
    return Scaling(processes, summary["judged"], summary["elapsed_s"])
