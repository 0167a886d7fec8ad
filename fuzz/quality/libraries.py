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
_COLUMNS = ("library", "kernel", "op", "targets", "judged runs", "largest error", "fails", "kept deviations")


@dataclass(frozen=True)
class LibrariesOptions:
    """The options of `python3 -m fuzz.quality libraries`."""

    packs: Annotated[tuple[str, ...], typer.Argument(help="Packs of kernels/thirdparty. Default: all.")] = ()
    cases: Annotated[int, typer.Option("--cases", min=1, help="Cases for each kernel of a pack.")] = 100


@dataclass(frozen=True)
class Searched:
    """What a search of a pack said of one kernel."""

    library: str
    """The library and its version."""
    name: str
    op: str
    targets: int
    judged: int
    worst: float | None
    """The largest error of a run that passed, of what is allowed; None where none had a number."""
    fails: int
    """On how many targets."""
    kept: Sequence[str]
    """The names of the deviations of it that are kept."""

    @property
    def undecided(self) -> bool:
        """Whether it fails and nothing that is kept says why."""
        return self.fails > 0 and not self.kept

    @property
    def row(self) -> tuple[str, ...]:
        """Its row of the table."""
        links = (f"[{name}](../../corpora/trophies/{name}/report.md)" for name in self.kept)
        fails = f"on {self.fails}" if self.fails else "no"
        kept = ", ".join(links) or ("**undecided**" if self.undecided else "none")
        worst = "none" if self.worst is None else f"{self.worst:.0%}"
        return self.library, self.name, self.op, str(self.targets), f"{self.judged:,}", worst, fails, kept


def libraries(options: LibrariesOptions) -> Exit:
    """Print the table of shipped libraries; exit code 1 where one fails and no kept deviation says why."""
    known = sorted(path.parent.name for path in PACKS.glob("*/pack.py"))
    for name in options.packs:
        if name not in known:
            raise UsageError(f"{name!r} is not one of {', '.join(known)}")
    found = [each for name in options.packs or known for each in searched(name, options.cases)]
    print_table(table(found), markdown=True)
    return Exit.FINDINGS if any(each.undecided for each in found) else Exit.OK


def table(found: Sequence[Searched]) -> PlainTable:
    """Return the table."""
    return PlainTable(_COLUMNS, [each.row for each in found])


def searched(pack: str, cases: int) -> list[Searched]:
    """Search a pack, and return what is said of each kernel that runs here."""
    from fuzz.adapters.pack import load

    kernels = load(PACKS / pack).kernels
    console.progress().print(f"{pack}: {len(kernels)} kernels")
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.json"
        subprocess.run(
            [sys.executable, "-m", "fuzz", "run", "--pack", PACKS / pack, "--max-cases", str(cases * len(kernels)),
             "--seed", str(_SEED), "--no-shrink", "--json", record, "--output", Path(folder) / "findings"],
            stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return found_in([json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()], pack,
                        {kernel.name: kernel.op for kernel in kernels})  # fmt: skip


def found_in(records: Sequence[Mapping[str, Any]], pack: str, ops: Mapping[str, str]) -> list[Searched]:
    """Return what the records of a search of a pack say of each of its kernels, which are of these `ops`."""
    [environment] = [each for each in records if each["kind"] == "environment"]
    [summary] = [each for each in records if each["kind"] == "summary"]
    version, kept = _version(pack, environment["targets"]), _kept(pack)
    of: dict[str, list[Mapping[str, Any]]] = {}
    for each in summary["targets"]:
        if not each["not_run"]:
            of.setdefault(TargetId.parse(each["target"]).implementation.partition("-")[2], []).append(each)
    return [
        Searched(
            version, name, ops[name], len(targets), sum(each["judged"] for each in targets),
            max((error for each in targets for error, _ in each["worst"].values()), default=None),
            sum(each["findings"] > 0 for each in targets), kept.get(name, []),
        )
        for name, targets in of.items()
    ]  # fmt: skip


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
    """The kept deviations of a pack, by the kernel that shows each."""
    found: dict[str, list[str]] = {}
    for name, about in sorted(_told()):
        if about["pack"] == pack:
            found.setdefault(about["kernel"], []).append(name)
    return found


def _told() -> Iterator[tuple[str, Mapping[str, str]]]:
    """What is said of each kept deviation. A case of an op that a pack brings is not read here: only that."""
    for path in TROPHIES.glob("*/case.json"):
        yield path.parent.name, json.loads(path.read_text(encoding="utf-8"))["about"]
