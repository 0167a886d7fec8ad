"""`python3 -m fuzz.quality libraries`: what a search says of each shipped library that has a pack."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzz.adapters.target import TargetId
from fuzz.base.errors import UsageError
from fuzz.cli.exits import Exit
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table

_CHECKOUT = Path(__file__).resolve().parents[2]
PACKS = _CHECKOUT / "kernels" / "thirdparty"
TROPHIES = _CHECKOUT / "corpora" / "trophies"
_SEED = 1
_COLUMNS = ("library", "op", "kernels", "targets", "judged runs", "largest error", "failing", "kept of those")


@dataclass(frozen=True)
class LibrariesOptions:
    """The options of `python3 -m fuzz.quality libraries`."""

    packs: Annotated[tuple[str, ...], typer.Argument(help="Packs of kernels/thirdparty. Default: all.")] = ()
    cases: Annotated[int, typer.Option("--cases", min=1, help="Cases for each kernel of a pack.")] = 100
    max_time: Annotated[str, typer.Option("--max-time", help="The time for each pack, such as 20m.")] = ""
    target: Annotated[str, typer.Option("--target", help="Only targets that match this glob.")] = "*"


@dataclass(frozen=True)
class Searched:
    """What a search of a pack said of its kernels of one op."""

    library: str
    """The library and its version."""
    op: str
    kernels: int
    targets: int
    judged: int
    worst: float | None
    """The largest error of a run that passed, of what is allowed; None where none had a number."""
    failing: Sequence[str]
    """The kernels that fail on some target."""
    kept: Mapping[str, Sequence[str]]
    """The names of the deviations that are kept, by the kernel that shows each."""

    @property
    def undecided(self) -> tuple[str, ...]:
        """The kernels that fail while nothing that is kept says why."""
        return tuple(name for name in self.failing if name not in self.kept)

    @property
    def row(self) -> tuple[str, ...]:
        """Its row of the table."""
        names = sorted({name for kernel in self.failing for name in self.kept.get(kernel, ())})
        links = (f"[{name}](../../corpora/trophies/{name}/report.md)" for name in names)
        said = [*links, *(f"**undecided: {name}**" for name in self.undecided)]
        worst = "none" if self.worst is None else f"{self.worst:.0%}"
        counts = (str(self.kernels), str(self.targets), f"{self.judged:,}", worst, str(len(self.failing)))
        return self.library, self.op, *counts, ", ".join(said) or "none"


def libraries(options: LibrariesOptions) -> Exit:
    """Print the table of shipped libraries; exit code 1 where one fails and no kept deviation says why."""
    known = sorted(path.parent.name for path in PACKS.glob("*/pack.py"))
    for name in options.packs:
        if name not in known:
            raise UsageError(f"{name!r} is not one of {', '.join(known)}")
    found = [each for name in options.packs or known for each in searched(name, options)]
    print_table(table(found), markdown=True)
    return Exit.FINDINGS if any(each.undecided for each in found) else Exit.OK


def table(found: Sequence[Searched]) -> PlainTable:
    """Return the table."""
    return PlainTable(_COLUMNS, [each.row for each in found])


def searched(pack: str, options: LibrariesOptions) -> list[Searched]:
    """Search a pack, and return what is said of those of its kernels that run here."""
    from fuzz.adapters.pack import load

    kernels = load(PACKS / pack).kernels
    console.progress().print(f"{pack}: {len(kernels)} kernels")
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        subprocess.run(
            [sys.executable, "-m", "fuzz", "run", "--pack", PACKS / pack,
             "--max-cases", str(options.cases * len(kernels)),
             *(["--max-time", options.max_time] if options.max_time else []), "--target", options.target,
             "--seed", str(_SEED), "--no-shrink", "--json", record, "--output", Path(folder) / "findings"],
            stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return found_in([json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()], pack,
                        {kernel.name: kernel.op for kernel in kernels})  # fmt: skip


def found_in(records: Sequence[Mapping[str, Any]], pack: str, ops: Mapping[str, str]) -> list[Searched]:
    """Return what the records of a search of a pack say of its kernels, which are of these `ops`, op by op."""
    [environment] = [each for each in records if each["kind"] == "environment"]
    [summary] = [each for each in records if each["kind"] == "summary"]
    version, kept = _version(pack, environment["targets"]), _kept(pack)
    of: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for each in summary["targets"]:
        name = TargetId.parse(each["target"]).implementation.partition("-")[2]
        # Of some cases only, as of a dtype that Triton's interpreter gets wrong, there is a reason beside judged runs.
        if each["judged"] or not each["not_run"]:
            of.setdefault(ops[name], {}).setdefault(name, []).append(each)
    return [_of_op(version, op, kernels, kept) for op, kernels in of.items()]


def _of_op(
    version: str, op: str, kernels: Mapping[str, Sequence[Mapping[str, Any]]], kept: Mapping[str, Sequence[str]]
) -> Searched:
    targets = [each for found in kernels.values() for each in found]
    worst = max((error for each in targets for error, _ in each["worst"].values()), default=None)
    failing = [name for name, found in kernels.items() if any(each["findings"] for each in found)]
    judged = sum(each["judged"] for each in targets)
    return Searched(version, op, len(kernels), len(targets), judged, worst, failing, kept)


def _version(pack: str, targets: Sequence[Mapping[str, Any]]) -> str:
    """What was fetched of the library, or the versions that its workers attest, without Python's and NumPy's own."""
    fetched = PACKS / pack / "fetched" / "versions"
    if fetched.is_file():
        return "; ".join(fetched.read_text(encoding="utf-8").splitlines())
    versions: dict[str, str] = {}
    for each in targets:
        versions |= each.get("versions") or {}
    named = {name: number for name, number in versions.items() if name not in ("python", "numpy", "ml_dtypes")}
    own = {name: number for name, number in named.items() if name != "torch"} or named
    return f"{pack}: " + ", ".join(f"{name} {number}" for name, number in own.items())


def _kept(pack: str) -> dict[str, list[str]]:
    """The kept deviations of a pack, by the kernel that shows each, and those that show it too."""
    found: dict[str, list[str]] = {}
    for name, about in sorted(_told(), key=lambda each: each[0]):
        for kernel in (*([about["kernel"]] if about["pack"] == pack else []), *about.get("also", "").split()):
            found.setdefault(kernel, []).append(name)
    return found


def _told() -> Iterator[tuple[str, Mapping[str, str]]]:
    """What is said of each kept deviation. A case of an op that a pack brings is not read here: only that."""
    for path in TROPHIES.glob("*/case.json"):
        yield path.parent.name, json.loads(path.read_text(encoding="utf-8"))["about"]
