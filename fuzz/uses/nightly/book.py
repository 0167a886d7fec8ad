"""Findings of a night: their buckets, and their case files, complete before the database names them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzz.adapters.target import Target
from fuzz.base import __version__
from fuzz.base.case import Case
from fuzz.findings.casefile import Found, save
from fuzz.findings.database_deltas import BucketDelta, Move
from fuzz.findings.rules import rule_to_text
from fuzz.findings.tally import whereabouts
from fuzz.judge.judge import Judgement
from fuzz.report.failure import Provenance, failure_text
from fuzz.triage.examination import Explained
from fuzz.triage.family import Family
from fuzz.triage.history import Need, Recognised
from fuzz.triage.shared import shared_cause
from fuzz.triage.sorting import Sighting
from fuzz.triage.trial import traits_for
from fuzz.uses.nightly.kept import Kept, family_of, signature

_TRIES = 3
"""of explaining a bucket, where there is not the time to end it."""
_MOST_CAUSES = 6
"""buckets of one kernel and family: one that is wrong everywhere in a different way each time is not told in pieces."""


@dataclass
class NightBook:
    """Keeps the smallest case of every bucket as a file in `folder`.

    What fails in the same way on one kernel waits in one bucket, until it is examined and sorted by its causes; from
    then on each cause has a bucket, and what the rule of none holds of waits in a further one.
    """

    folder: Path
    targets: Mapping[str, Target]
    origin: Callable[[], Provenance]
    """how to find again what is being found now."""
    kept: dict[str, Kept] = field(default_factory=dict)
    """by signature, of all nights."""
    staged: dict[str, BucketDelta] = field(default_factory=dict)
    """seen since the last batch was handed over."""
    moves: list[Move] = field(default_factory=list)
    """sightings that turned out to be of another bucket since then."""
    replaying: dict[str, str] = field(default_factory=dict)
    """while kept cases are replayed: the signature that each case's digest stands for."""
    gone: set[str] = field(default_factory=set)
    """signatures that are not given again in this session, since moves may still speak of them."""
    obsolete: list[Path] = field(default_factory=list)
    """files to remove once the database no longer names them."""
    trouble: str = ""
    """why some case could not be written; it is tried again with every batch."""

    def add(self, kernel: str, case: Case, judgement: Judgement, everyone: dict[str, str]) -> str:
        """Count a finding; keep its case if it is the first of its bucket or smaller. Returns the signature."""
        family, known = signature(kernel, judgement), self.replaying.get(case.digest, "")
        name = known if family_of(known) == family else self._bucket_of(family, case, judgement)
        kept = self.kept.get(name)
        if kept is None or (kept.alone and size_of(case) < kept.size and kernel not in kept.also):
            kept = self._keep(name, case, judgement, everyone)
        elif kept.case is None and size_of(case) == kept.size:
            kept.case, kept.judgement = case, judgement
        if not kept.examined:
            kept.pile.add(case, judgement)
        self.count(name, judgement.target)
        return name

    def count(self, name: str, target: str) -> None:
        """A finding of a bucket that is kept already."""
        staged = self.staged.setdefault(name, BucketDelta({"size": self.kept[name].size}))
        staged.sightings[target] += 1

    def keep_evidence(self, case: Case) -> Path:
        """Write the case of an internal error; where it went."""
        path = self.folder / f"internal-{case.digest[:12]}.json"
        save(path, case)
        return path

    def write_again(self) -> dict[str, str]:
        """Try again what could not be written; the names of the files that now are, by signature."""
        self.trouble = ""
        names = {}
        for name, kept in self.kept.items():
            if kept.path is None and kept.case is not None and kept.judgement is not None:
                kept.path = self._written(name, kept)
                if kept.path is not None:
                    names[name] = kept.path.name
        return names

    def siblings(self, name: str) -> dict[str, Kept]:
        """The other buckets of its kernel and family."""
        family = family_of(name)
        return {other: kept for other, kept in self.kept.items() if family_of(other) == family and other != name}

    def open(self, name: str, sightings: Sequence[Sighting]) -> str:
        """A further bucket for findings that were counted in the one of that name. Returns its signature."""
        fresh = self._further(family_of(name))
        smallest = min(sightings, key=lambda sighting: size_of(sighting.case))
        unexamined = replace(self.kept[name].forgotten(), need=None, core=None, also=frozenset())
        kept = self._keep(fresh, smallest.case, smallest.judgement, {}, unexamined)
        for sighting in sightings:
            kept.pile.add(sighting.case, sighting.judgement)
        self.move(name, fresh, sightings)
        return fresh

    def move(self, source: str, into: str, sightings: Iterable[Sighting]) -> None:
        """Count these findings in another bucket than they were counted in."""
        self.moves.append(Move(source, into, Counter(sighting.judgement.target for sighting in sightings)))

    def merge(self, source: str, into: str) -> None:
        """The findings of one bucket are those of another."""
        gone = self.kept.pop(source)
        self.gone.add(source)
        if gone.path is not None:
            self.obsolete.append(gone.path)
        self.moves.append(Move(source, into, None))

    def join(self, guest: str, home: str, verdicts: Mapping[str, str]) -> None:
        """The findings of one kernel's bucket have their cause in a source that they share with that of another.

        `verdicts` are those of the case that is kept, by target.
        """
        kept = self.kept[home]
        assert kept.case is not None
        assert kept.judgement is not None
        also = kept.also | self.kept[guest].also | {self.owner(guest)}
        kernels = {target.kernel.name: target.kernel for target in self.targets.values()}
        cause = shared_cause([kernels[name] for name in (self.owner(home), *sorted(also)) if name in kernels])
        lines = [line for line in kept.explanation if not line.startswith("cause: ")]
        self.merge(guest, home)
        others = {target: verdict for target, verdict in verdicts.items() if target != kept.target}
        told = replace(kept, also=also, explanation=(f"cause: {cause}", *lines))
        self._keep(home, kept.case, kept.judgement, others, told)

    def owner(self, name: str) -> str:
        """The kernel whose case the bucket keeps; '' where it is none of this night's."""
        target = self.targets.get(self.kept[name].target)
        return target.kernel.name if target is not None else ""

    def settle(self, name: str, explained: Explained) -> None:
        """Keep the shrunk case with its explanation in place of the smallest that was found."""
        others = {target: verdict for target, verdict in explained.verdicts.items() if target != explained.target}
        before = self.kept[name]
        core = explained.explanation.core if explained.whole else None
        told = replace(
            before.forgotten(), explanation=_lines(explained), original=explained.original.digest,
            need=Need.NOTHING, core=core or before.core, tries=before.tries + (not explained.whole),
            pending=not explained.whole and before.tries + 1 < _TRIES,
        )  # fmt: skip
        self._keep(name, explained.case, explained.judgement, others, told)

    def settle_history(self, name: str, found: Recognised, note: str) -> None:
        """Keep with the case the calls that must come before it, or that none are known to make it fail again."""
        before = self.kept[name]
        assert before.case is not None
        assert before.judgement is not None
        told = replace(before.forgotten(), pending=False, explanation=(note,), need=found.need, history=found.history)
        self._keep(name, before.case, before.judgement, {}, told)

    def _bucket_of(self, family: str, case: Case, judgement: Judgement) -> str:
        """The bucket whose rule holds of the case, else the one that waits to be examined, else one of no rule that
        fails by itself: nothing tells its failures from others. Else a further one."""
        mine = {name: kept for name, kept in self.kept.items() if family_of(name) == family}
        kernel = self.targets[judgement.target].kernel.name
        shared = {
            name: kept
            for name, kept in self.kept.items()
            if kernel in kept.also and family_of(name) == signature(self.owner(name), judgement)
        }
        told = self._told({**mine, **shared}, case, judgement)
        if told is not None:
            return told
        open_ = [name for name, kept in mine.items() if not kept.examined]
        vague = [name for name, kept in mine.items() if kept.examined and kept.core is None and kept.alone]
        if open_ or vague:
            return [*open_, *vague][0]
        return next(iter(mine)) if len(mine) >= _MOST_CAUSES else self._further(family)

    def _told(self, buckets: Mapping[str, Kept], case: Case, judgement: Judgement) -> str | None:
        """The first of the buckets whose rule holds of the case."""
        if all(kept.core is None for kept in buckets.values()):
            return None
        traits = traits_for(case, self.targets[judgement.target], Family.of(judgement).law)
        return next((name for name, kept in buckets.items() if kept.core and kept.core.holds(traits)), None)

    def _further(self, family: str) -> str:
        """A signature that no bucket has."""
        names = [family, *(f"{family}+{number}" for number in range(2, len(self.kept) + len(self.gone) + 3))]
        return next(name for name in names if name not in self.kept and name not in self.gone)

    def _keep(
        self, name: str, case: Case, judgement: Judgement, everyone: Mapping[str, str], told: Kept | None = None
    ) -> Kept:
        """Keep this case in the bucket, with what `told` knows of it: nothing, unless it was examined."""
        before, origin = self.kept.get(name), self.origin()
        if told is not None:  # it was not found by what runs now
            origin = replace(origin, command=told.found_by, seed=told.seed)
        kept = replace(
            told or (before or Kept(0)).forgotten(), size=size_of(case), path=None, case=case, judgement=judgement,
            target=judgement.target, found_by=origin.command, seed=origin.seed,
        )  # fmt: skip
        kept.pile = (before or Kept(0)).pile
        kept.path = self._written(name, kept)
        if before is not None and before.path is not None and kept.path not in (None, before.path):
            self.obsolete.append(before.path)
        self.kept[name] = kept
        columns = {
            "kernel": self.targets[judgement.target].kernel.name,
            "op": case.op,
            "verdict": judgement.verdict.value,
            "law": judgement.broken_law_name,
            "target": judgement.target,
            "case_file": kept.path.name if kept.path else "",
            "digest": case.digest,
            "size": kept.size,
            "where": whereabouts(case),
            "text": self._text(name, kept, everyone, origin),
            "explanation": "\n".join(kept.explanation),
            "triaged": "" if kept.pending else case.digest,
            "found_by": origin.command,
            "need": kept.need.value if kept.need else "",
            "core": rule_to_text(kept.core),
        }
        self.staged.setdefault(name, BucketDelta(columns)).smallest = columns
        return kept

    def _text(self, name: str, kept: Kept, everyone: Mapping[str, str], origin: Provenance) -> str:
        assert kept.case is not None
        assert kept.judgement is not None
        target = self.targets[kept.judgement.target]
        others = {each: verdict for each, verdict in everyone.items() if each != target.id}
        shown = kept.path or self._path(name, kept.case)
        return failure_text(kept.case, kept.judgement, target, others, shown, origin)

    def _written(self, name: str, kept: Kept) -> Path | None:
        assert kept.case is not None
        assert kept.judgement is not None
        path, judgement = self._path(name, kept.case), kept.judgement
        law = judgement.broken_law
        found = Found(
            judgement.target, judgement.verdict.value, kept.seed, __version__, law,
            explanation=kept.explanation, original=kept.original, history=kept.history,
        )  # fmt: skip
        try:
            save(path, kept.case, found)
        except OSError as error:
            self.trouble = f"{path}: cannot be written: {error.strerror}"
            return None
        return path

    def _path(self, name: str, case: Case) -> Path:
        return self.folder / f"{name}-{case.digest[:12]}.json"


def _lines(explained: Explained) -> tuple[str, ...]:
    """A night divides its time by itself: it has no option for it."""
    return tuple(line.removesuffix("; see --explain-time") for line in explained.lines())


def size_of(case: Case) -> int:
    """Elements of all inputs."""
    return sum(tensor.layout.size for tensor in case.inputs.values())
