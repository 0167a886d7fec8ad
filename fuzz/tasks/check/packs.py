"""The kernels of a pack as tests: one for each target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.core.adapters.pack import PackError, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.selection import globs, matches_any
from fuzz.tasks.check.check import Plans, check_targets
from fuzz.tasks.check.plan import GIVEN, Seed
from fuzz.tasks.check.results import CheckError, CheckFailed, told

__tracebackhide__ = told


@dataclass(frozen=True)
class PackTarget:
    """A target of a kernel in a pack, and what else the kernel runs on."""

    target: Target
    folder: Path
    siblings: tuple[Target, ...] = field(repr=False)

    @property
    def id(self) -> str:
        """Such as 'c-mine@native:gcc-O2'."""
        return self.target.id

    @property
    def kernel(self) -> Kernel:
        """As it is declared."""
        return self.target.kernel

    def why_skipped(self) -> str | None:
        """Why it cannot run here, where another target of the same kernel can. A kernel that runs nowhere fails."""
        reason = self.target.unavailable()
        elsewhere = any(sibling.unavailable() is None for sibling in self.siblings)
        return reason if reason is not None and elsewhere else None

    def check(
        self,
        *,
        cases: Iterable[str | Path] = (),
        max_cases: int | None = None,
        max_time: float | None = None,
        seed: Seed = None,
    ) -> None:
        """As `fuzz.check`, on this target."""
        reason = self.target.unavailable()
        if reason is not None:
            raise CheckFailed(f"NOTHING RAN: {self.kernel.name} runs nowhere here; {self.id}: {reason}")
        check_targets((self.target,), Plans(max_cases, max_time, seed), cases, ("--pack", str(self.folder)))


def pack_targets(folder: Path) -> list[PackTarget]:
    """Every target that the command line asks for. Raises CheckError where there is none."""
    try:
        pack = load(folder)
    except PackError as error:
        raise CheckError(str(error)) from None
    wanted = globs(GIVEN.options.targets)
    found = []
    for kernel in pack.kernels:
        siblings = expand([kernel])
        found += [
            PackTarget(target, folder, siblings) for target in siblings if not wanted or matches_any(target.id, wanted)
        ]
    if not found:
        raise CheckError(f"--kernelfuzz-targets {','.join(GIVEN.options.targets)}: no target of {folder} matches")
    return found
