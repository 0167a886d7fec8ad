"""Kernels of which no worker could be built or started: what is said of them, in every report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fuzz.adapters.build import NOTE
from fuzz.base.verdict import Verdict

VERDICT = Verdict.CRASH
"""It ended before its first case."""
_SHOWN = 12
"""Lines of what a compiler said that are shown where other kernels are told of too, behind its first error: what it
points at."""


@dataclass(frozen=True)
class Broken:
    """A kernel and the targets on which it cannot be started for one reason."""

    kernel: str
    targets: tuple[str, ...]
    reason: str
    """One line."""
    said: str
    """All that is known, such as what the compiler printed."""

    @property
    def headline(self) -> str:
        """One line: what is wrong, where."""
        more = f" and {len(self.targets) - 1} more targets" if len(self.targets) > 1 else ""
        return f"{VERDICT.value}: {self.kernel} on {self.targets[0]}{more}: {self.reason}"

    def text(self, see_all: str, *, whole: bool) -> str:
        """As a failure is told. `see_all` says where the rest is, where not the `whole` of it is shown."""
        return "\n".join(self._lines(see_all, whole))

    def _lines(self, see_all: str, whole: bool) -> Iterator[str]:
        more = f" and {len(self.targets) - 1} more" if len(self.targets) > 1 else ""
        yield f"{VERDICT.value}  {self.kernel}  {self.targets[0]}{more}"
        yield f"  what          {self.reason}"
        said = self.said.removeprefix(self.reason).strip("\n").splitlines()
        if said:
            first = _behind_error(said, self.reason)
            ours = [line for line in said[first + _SHOWN :] if line.startswith(NOTE)]
            shown = said if whole else [*said[first:][:_SHOWN], *ours]
            yield from (f"    {line}" for line in shown)
            if len(shown) < len(said):
                yield f"  all of it     {see_all}"


def broken_kernels(targets: Iterable[tuple[str, str, str, str]]) -> list[Broken]:
    """From kernel, target, reason and what was said of each target; nothing of those of which nothing was said."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for kernel, target, reason, said in targets:
        if said:
            groups.setdefault((kernel, reason), []).append((target, said))
    return [
        Broken(kernel, tuple(target for target, _ in found), reason, found[0][1])
        for (kernel, reason), found in groups.items()
    ]


def _behind_error(said: list[str], reason: str) -> int:
    """The line behind the one that the reason quotes; the first where it quotes none."""
    return next((number + 1 for number, line in enumerate(said) if line.strip() and reason.endswith(line.strip())), 0)
