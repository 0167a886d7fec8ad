"""How many cases planted losses of accuracy take to be found, by each way of searching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median
from typing import Annotated

import typer

from fuzz.adapters.pack import Pack
from fuzz.adapters.registry import expand
from fuzz.adapters.target import Target
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Mutant
from fuzz.base.selection import keyword
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import loaded
from fuzz.execute.pool import WorkerPool
from fuzz.quality.hunts import Found, Hunt
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record

_MODES: Mapping[str, Callable[[Hunt, int], Found]] = {
    "unguided": Hunt.unguided,
    "guided": Hunt.guided,
    "hypothesis.target": Hunt.by_hypothesis,
}
_PLAIN = "unguided"


@dataclass(frozen=True)
class GuidanceOptions:
    """The options of `python3 -m fuzz.quality guidance`."""

    seed: Annotated[int, typer.Option("--seed", min=0, help="The first of several.")] = 1
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many.")] = 20
    max_cases: Annotated[int, typer.Option("--max-cases", min=1, help="Cases per bug and seed.")] = 1000
    keyword: Annotated[
        str | None, typer.Option("-k", metavar="EXPR", help="Only planted bugs whose name matches, e.g. 'root or eps'.")
    ] = None
    pack: options.PackFolder = None
    json: options.Json = None


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
    def costs(self) -> tuple[int, ...]:
        """Cases to detection; a miss counts as more than the limit."""
        return tuple(self.limit + 1 if case is None else case for case in self.cases)

    @property
    def middle(self) -> float:
        """Median of the cases to detection; a miss counts as the limit."""
        return median(self.limit if case is None else case for case in self.cases)

    @property
    def total(self) -> int:
        """Cases that were run in all."""
        return sum(self.limit if case is None else case for case in self.cases)


def guidance(options: GuidanceOptions) -> Exit:
    """Count the cases to find planted losses of accuracy: without guidance, with it, and by hypothesis.target."""
    out, err = console.results(), console.progress()
    pack = loaded(options.pack)
    matches = keyword(options.keyword) if options.keyword else lambda name: True
    mutants = [mutant for mutant in pack.mutants if mutant.of_size and matches(mutant.name)]
    if not mutants:
        raise UsageError(f"{pack.path} plants no loss of accuracy that matches: see of_size of its MUTANTS")
    found: list[Series] = []
    for base in dict.fromkeys(mutant.base for mutant in mutants):
        of_base = [mutant for mutant in mutants if mutant.base == base]
        err.print(f"{base}: {', '.join(mutant.name for mutant in of_base)}")
        found += _series(pack, of_base, options)
    print_table(_table(found), markdown=False)
    for line in _summary(found, options):
        out.print(line, soft_wrap=True)
    series = [{"mutant": s.mutant, "mode": s.mode, "cases": list(s.cases)} for s in found]
    write_record(options.json, {"limit": options.max_cases, "seed": options.seed, "series": series})
    return Exit.OK


def _series(pack: Pack, mutants: Sequence[Mutant], options: GuidanceOptions) -> list[Series]:
    """Mutants of one base in every mode, with the same seeds."""
    targets = {_target(pack, mutant): mutant for mutant in mutants}
    seeds = range(options.seed, options.seed + options.seeds)
    with WorkerPool(list(targets)) as pool:
        hunt = Hunt(pool, list(targets), options.max_cases)
        runs = {mode: [search(hunt, seed) for seed in seeds] for mode, search in _MODES.items()}
    return [
        Series(mutant.name, mode, tuple(run[target.id] for run in runs[mode]), options.max_cases)
        for target, mutant in targets.items()
        for mode in _MODES
    ]


def _summary(found: Sequence[Series], options: GuidanceOptions) -> Iterator[str]:
    """Each way of guiding compared with none, seed by seed."""
    plain = {series.mutant: series for series in found if series.mode == _PLAIN}
    yield ""
    for mode in _MODES:
        series = [each for each in found if each.mode == mode]
        share = f"{sum(each.found for each in series)} of {len(series) * options.seeds}"
        line = f"{mode}: {share} found within {options.max_cases:,} cases, {sum(s.total for s in series):,} cases run"
        if mode != _PLAIN:
            pairs = [pair for each in series for pair in zip(each.costs, plain[each.mutant].costs, strict=True)]
            line += _compared(pairs, options.max_cases)
        yield line
    yield f"seeds {options.seed} to {options.seed + options.seeds - 1}"


def _compared(pairs: Sequence[tuple[int, int]], limit: int) -> str:
    """Pairs of cases to detection: guided, and unguided with the same seed. More than the limit is a miss."""
    gained = sum(guided <= limit < unguided for guided, unguided in pairs)
    lost = sum(unguided <= limit < guided for guided, unguided in pairs)
    sooner = sum(guided < unguided for guided, unguided in pairs)
    later = sum(guided > unguided for guided, unguided in pairs)
    return (
        f"; alone in finding it {gained} times, unguided {lost} (sign test p = {_sign_test(gained, lost):.2g})"
        f"; sooner than unguided {sooner} times, later {later} (p = {_sign_test(sooner, later):.2g})"
    )


def _sign_test(wins: int, losses: int) -> float:
    """Two-sided: how likely so uneven a split is where either side is as likely."""
    runs, least = wins + losses, min(wins, losses)
    tail: int = sum(comb(runs, k) for k in range(least + 1))
    return min(1.0, tail / 2.0 ** (runs - 1))


def _target(pack: Pack, mutant: Mutant) -> Target:
    """The first target of the mutant that runs here. Raises UsageError."""
    targets = expand([mutant.apply(pack.kernel(mutant.base))])
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
