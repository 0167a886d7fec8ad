"""The accuracy ratchet: a file beside the corpora keeps the worst passing error of each kernel on their cases, and a
gate compares its own measurements with it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz.campaign.corpus.folder import ACCURACY, CorpusError
from fuzz.core.base.case import CaseError
from fuzz.core.base.text import printable
from fuzz.findings import document
from fuzz.report.totals import and_more, by_reason

VERSION = 2
WORSE = 1.25
"""A value that grew by more than this factor is reported."""
FLOOR = 0.05
"""A value that is not above this, in err/budget or in ulp, is not reported."""
_ON = "on"
"""The key, among the dtypes of a target's line, of the processor or device on which the target was measured."""

Key = tuple[str, str, str]
"""The names of kernel, target and dtype."""


@dataclass(frozen=True)
class _Move:
    """One figure before and after a change. A larger figure is less accurate."""

    name: str
    before: float
    after: float

    @property
    def lost(self) -> bool:
        """Whether the figure grew by more than the factor WORSE."""
        return self.after > max(self.before, FLOOR) * WORSE and not math.isclose(self.after, self.before)

    def __str__(self) -> str:
        return f"{self.name} {'rose' if self.after > self.before else 'fell'} {self.before:.3f} -> {self.after:.3f}"


@dataclass(frozen=True)
class Accuracy:
    """The error of the worst passing element of one kernel, on one target, in one dtype."""

    ratio: float
    """The error as err/budget."""
    ulp: float
    """The error in ulp."""
    case: str
    """The leading digits of the digest of the case with the element."""

    def moved(self, to: Accuracy) -> Iterator[_Move]:
        """Yield the changes of the figures. The error in ulp is compared only if the case is the same."""
        yield _Move("err/budget", self.ratio, to.ratio)
        if self.case == to.case:
            yield _Move("ulp", self.ulp, to.ulp)


Table = Mapping[Key, Accuracy]


@dataclass(frozen=True)
class AccuracyChange:
    """An entry whose error grew by more than it may."""

    key: Key
    before: Accuracy
    after: Accuracy

    def __str__(self) -> str:
        kernel, target, dtype = self.key
        moved = [move for move in self.before.moved(self.after) if move.after != move.before]
        said = ", ".join(map(str, sorted(moved, key=lambda move: not move.lost)))
        return f"{kernel} on {target} in {dtype}: {said} (case {self.after.case})"


@dataclass(frozen=True)
class Ratchet:
    """The accuracy of kernels, as read from the file or as measured by a gate."""

    worst: Table
    on: Mapping[str, str]
    """The processor or device on which each target was measured; on another one, rounding may differ."""


def load_accuracy(path: Path) -> Ratchet:
    """Return the contents of the file. Raises CaseError, which names the file, if it is broken."""
    record = document.read(path)
    try:
        if record.get(ACCURACY) != VERSION:
            known = f"is not one that this version reads ({VERSION})"
            again = "remove it, and write it anew: kernelfuzz gate --update-accuracy"
            raise CaseError(f"{path}: format {record.get(ACCURACY)!r} {known}; {again}")
        lines = [line for targets in record["worst"].values() for line in targets.items()]
        on = {printable(target): printable(str(line[_ON])) for target, line in lines}
        return Ratchet(dict(_entries(record["worst"])), on)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, CaseError):
            raise
        raise CaseError(f"{path}: not an accuracy file: {error!r}") from error


