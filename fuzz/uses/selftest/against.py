"""Bugs in a kernel of somebody's own, under their tests: which of them these notice, and which this tool finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from fuzz.adapters.pack import Pack
from fuzz.adapters.registry import expand
from fuzz.adapters.target import Target
from fuzz.base.errors import UsageError
from fuzz.base.kernel import Kernel, Mutant
from fuzz.base.stream import Stream
from fuzz.base.verdict import Verdict
from fuzz.report.console import print_lines
from fuzz.uses.search.stopping import Interruption
from fuzz.uses.selftest.hunt import hunt
from fuzz.uses.selftest.mutation import Mutation, mutations
from fuzz.uses.selftest.project import Project
from fuzz.uses.starting import is_broken, not_running, started

_FOUND = tuple(verdict.value for verdict in Verdict if verdict.is_finding)
_PATIENCE, _LEAST_S = 5.0, 10.0
"""With a bug the tests may take so many times as long as without, or so many seconds: then they have noticed it."""
_BROKEN = {".py": "raise SystemExit('broken on purpose')\n"}
"""A source that cannot be loaded, by the end of its file's name, and of all others."""
_NOT_C = "#error broken on purpose\n"


@dataclass(frozen=True)
class Tried:
    """One bug under their tests, and under this tool."""

    file: str
    line: int
    before: str
    after: str
    killed: bool
    """Whether their tests failed."""
    late: bool
    """Whether they ran out of time."""
    found: str
    """What this tool says of it, with the number of cases; '' where it finds nothing."""


@dataclass(frozen=True)
class Bug:
    """A change of the source of some kernels."""

    kernels: tuple[Kernel, ...]
    text: str
    mutation: Mutation


def bugs_of(pack: Pack, kernels: Sequence[Kernel], project: Project, most: int, seed: int) -> list[Bug]:
    """At most so many bugs, spread over all sources of the kernels that lie in the project; which they are follows from
    the seed. Raises UsageError where there is none."""
    sources = dict[Path, list[Kernel]]()
    for kernel in kernels:
        if project.has(kernel.source):
            sources.setdefault(kernel.source, []).append(kernel)
    if not sources:
        raise UsageError(
            f"no source of a kernel of {pack.path} lies in {project.origin}: name your pack with --pack, and the "
            "folder of the sources and tests with --project"
        )
    found = list[Bug]()
    for source, of_source in sources.items():
        text = source.read_text(encoding="utf-8")
        found += [Bug(tuple(of_source), text, each) for each in mutations(source, text)]
    if not found:
        raise UsageError(f"{', '.join(str(source) for source in sources)}: there is nothing in it to make a bug of")
    order = sorted(range(len(found)), key=Stream(seed).child("bugs").words(len(found)).tolist().__getitem__)
    return [found[place] for place in sorted(order[:most])]


def check_runs(bugs: Sequence[Bug], err: Console) -> None:
    """Raise UsageError where a kernel does not run without a bug either: nothing would be said of its tests."""
    usual = list[Target]()
    for kernel in dict.fromkeys(kernel for bug in bugs for kernel in bug.kernels):
        targets = expand([kernel])
        usual.append(next((each for each in targets if each.unavailable() is None), targets[0]))
    with started(usual, 1, err, reasons=False) as pool:
        missing = not_running(pool)
        for target in usual:
            if is_broken(pool, target.id) or len(missing) == len(usual):
                raise UsageError(f"{target.id} does not run, without a bug: {missing[target.id]}")


def checked(project: Project, bugs: Sequence[Bug], limit: float | None) -> float:
    """Return the most seconds that the tests may take with a bug. Raises UsageError where they fail without one, or
    notice nothing where a source cannot even be loaded: then they test something else."""
    clean = project.run(limit or float("inf"))
    if clean.code is None:
        raise UsageError(f"--against {project.command!r}: takes longer than {limit:g} s without any bug")
    if not clean.passed:
        raise UsageError(
            f"--against {project.command!r}: fails without any bug, in a copy of {project.origin}, with exit code"
            f" {clean.code}; it printed: {clean.said}"
        )
    most = limit or max(_LEAST_S, _PATIENCE * clean.seconds)
    for source in dict.fromkeys(bug.mutation.path for bug in bugs):
        with project.changed(source, _BROKEN.get(source.suffix, _NOT_C)):
            if project.run(most).passed:
                raise UsageError(
                    f"--against {project.command!r}: passes though {source} cannot be loaded: it tests something else,"
                    " such as what is installed; it must build and import what lies in its current folder"
                )
    return most


def tried(
    pack: Pack, project: Project, bugs: Sequence[Bug], limit: float, seed: int, max_cases: int, err: Console,
    stop: Interruption,
) -> Iterator[Tried]:  # fmt: skip
    """Yield what becomes of each bug; one with which a kernel cannot be built is none, and left out."""
    for number, bug in enumerate(bugs, 1):
        if stop.wanted:
            return
        line, before, after = bug.mutation.lines(bug.text)
        file = str(bug.mutation.path.resolve().relative_to(project.origin))
        print_lines(err, [f"[{number}/{len(bugs)}] {file}:{line}: {before}  ->  {after}"])
        found = _found(pack, bug, seed, max_cases, err, stop)
        if found is None:
            continue
        with project.changed(bug.mutation.path, bug.mutation.of(bug.text)):
            run = project.run(limit)
        yield Tried(file, line, before, after, not run.passed, run.code is None, found)


def _found(pack: Pack, bug: Bug, seed: int, max_cases: int, err: Console, stop: Interruption) -> str | None:
    """What this tool finds; None where no kernel can be built."""
    built = False
    for kernel in bug.kernels:
        target = next((each for each in expand([kernel]) if each.unavailable() is None), None)
        if target is None:
            continue
        edits = ((bug.text, bug.mutation.of(bug.text)),)
        mutant = Mutant(f"{kernel.name}.bug", kernel.name, edits, ("*",), "", _FOUND, "")
        place = target.id.partition("@")[2]
        result = hunt(pack, replace(mutant, targets=(f"*@{place}",)), seed, max_cases, 1, err, stop)
        for run in result.runs:
            built = built or run.cases > 0
            if run.killed_by is not None and not run.trouble:
                return f"{run.killed_by.verdict.value}, case {run.cases}"
    return "" if built else None


def lines_of(found: Sequence[Tried]) -> Iterator[str]:
    """What is said of all of it: the counts, and each bug that their tests do not notice."""
    if not found:
        yield "no bug could be built"
        return
    killed, ours = sum(each.killed for each in found), sum(bool(each.found) for each in found)
    yield f"your tests notice {killed} of {len(found)} bugs; kernelfuzz finds {ours}"
    survivors = [each for each in found if not each.killed]
    for each in sorted(survivors, key=lambda each: not each.found):
        yield f"survived: {each.file}:{each.line}"
        yield f"  - {each.before}"
        yield f"  + {each.after}"
        yield f"  kernelfuzz: {each.found}" if each.found else "  kernelfuzz finds nothing either: it may be no bug"
