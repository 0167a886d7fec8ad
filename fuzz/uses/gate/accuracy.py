"""The accuracy ratchet: how far each kernel strayed on the corpora, kept in a file among them."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fuzz.base.case import CaseError
from fuzz.base.text import printable
from fuzz.findings import document
from fuzz.report.totals import and_more
from fuzz.uses.corpus.folder import ACCURACY

VERSION = 1
WORSE = 1.25
"""A change is reported where the value is more than this many times as large."""
FLOOR = 0.05
"""Below this err/budget, and below this ulp, a change is nobody's business."""

Key = tuple[str, str, str]
"""The key is kernel, target and dtype."""


@dataclass(frozen=True)
class Accuracy:
    """The worst passing element of one kernel on one target in one dtype."""

    ratio: float
    """The err/budget of that element."""
    ulp: float
    """The error of that element in units of the last place."""
    case: str
    """The leading digits of the digest of its case."""


Table = Mapping[Key, Accuracy]


@dataclass(frozen=True)
class Change:
    """An entry that differs from the file by more than it may."""

    key: Key
    before: Accuracy
    after: Accuracy

    def __str__(self) -> str:
        kernel, target, dtype = self.key
        return (
            f"{kernel} on {target} in {dtype}: err/budget {self.before.ratio:.3f} -> {self.after.ratio:.3f}, "
            f"ulp {self.before.ulp:.3f} -> {self.after.ulp:.3f} (case {self.after.case})"
        )


@dataclass(frozen=True)
class Ratchet:
    """What the file holds."""

    machine: str
    """The architecture that it was measured on: elsewhere the same target rounds otherwise."""
    worst: Table


def load_accuracy(path: Path) -> Ratchet:
    """Read the file. Raises CaseError, naming it, where it is broken."""
    record = document.read(path)
    try:
        if record.get(ACCURACY) != VERSION:
            raise CaseError(f"{path}: format {record.get(ACCURACY)!r} is not one that this version reads ({VERSION})")
        return Ratchet(printable(str(record["machine"])), dict(_entries(record["worst"])))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, CaseError):
            raise
        raise CaseError(f"{path}: not an accuracy file: {error!r}") from error


def _entries(worst: Mapping[str, Mapping[str, Mapping[str, list[object]]]]) -> Iterator[tuple[Key, Accuracy]]:
    for kernel, targets in worst.items():
        for target, dtypes in targets.items():
            for dtype, (ratio, ulp, case) in dtypes.items():
                key = printable(kernel), printable(target), printable(dtype)
                yield key, Accuracy(float(str(ratio)), float(str(ulp)), printable(str(case)))


def save_accuracy(path: Path, machine: str, table: Table) -> None:
    """Write the file: one line per target, so that branches which change different kernels merge."""
    kernels: dict[str, dict[str, dict[str, list[float | str]]]] = {}
    for (kernel, target, dtype), worst in sorted(table.items()):
        line = kernels.setdefault(kernel, {}).setdefault(target, {})
        line[dtype] = [round(worst.ratio, 4), round(worst.ulp, 4), worst.case]
    body = ",\n".join(
        f"  {json.dumps(kernel)}: {{\n"
        + ",\n".join(f"   {json.dumps(target)}: {json.dumps(dtypes)}" for target, dtypes in targets.items())
        + "\n  }"
        for kernel, targets in kernels.items()
    )
    head = f'"{ACCURACY}": {VERSION},\n "machine": {json.dumps(machine)}'
    path.write_text(f'{{\n {head},\n "worst": {{\n{body}\n }}\n}}\n', encoding="utf-8")


def compare(path: Path, measured: Table, targets: Iterable[str]) -> tuple[list[str], list[str]]:
    """What is less accurate than the file says, and what could not be compared."""
    here = platform.machine()
    before = load_accuracy(path) if path.is_file() else Ratchet(here, {})
    if before.machine != here:
        return [], [f"accuracy not compared: {path.name} was measured on {before.machine}, this is {here}"]
    lost, notes = [f"less accurate than before: {change}" for change in worse(before.worst, measured)], []
    new = unknown(before.worst, measured)
    if new:
        named = and_more([f"{target} in {dtype}" for _, target, dtype in new])
        notes.append(f"no accuracy recorded yet for {named}: kernelfuzz gate --update-accuracy")
    for reason, names in absent(before.worst, measured, targets).items():
        notes.append(f"accuracy not compared for {and_more(names)}: {reason}")
    return lost, notes


def update(path: Path, measured: Table, kernels: Collection[str]) -> str:
    """Write what was measured, and keep what else the file has of these kernels; a line that says so."""
    here = platform.machine()
    before = load_accuracy(path) if path.is_file() else Ratchet(here, {})
    kept = before.worst if before.machine == here else {}
    save_accuracy(path, here, {**{key: value for key, value in kept.items() if key[0] in kernels}, **measured})
    return f"accuracy of {len(measured)} entries written to {path}"


def worse(before: Table, after: Table) -> list[Change]:
    """Entries that lost more accuracy than WORSE allows, within tolerance or not."""
    return [
        Change(key, before[key], now)
        for key, now in sorted(after.items())
        if key in before and (_lost(before[key].ratio, now.ratio) or _lost(before[key].ulp, now.ulp))
    ]


def _lost(before: float, after: float) -> bool:
    return after > max(before, FLOOR) * WORSE and not math.isclose(after, before)


def unknown(before: Table, after: Table) -> list[Key]:
    """Entries that the file does not have yet."""
    return sorted(key for key in after if key not in before)


def absent(before: Table, after: Table, targets: Iterable[str]) -> dict[str, list[str]]:
    """Targets in the file that could not be compared, by the reason: not here at all, or not run."""
    here = set(targets)
    missing = sorted({target for _, target, _ in before} - {target for _, target, _ in after})
    reasons: dict[str, list[str]] = {}
    for target in missing:
        reasons.setdefault("did not run" if target in here else "no such target here", []).append(target)
    return reasons
