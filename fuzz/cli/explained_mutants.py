"""Mutants explained: what the tool states beside what was planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from fuzz.mutant import Mutant
from fuzz.run.tally import whereabouts
from fuzz.triage.examination import Explained


@dataclass(frozen=True)
class Told:
    """One mutant as it was found, shrunk and explained."""

    mutant: Mutant
    explained: Explained
    seconds: float
    """from the first case to the last probe."""

    @property
    def stated(self) -> str:
        """The rule, with its evidence."""
        return next(iter(self.explained.explanation.lines()), "nothing")

    @property
    def missing(self) -> tuple[str, ...]:
        """Words of the true trigger that the statement does not have."""
        return tuple(word for word in self.mutant.explained_as if word not in self.stated)

    @property
    def named(self) -> bool:
        """True where the statement names what was planted."""
        return not self.missing


def print_told(out: Console, told: Sequence[Told]) -> None:
    """What was planted and what was said of it, one after the other."""
    for each in told:
        attribution = each.explained.attribution
        lines = (
            f"{each.mutant.name}: {each.seconds:.1f} s, shrunk to {whereabouts(each.explained.case)}",
            f"  planted  {each.mutant.trigger}",
            f"  stated   {each.stated}",
            f"  cause    {attribution.cause if attribution is not None else 'unknown'}",
            *([f"  MISSING  {', '.join(each.missing)}"] if each.missing else []),
        )
        for line in lines:
            out.print(line, highlight=False, markup=False, soft_wrap=True)
    named, slowest = sum(each.named for each in told), max((each.seconds for each in told), default=0.0)
    out.print(f"{named} of {len(told)} mutants explained by what was planted; the slowest took {slowest:.1f} s")


def told_record(told: Told) -> dict[str, Any]:
    """For the JSON record."""
    return {
        "stated": told.stated,
        "missing": list(told.missing),
        "case": whereabouts(told.explained.case),
        "seconds": round(told.seconds, 1),
        "lines": told.explained.lines(),
    }
