"""Whether a night finds more planted bugs if its time goes where most is new, or in turn. Both ways share the time of
the same recorded searches, so that nothing else differs between them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated

import typer

from fuzz.campaign.nightly.sharing import FLOOR, News, PastSlice, chosen
from fuzz.campaign.parallel import spread_answers
from fuzz.campaign.search.stopping import Interruption
from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.cli.options import duration, loaded
from fuzz.core.adapters.pack import Pack
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Mutant
from fuzz.core.base.text import counted
from fuzz.quality.detection import Hunt, PlantedBugs, hunters, targets_of
from fuzz.quality.throughput import workers_cpu
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record

_SLICES = 8
"""The number of slices in an equal share of the time: a night of eight hours gives each op about as many."""
_IN_TURN = 1.0
"""The floor with which all time goes in turn."""


@dataclass(frozen=True)
class SharingOptions:
    """The options of `python3 -m fuzz.quality sharing`."""

    planted: PlantedBugs = field(default_factory=PlantedBugs)
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many nights, each with its own seed.")] = 10
    each: Annotated[
        float, typer.Option("--each", metavar="2s", parser=duration, help="An equal share: processor time of a kernel.")
    ] = 2.0
    most: Annotated[float, typer.Option("--most", min=1.0, help="How many equal shares of a kernel are recorded.")] = (
        4.0
    )
    pack: options.PackFolder = None
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


@dataclass(frozen=True)
class RecordedTurn:
    """One turn of a recorded search: its seconds of processor time, what was new, and which bugs it was first to
    find."""

    seconds: float
    new: int
    found: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """The searches of a correct kernel with its planted bugs, one for each seed."""

    base: str
    searches: tuple[tuple[RecordedTurn, ...], ...] = ()
    not_run: str = ""
    """Why it could not be searched."""


@dataclass
class SharedNight:
    """A night that shares its time between recorded searches."""

    searches: Mapping[str, Sequence[RecordedTurn]]
    seed: int
    slice_s: float
    floor: float
    used: dict[str, list[PastSlice]] = field(default_factory=dict)
    found: list[tuple[float, str]] = field(default_factory=list)
    """The bugs that were found, each with the seconds that the night had taken."""

    def run(self, seconds: float) -> SharedNight:
        """Share `seconds` out. A search that was not recorded for longer shows nothing more."""
        now, left = 0.0, {name: list(reversed(steps)) for name, steps in self.searches.items()}
        kernels = dict.fromkeys(self.searches, 1)
        while now < seconds:
            name = chosen(self.seed, kernels, self.used, self.floor)
            began, new = now, 0
            while now - began < self.slice_s and left[name]:
                step = left[name].pop()
                now, new = now + step.seconds, new + step.new
                self.found += [(now, each) for each in step.found]
            now = max(now, began + self.slice_s) if not left[name] else now
            self.used.setdefault(name, []).append(PastSlice(now - began, new))
        return self

    def count(self, until: float) -> int:
        """Return the number of bugs that were found by then."""
        return sum(at <= until for at, _ in self.found)


def sharing(options: SharingOptions) -> Exit:
    """Count the planted bugs that nights find in the same time, shared in turn and by what is new."""
    pack = loaded(options.pack)
    bugs = options.planted.of(pack)

    def ask(base: str) -> Recorded:
        try:
            return recorded(pack, base, bugs[base], options)
        except UsageError as error:
            return Recorded(base, not_run=str(error))

    found, out, err = list[Recorded](), console.results(), console.progress()
    with Interruption("what is known is shown") as stop:
        for each in spread_answers(
            [*bugs], ask, Recorded, options.jobs or len(os.sched_getaffinity(0)), lambda: stop.wanted, str,
            "its process was ended from outside",
        ):  # fmt: skip
            found.append(each)
            err.print(f"{len(found)} of {len(bugs)}, {each.base}: {each.not_run or 'searched'}", soft_wrap=True)
    write_record(options.json, {"found": [asdict(each) for each in found]})
    found = [each for each in found if each.searches]
    print_table(compared(found, options.seeds, options.each), markdown=options.markdown)
    planted = sum(len(bugs[each.base]) for each in found)
    of = f"{counted(planted, 'bug')} of {counted(len(found), 'kernel')}"
    out.print(f"{of}; {options.each:g} s of processor time for each kernel", soft_wrap=True)
    return Exit.OK


def recorded(pack: Pack, base: str, mutants: Sequence[Mutant], limits: SharingOptions) -> Recorded:
    """Search a correct kernel with its bugs once for each seed. Raises UsageError where it cannot."""
    searches = []
    for seed in range(1, limits.seeds + 1):
        right, wrong = targets_of(pack, base, mutants)
        with hunters((right, *wrong)) as pool:
            hunt, targets = Hunt(right, wrong), {each.id: each for each in (right, *wrong)}
            news, steps, found = News(targets), list[RecordedTurn](), set[str]()
            last = began = time.process_time() + workers_cpu(pool)
            for report in hunt.turns(pool, seed):
                news.counted(report.tally)
                for sighting in report.sightings:
                    for judgement in sighting.judgements:
                        news.failed(targets[judgement.target].kernel.name, sighting.case, judgement, 0.0)
                now = time.process_time() + workers_cpu(pool)
                fresh = hunt.found.keys() - found
                steps.append(RecordedTurn(now - last, sum(news.taken(()).values()), tuple(sorted(fresh))))
                found, last = found | fresh, now
                if now - began > limits.most * limits.each:
                    break
        searches.append(tuple(steps))
    return Recorded(base, tuple(searches))


def compared(found: Sequence[Recorded], seeds: int, each_s: float) -> PlainTable:
    """Return how many bugs each night found in each way, after a quarter of the time, half and all of it."""
    whole, parts, rows = len(found) * each_s, (0.25, 0.5, 1.0), list[tuple[str, ...]]()
    totals = dict.fromkeys([(floor, part) for part in parts for floor in (_IN_TURN, FLOOR)], 0)
    for place in range(seeds):
        searches = {each.base: each.searches[place] for each in found}
        nights = {
            floor: SharedNight(searches, place + 1, each_s / _SLICES, floor).run(whole) for floor in (_IN_TURN, FLOOR)
        }
        counts = {(floor, part): nights[floor].count(part * whole) for floor, part in totals}
        totals = {key: count + counts[key] for key, count in totals.items()}
        rows.append((str(place + 1), *map(str, counts.values())))
    rows.append(("all", *map(str, totals.values())))
    columns = [f"{way}, {part:.0%} of the time" for part in parts for way in ("in turn", "by what is new")]
    return PlainTable(("seed", *columns), rows)