def _entries(worst: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[tuple[Key, Accuracy]]:
    for kernel, targets in worst.items():
        for target, dtypes in targets.items():
            for dtype in dtypes.keys() - {_ON}:
                ratio, ulp, case = dtypes[dtype]
                key = printable(kernel), printable(target), printable(dtype)
                yield key, Accuracy(float(str(ratio)), float(str(ulp)), printable(str(case)))


def save_accuracy(path: Path, ratchet: Ratchet) -> None:
    """Write the file with one line per target, so that git can merge branches that change different kernels."""
    kernels: dict[str, dict[str, dict[str, str | list[float | str]]]] = {}
    for (kernel, target, dtype), worst in sorted(ratchet.worst.items()):
        line = kernels.setdefault(kernel, {}).setdefault(target, {_ON: ratchet.on[target]})
        line[dtype] = [round(worst.ratio, 4), round(worst.ulp, 4), worst.case]
    body = ",\n".join(
        f"  {json.dumps(kernel)}: {{\n"
        + ",\n".join(f"   {json.dumps(target)}: {json.dumps(dtypes)}" for target, dtypes in targets.items())
        + "\n  }"
        for kernel, targets in kernels.items()
    )
    path.write_text(f'{{\n "{ACCURACY}": {VERSION},\n "worst": {{\n{body}\n }}\n}}\n', encoding="utf-8")


def compare(path: Path, now: Ratchet, targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return lines about entries that became less accurate, and lines about entries that could not be compared."""
    before = load_accuracy(path) if path.is_file() else Ratchet({}, {})
    alike = {key: worst for key, worst in now.worst.items() if key[1] not in _elsewhere(before, now)}
    lost, notes = [f"less accurate than before: {change}" for change in worse(before.worst, alike)], []
    new = unknown(before.worst, alike)
    if new:
        named = and_more([f"{target} in {dtype}" for _, target, dtype in new])
        notes.append(f"no accuracy recorded yet for {named}: kernelfuzz gate --update-accuracy")
    reasons = {**by_reason(_elsewhere(before, now)), **absent(before.worst, now.worst, targets)}
    notes += [f"accuracy not compared for {and_more(names)}: {reason}" for reason, names in reasons.items()]
    return lost, notes


def require_own(path: Path, kernels: Collection[str]) -> None:
    """Raise CorpusError if the file holds only other kernels than these: writing it would lose their figures."""
    if named := others(path, kernels):
        raise CorpusError(
            f"{path} is of other kernels ({and_more(named)}), whose accuracy would be lost: "
            "name a folder of your own with --corpora DIR"
        )


def others(path: Path, kernels: Collection[str]) -> list[str]:
    """Return the kernels in the file if these `kernels` are not among them, so that it belongs to another pack."""
    known = sorted({kernel for kernel, _, _ in load_accuracy(path).worst}) if path.is_file() else []
    return [] if {*known} & {*kernels} else known


def update(path: Path, now: Ratchet, kernels: Collection[str]) -> str:
    """Write the measured figures to the file, and return a line about it. Other figures of these kernels are kept, but
    not those of a target that was measured on another processor or device."""
    if not now.worst:
        return f"no accuracy to write to {path}: it is that of kept cases, and none ran; see kernelfuzz corpus add"
    before = load_accuracy(path) if path.is_file() else Ratchet({}, {})
    stale = _elsewhere(before, now)
    kept = {key: worst for key, worst in before.worst.items() if key[0] in kernels and key[1] not in stale}
    save_accuracy(path, Ratchet({**kept, **now.worst}, {**before.on, **now.on}))
    return f"accuracy of {len(now.worst)} entries written to {path}"


def _elsewhere(before: Ratchet, now: Ratchet) -> dict[str, str]:
    """Return the targets that were measured on another processor or device before, with the reason not to compare."""
    return {
        target: f"measured on {before.on[target]}, this is {here}"
        for target, here in sorted(now.on.items())
        if before.on.get(target, here) != here
    }


def worse(before: Table, after: Table) -> list[AccuracyChange]:
    """Return the entries that grew by more than the factor WORSE, even if they are within tolerance."""
    return [
        AccuracyChange(key, before[key], now)
        for key, now in sorted(after.items())
        if key in before and any(move.lost for move in before[key].moved(now))
    ]


def unknown(before: Table, after: Table) -> list[Key]:
    """Return the keys that `before` lacks."""
    return sorted(key for key in after if key not in before)


def absent(before: Table, after: Table, targets: Iterable[str]) -> dict[str, list[str]]:
    """Return the targets of the file without a new figure, by reason: they are not here, or did not run."""
    here = set(targets)
    missing = sorted({target for _, target, _ in before} - {target for _, target, _ in after})
    reasons: dict[str, list[str]] = {}
    for target in missing:
        reasons.setdefault("did not run" if target in here else "no such target here", []).append(target)
    return reasons
