"""Judging a batch: outputs of small cases that certainly pass are decided all at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fuzz.core.adapters.target import Target
from fuzz.core.judge.judge import EntryJudge
from fuzz.core.judge.values import ORACLES, CaseOracle, Query
from oracles import truth
from oracles.problem import ProblemError
from oracles.tiers import joined


def settle(asked: Mapping[CaseOracle, Sequence[Query]]) -> None:
    """Give oracles the answers to those of their queries that certainly pass. This only saves time. Each oracle alone
    would find the same answers, and it finds all others when it is asked."""
    fit: dict[CaseOracle, tuple[truth.Truth, list[joined.Query]]] = {}
    for oracle, queries in asked.items():
        try:
            fit[oracle] = oracle.truth, [(contract, oracle.receive(bits)) for contract, bits in queries]
        except ProblemError:  # judging an outcome of the case will find and report the same error
            continue
    for oracle, found in zip(fit, truth.settle(list(fit.values())), strict=True):
        answers = zip(asked[oracle], found, strict=True)
        oracle.known.update((query, answer) for query, answer in answers if answer is not None)


def asked_of(judges: Iterable[EntryJudge], targets: Mapping[str, Target]) -> Mapping[CaseOracle, Sequence[Query]]:
    """Return the queries that judging these targets will make, by oracle. A second run of the same case has the same
    oracle. Outcomes of targets that are not listed are not judged and need no query."""
    asked: dict[CaseOracle, dict[Query, None]] = {}
    for judge in (each for each in judges if each.entry.case.op not in ORACLES):
        judged = [targets[name] for name in judge.outcomes if name in targets]
        asked.setdefault(judge.oracle, {}).update(dict.fromkeys(judge.queries(judged)))
    return {oracle: tuple(queries) for oracle, queries in asked.items()}
