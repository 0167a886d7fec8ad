"""What `kernelfuzz bench guidance` does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from fuzz.cli.exits import Exit
from fuzz.cli.failures import UsageError
from fuzz.execute.pool import WorkerPool
from fuzz.execute.target import Target, expand
from fuzz.execute.toolchain import this_host
from fuzz.mutant import Mutant
from fuzz.pack import Pack, built_in, load
from fuzz.report import console
from fuzz.report.environment import environment
from fuzz.report.tables import PlainTable, print_table
from fuzz.run.detection import Hunt
from fuzz.select import keyword

_MODES = {"unguided": False, "guided": True}


@dataclass(frozen=True)
class Request:
    """The options of `kernelfuzz bench guidance`."""

    seed: int
    seeds: int
    max_cases: int
    keyword: str | None
    pack: Path | None
    json: Path | None


@dataclass(frozen=True)
class Series:
    """One planted bug in one mode: for each seed the cases to detection, None where it was not found."""

    mutant: str
    mode: str
    cases: tuple[int | None, ...]
    limit: int

    @property
    def found(self) -> int:
        return sum(case is not None for case in self.cases)

    @property
    def middle(self) -> float:
        """Median of the cases to detection; a miss counts as the limit."""
        return median(self.limit if case is None else case for case in self.cases)

    @property
    def total(self) -> int:
        """Cases that were run in all."""
        return sum(self.limit if case is None else case for case in self.cases)


def bench_guidance(request: Request) -> Exit:
    """Print the table of all planted losses of accuracy; write the numbers to a file if one is given."""
    out, err = console.results(), console.progress()
    pack = load(request.pack or built_in())
    matches = keyword(request.keyword) if request.keyword else lambda name: True
    mutants = [mutant for mutant in pack.mutants if mutant.of_size and matches(mutant.name)]
    if not mutants:
        raise UsageError(f"{pack.path} plants no loss of accuracy that matches: see of_size of its MUTANTS")
    found: list[Series] = []
    for number, mutant in enumerate(mutants, start=1):
        err.print(f"[{number}/{len(mutants)}] {mutant.name}: {mutant.trigger}")
        for series in _hunted(pack, mutant, request):
            err.print(f"  {series.mode}: median {series.middle:g}, {series.found} found")
            found.append(series)
    print_table(_table(found), markdown=False)
    totals = {mode: sum(series.total for series in found if series.mode == mode) for mode in _MODES}
    shares = {mode: sum(series.found for series in found if series.mode == mode) for mode in _MODES}
    runs = len(mutants) * request.seeds
    out.print(
        f"\nfound within {request.max_cases:,} cases: {shares['unguided']} of {runs} unguided, "
        f"{shares['guided']} guided; cases run: {totals['unguided']:,} unguided, {totals['guided']:,} guided; "
        f"seeds {request.seed} to {request.seed + request.seeds - 1}",
        soft_wrap=True,
    )  # fmt: skip
    if request.json:
        record = {"environment": environment(), "limit": request.max_cases, "seed": request.seed,
                  "series": [{"mutant": s.mutant, "mode": s.mode, "cases": list(s.cases)} for s in found]}  # fmt: skip
        request.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return Exit.OK


def _hunted(pack: Pack, mutant: Mutant, request: Request) -> Iterator[Series]:
    """Both modes on one target, the same seeds."""
    target = _target(pack, mutant)
    seeds = range(request.seed, request.seed + request.seeds)
    with WorkerPool([target]) as pool:
        hunt = Hunt(pool, target, request.max_cases)
        for mode, guided in _MODES.items():
            cases = tuple(hunt.cases(seed, guided=guided) for seed in seeds)
            yield Series(mutant.name, mode, cases, request.max_cases)


def _target(pack: Pack, mutant: Mutant) -> Target:
    """The first target of the mutant that runs here. Raises UsageError."""
    targets = expand([mutant.apply(pack.kernel(mutant.base))], this_host())
    for target in targets:
        if target.unavailable() is None:
            return target
    raise UsageError(f"{mutant.name}: no target runs here: {targets[0].unavailable()}")


def _table(found: Sequence[Series]) -> PlainTable:
    rows = []
    for series in found:
        least = min((case for case in series.cases if case is not None), default=None)
        share = f"{series.found} of {len(series.cases)}"
        rows.append((series.mutant, series.mode, f"{series.middle:g}", "-" if least is None else str(least), share))
    return PlainTable(("planted", "search", "median cases", "least", "found"), rows)
