"""How true explanations are: planted bugs are found, shrunk and explained, and statements checked on fresh cases."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import Case
from fuzz.core.base.draw import Frame
from fuzz.core.base.errors import UsageError
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.selection import keyword
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.generate.realise import draw_of
from fuzz.core.generate.search import Search, batches
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import declared, with_twins
from fuzz.explain.evidence.evidence import Evidence, probe_all
from fuzz.explain.evidence.masking import failing_ordinarily
from fuzz.explain.facts import stated
from fuzz.explain.rule.inducer import learn
from fuzz.explain.rule.rule import Traits
from fuzz.explain.shrink.shrink import shrink
from fuzz.explain.stages.conclusion import Conclusion, concluded
from fuzz.explain.stages.explain import evidence_of
from fuzz.explain.trial.trial import Family, KeepsStateError, Trials
from fuzz.report import console
from fuzz.report.console import PlainTable, print_table
from fuzz.report.records import write_record

PLANTED = Path(__file__).parent / "planted"
_SEARCHED = 4_000
"""The number of cases in which a bug is looked for. Chosen."""
_BY_LAW = 500
"""The number of fresh cases on which a law is tried: each of them runs 13 cases."""
_RELEARNT = 1_000
"""The number of fresh cases among which a shorter rule is looked for."""


@dataclass(frozen=True)
class Confirmation:
    """The statement about one bug, checked on fresh cases."""

    bug: str
    stated: str = ""
    about: bool = False
    cases: int = 0
    failing: int = 0
    false: int = 0
    """The number of fresh cases that pass although the rule says that they fail."""
    missed: int = 0
    """The number of fresh cases that fail although the rule does not say so."""
    shorter: str = ""
    """A shorter rule that is as right about the fresh cases; '' where there is none."""
    hidden: int = 0
    """The number of fresh cases that fail only with ordinary values, where the rule says that values may hide it."""
    reach: str = ""
    """The further statement where the rule is not certain: when it fails only, and when always."""
    reach_wrong: int = 0
    """The number of fresh cases about which that statement is wrong."""
    seconds: float = 0.0
    trouble: str = ""
    """Why nothing is stated of the bug."""

    @property
    def right(self) -> bool:
        """Whether the rule is true of exactly the fresh cases that fail, and no shorter one is."""
        return not (self.trouble or self.false or self.missed or self.shorter)

    @property
    def all_stated(self) -> str:
        """The rule, and how far the failure goes."""
        wrong = f" (wrong of {self.reach_wrong})" if self.reach_wrong else ""
        return f"{self.stated}; {self.reach}{wrong}" if self.reach else self.stated

    @property
    def word(self) -> str:
        """The result in a word or a few."""
        if self.trouble or self.right:
            return self.trouble or "right"
        wrong = self.false + self.missed
        return f"{'about' if self.about else 'false'}, wrong of {wrong}" if wrong else "longer than need be"


@dataclass(frozen=True)
class ExplanationsOptions:
    """The options of `python3 -m fuzz.quality explanations`."""

    cases: Annotated[int, typer.Option("--cases", min=1, help="Fresh cases for each bug.")] = 10_000
    only: Annotated[
        str | None, typer.Option("-k", "--only", metavar="EXPR", help="Only bugs whose name matches, e.g. 'a or b'.")
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the search that finds the bugs.")] = 1
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="For shrinking and explaining one bug.")] = 300.0
    mutants: Annotated[bool, typer.Option(help="The mutants of the built-in pack too.")] = True
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=0, help="Bugs at a time. 0: one per processor.")] = 0
    markdown: Annotated[bool, typer.Option("--markdown", help="The table as Markdown.")] = False
    json: options.Json = None


def explanations(options: ExplanationsOptions) -> Exit:
    """Hold what is stated of planted bugs against fresh cases."""
    out, err, found = console.results(), console.progress(), list[Confirmation]()
    names = [kernel.name for kernel in _subjects(options)]
    write_record(options.json, _record(options, found))  # reports an unwritable file at once
    with ProcessPoolExecutor(options.jobs or os.cpu_count(), get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_held_of, name, options) for name in names]):
            found.append(each := future.result())
            err.print(f"{len(found)} of {len(names)}, {each.bug}: {each.word}; {each.all_stated}", soft_wrap=True)
            found.sort(key=lambda held: names.index(held.bug))
            # After each bug: measuring takes hours, and may be interrupted.
            write_record(options.json, _record(options, found))
    print_table(table(found), markdown=options.markdown)
    for line in summary(found):
        out.print(line, soft_wrap=True)
    return Exit.OK


def _record(options: ExplanationsOptions, found: Sequence[Confirmation]) -> dict[str, Any]:
    return {"seed": options.seed, "cases": options.cases, "bugs": [asdict(each) for each in found]}


def _subjects(options: ExplanationsOptions) -> list[Kernel]:
    """Return the planted conditions, then the mutants. Raises UsageError where none matches."""
    kernels = [kernel for kernel in load(PLANTED).kernels if not kernel.name.startswith("right-")]
    if options.mutants:
        kernels += load(built_in()).mutated_kernels()
    matches = keyword(options.only) if options.only else lambda name: True
    chosen = [kernel for kernel in kernels if matches(kernel.name)]
    if not chosen:
        raise UsageError(f"--only {options.only}: no such bug; there are {', '.join(k.name for k in kernels)}")
    return chosen


def _held_of(name: str, options: ExplanationsOptions) -> Confirmation:
    """Return what comes of the bug of that name, in a process of its own; an internal error is only reported."""
    (kernel,) = (kernel for kernel in _subjects(options) if kernel.name == name)
    try:
        return _held(kernel, options)
    except Exception as error:
        return Confirmation(name, trouble=f"internal error: {error!r}")


def _held(kernel: Kernel, options: ExplanationsOptions) -> Confirmation:
    target = next((each for each in expand([kernel]) if each.unavailable() is None), None)
    if target is None:
        return Confirmation(kernel.name, trouble="no target runs here")
    with WorkerPool([target]) as pool:
        searched = islice(_judged(pool, target, options.seed), _SEARCHED)
        failure = next((each for each in searched if each[1].verdict.is_finding), None)
        if failure is None:
            return Confirmation(kernel.name, trouble=f"not found in {_SEARCHED:,} cases")
        began = time.monotonic()
        ends = began + options.seconds
        trials = Trials(pool, target, Family.of(failure[1]), out_of_time=lambda: time.monotonic() > ends)
        try:
            evidence = evidence_of(trials, shrink(trials, failure[0]))
        except KeepsStateError:
            return Confirmation(kernel.name, trouble="needs calls before it")
        conclusion = concluded(evidence, "")
        seconds = time.monotonic() - began
        if conclusion.learned is None:
            return Confirmation(kernel.name, trouble="nothing failed when it was probed")
        # As when it was explained: a stray access may be a wrong value with other values.
        anyhow = replace(trials, out_of_time=lambda: False, family=replace(trials.family, clear=0.0, wide=True))
        fresh = list(islice(_judged(pool, target, options.seed + 1), options.cases))
        if trials.family.law is not None:
            cases, traits, failed = _by_law(anyhow, [case for case, _ in fresh])
        else:
            cases = [case for case, _ in fresh]
            traits = [trials.traits(case) for case in cases]
            failed = [judgement.verdict.is_finding for _, judgement in fresh]
        hidden = _hidden(anyhow, conclusion, cases, traits, failed)
    return compared(kernel.name, conclusion, (traits, failed, hidden), seconds)


def _by_law(trials: Trials, cases: Sequence[Case]) -> tuple[list[Case], list[Traits], list[bool]]:
    """Return the cases that the law applies to, with their traits and whether they fail. Each is also tried with some
    other values, as probes are: with those two orders of a sum may differ."""
    found = Evidence()
    draws = (draw_of(case) for case in cases)
    probe_all(trials, islice(draws, _BY_LAW), found)
    return found.cases, found.traits, found.failed


def _hidden(
    trials: Trials, conclusion: Conclusion, fresh: Sequence[Case], traits: Sequence[Traits], failed: Sequence[bool]
) -> list[bool]:
    """Return for each fresh case whether it passes as it is said to: because its values hide the failure."""
    learned, found = conclusion.learned, [False] * len(fresh)
    if not conclusion.hidden or learned is None:
        return found
    bounds = conclusion.bounds
    asked = [
        place
        for place, (each, fails) in enumerate(zip(traits, failed, strict=True))
        if not fails and (learned.holds(each) or (bounds is not None and not bounds.agree(each, failed=False)))
    ]
    cases = [fresh[place] for place in asked]
    ordinarily = failing_ordinarily(trials, cases, conclusion.shown_in, conclusion.shown_with, conclusion.shown_by)
    for place, fails in zip(asked, ordinarily, strict=True):
        found[place] = bool(fails)
    return found


def _judged(pool: WorkerPool, target: Target, seed: int) -> Iterator[tuple[Case, Judgement]]:
    """Yield the cases of a search that the target is given, with its judgements."""
    for made in batches(Search(target.kernel.op, seed, [target.kernel])):
        entries = with_twins([each.case for each in made], declared([target.kernel]))
        before = None
        for entry, outcomes in zip(entries, pool.submit([each.case for each in entries]).outcomes(), strict=True):
            before = EntryJudge(entry, outcomes, before)
            if target.id in outcomes:
                judgement = before.judge(target)
                case = before.evidence(judgement)
                # No rule speaks of cases without elements, or of cases that a kernel must reject and does.
                valid = target.kernel.capability.accepts(case) or judgement.verdict.is_finding
                if judgement.verdict is not Verdict.NOT_RUN and 0 not in Frame(case).grid and valid:
                    yield case, judgement


def compared(
    bug: str, conclusion: Conclusion, fresh: tuple[list[Traits], list[bool], list[bool]], seconds: float
) -> Confirmation:
    """Return the statement, checked on the traits of fresh cases, given which failed and which are hidden by values."""
    learned, (traits, failed, hidden) = conclusion.learned, fresh
    assert learned is not None
    said = [learned.holds(each) and not hides for each, hides in zip(traits, hidden, strict=True)]
    bounds, besides = conclusion.bounds, list[str]()
    if bounds is not None and bounds.necessary.atoms:
        besides.append(f"only when {bounds.necessary}")
    if bounds is not None and bounds.sufficient is not None:
        besides.append(f"always when {bounds.sufficient}")
    return Confirmation(
        bug,
        "; or ".join(map(str, (learned.rule, *learned.others))) or "always",
        stated(conclusion) is None,
        len(traits),
        sum(failed),
        sum(rule and not bad for rule, bad in zip(said, failed, strict=True)),
        sum(bad and not rule for rule, bad in zip(said, failed, strict=True)),
        _shorter(conclusion, traits, failed) if said == failed else "",
        sum(hidden),
        "; ".join(besides),
        sum(
            bounds is not None and not hides and not bounds.agree(each, failed=bad)
            for each, bad, hides in zip(traits, failed, hidden, strict=True)
        ),
        round(seconds, 1),
    )


def _shorter(conclusion: Conclusion, traits: Sequence[Traits], failed: Sequence[bool]) -> str:
    """Return a shorter rule that is right about all fresh cases, or ''."""
    learned = conclusion.learned
    assert learned is not None
    if not any(failed):
        return ""
    size = sum(rule.size for rule in (learned.rule, *learned.others))
    relearnt = learn(traits[:_RELEARNT], failed[:_RELEARNT]) if any(failed[:_RELEARNT]) else learned
    shorter = sum(rule.size for rule in (relearnt.rule, *relearnt.others)) < size
    return str(relearnt.rule) if shorter and [relearnt.holds(each) for each in traits] == list(failed) else ""


def table(found: Sequence[Confirmation]) -> PlainTable:
    rows = []
    for each in found:
        counted = "" if each.trouble else f"{each.false}+{each.missed} of {each.cases}"
        counted += f", {each.hidden} hidden" if each.hidden else ""
        rows.append((each.bug, each.word, counted, str(each.failing), each.shorter, each.all_stated))
    return PlainTable(("bug", "rule", "false+missed", "failing", "shorter", "stated"), rows)


def summary(found: Sequence[Confirmation]) -> Iterator[str]:
    """Yield how many are right, and what is false although it is stated as certain."""
    known = [each for each in found if not each.trouble]
    certain = [each for each in known if not each.about]
    yield f"{sum(each.right for each in known)} of {len(known)} rules are exactly right and as short as can be"
    false = sum(bool(each.false or each.missed) for each in certain)
    yield f"{false} of {len(certain)} stated without 'about' are false"
    besides = [each for each in known if each.reach]
    wrong = sum(bool(each.reach_wrong) for each in besides)
    yield (
        f"{len(besides)} of the {len(known) - len(certain)} others say when it fails only, or when always; "
        f"{wrong} of these are false"
    )
    yield f"{len(found) - len(known)} bugs were not explained"
