"""Batches compared with the screens of one problem after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from oracles import Numerics
from oracles.batch import Answer, Asked, Query, certain
from oracles.doubledouble import F64
from oracles.enclosure import Worst
from oracles.problem import Problem
from oracles.screen import Received
from oracles.tests.common.adversary import RECIPES, probes
from oracles.tests.common.problems import forward
from oracles.tests.common.screens import EVERY
from oracles.truth import Truth

Asking = tuple[Problem, list[Query]]
"""A problem, and what is asked about it."""


def queries(problem: Problem, contracts: list[Numerics], rng: np.random.Generator) -> Iterator[Query]:
    """Outputs on the ends of conformance sets and next to them, under these contracts and under others."""
    truth = Truth(problem)
    for numerics in contracts:
        enclosures = truth.enclosures(numerics, problem.structured)
        names, each = list(enclosures), [list(probes(enclosure, rng)) for enclosure in enclosures.values()]
        for _ in range(6):
            # An output that is nearly right in most elements, beside others that are so too.
            outputs = {name: _mixed(some[: len(some) - 3], rng) for name, some in zip(names, each, strict=True)}
            received = Received(outputs)
            yield numerics, received
            yield contracts[int(rng.integers(len(contracts)))], received
        for place in range(len(each[0])):
            yield numerics, Received({name: some[place] for name, some in zip(names, each, strict=True)})


def _mixed(some: list[F64], rng: np.random.Generator) -> F64:
    first, second = (some[int(rng.integers(len(some)))] for _ in range(2))
    return np.where(rng.uniform(size=first.shape) < 0.9, first, second)


def one_by_one(problem: Problem, asked: list[Query]) -> list[Answer]:
    """What the screens of each query's outputs say, where each says something."""
    found: list[Answer] = []
    truth = Truth(problem, dict(asked))
    for numerics, received in asked:
        worst = [truth._screened(name, numerics, received) for name in problem.outputs]
        sure: list[Worst] = [each for each in worst if each is not None]
        found.append(sure if len(sure) == len(worst) else None)
    return found


def batch(op: str, dtype: str, count: int, limit: int, seed: int) -> list[Asking]:
    """Problems of all recipes, with queries about a few contracts each."""
    rng = np.random.default_rng(seed)
    found = []
    for place, recipe in enumerate(RECIPES):
        for number, problem in enumerate(forward(op, recipe, dtype, count, limit)):
            first = int(rng.integers(len(EVERY)))
            contracts = [EVERY[(first + 7 * each) % len(EVERY)] for each in range(3 if (place + number) % 2 else 1)]
            found.append((problem, list(queries(problem, contracts, rng))))
    return found


def answers(problems: Sequence[Asking]) -> list[list[Answer]]:
    """What a batch of all of them says."""
    screened = [(Truth(problem).op.screened, problem.structured, asked) for problem, asked in problems]
    return certain([Asked(op, structured, asked) for op, structured, asked in screened if op is not None])
