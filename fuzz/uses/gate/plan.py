"""What a gate runs, decided before anything runs: kept cases and suites in a fixed order, then a counted search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.laws.registry import Entry
from fuzz.uses.corpus.folder import CorpusError, Kept, entries_of, json_files, kept_cases, load
from fuzz.uses.corpus.suites import expand, suites

SEED = 0
"""Every gate's search has this seed: the same commit is given the same cases."""
AFTER_FINDING = 200
"""A search goes on for this many cases once it has found something: a red gate should be red soon."""

SLOW_CASES = 256
"""Slow targets are given about this many cases of a search: an interpreter would otherwise take most of a gate's
time."""
_SLOW_SUITES = 4
"""Slow targets too are given one batch in this many of the published suites, and all of what is kept because it
failed."""

_REPLAYED = ("regressions", "historical", "suites")
"""The folders of a corpus that a gate replays."""
_KEPT = ("trophies", "accuracy.json")
"""What else a corpus has: trophies are of kernels of other packs, and the night finds them again."""


def slow_every(max_cases: int) -> int:
    """Slow targets are given one turn in this many of a search of so many cases."""
    return max(1, math.ceil(max_cases / SLOW_CASES))


@dataclass(frozen=True)
class Phase:
    """A named part of the plan. A group is a case, with its twin where it has one."""

    name: str
    groups: tuple[list[Entry], ...]
    slow_every: int = 1
    """Slow targets are given one batch in this many."""


def phases(corpora: Path | None, known: Sequence[Path]) -> tuple[Phase, ...]:
    """Own findings first, since they are the likeliest to come back; then documented bugs, then published suites."""
    failures = Phase("known failures", _groups(load(path) for path in known))
    if corpora is None:
        return tuple(_without_repeats([failures]))
    if not corpora.is_dir():
        made = f"kernelfuzz corpus add CASE --corpora {corpora} makes it"
        raise CorpusError(f"--corpora {corpora}: no such folder; {made}")
    regressions, historical, systems = (corpora / name for name in _REPLAYED)
    published = [case.case for suite in suites(systems) for case in expand(suite)]
    parts = (
        failures,
        Phase("regressions", _groups(kept_cases(regressions)) if regressions.is_dir() else ()),
        Phase("historical", _groups(kept_cases(historical)) if historical.is_dir() else ()),
        Phase("suites", tuple([Entry(case)] for case in published), _SLOW_SUITES),
    )
    return tuple(_without_repeats(parts))


def unreplayed(corpora: Path | None) -> list[str]:
    """A line that names the files of a corpus that lie where no gate looks, if there are any."""
    if corpora is None:
        return []
    places = {path: path.relative_to(corpora).parts[0] for path in json_files(corpora)}
    aside = [path for path, place in places.items() if place not in (*_REPLAYED, *_KEPT)]
    if not aside:
        return []
    more = f" and {len(aside) - 1} more" if len(aside) > 1 else ""
    replayed = ", ".join(f"{name}/" for name in _REPLAYED)
    return [f"not replayed: {aside[0]}{more}: a gate replays {replayed} only; see kernelfuzz corpus add"]


def _groups(kept: Iterable[Kept]) -> tuple[list[Entry], ...]:
    return tuple(entries_of(each) for each in kept)


def _without_repeats(parts: Iterable[Phase]) -> Iterable[Phase]:
    """Each case once, with each law: a finding may be documented as well."""
    seen: set[tuple[str, ...]] = set()
    for part in parts:
        kept = []
        for group in part.groups:
            key = tuple(entry.case.digest + (entry.check.name if entry.check else "") for entry in group)
            if key not in seen:
                seen.add(key)
                kept.append(group)
        yield replace(part, groups=tuple(kept))
