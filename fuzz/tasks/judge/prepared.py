"""Solutions as kernels of a pack, and what they take: what one refuses by itself is told, and held against nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from fuzz.campaign.starting import select_targets, writable
from fuzz.contracts.accepts import Accepts, accepts
from fuzz.core.adapters.pack import load
from fuzz.core.adapters.target import Target
from fuzz.core.base.kernel import Kernel
from fuzz.core.execute.pool import Pool
from fuzz.explain.diagnosis import new_workers
from fuzz.references.derive import ANY, Derived
from fuzz.tasks.check.reference import contract_of, with_names
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.problem import Problem
from fuzz.tasks.judge.solution import Solutions
from fuzz.tasks.judge.written import derived, write_pack
from oracles.formula.contract import Contract


@dataclass(frozen=True)
class Prepared:
    """What is searched."""

    found: Derived
    folder: Path
    kernels: Sequence[Kernel]
    targets: tuple[Target, ...]
    accepting: Mapping[str, Accepts]
    """What solutions do with what they do not declare, by their targets."""
    untried: Mapping[str, str]
    """Why kernels are not judged that refuse every case, where its extents are none of the problem's own."""
    refuses: Mapping[str, str]
    """What of the inputs that come with a problem a kernel refuses."""


def prepared(asked: Asked, problem: Problem, found: Derived, solutions: Solutions) -> Prepared:
    """Write the pack, and try what each solution takes. Where one refuses tensors of some numbers of dimensions, all
    are given one number that every one of them takes."""
    folder, targets = _written(asked, problem, found, solutions)
    accepting = _accepting(targets, found, asked)
    rank = _common_rank([*accepting.values()])
    if rank is not None:
        problem = replace(problem, shapes=with_names(found, rank - len(found.op.inner)))
        found = derived(problem, asked.values, any_values=asked.any_values)
        folder, targets = _written(asked, problem, found, solutions)
    narrowed = dict[str, Kernel]()
    for target in targets:
        narrowed.setdefault(target.kernel.name, _narrowed(target.kernel, accepting.get(target.id)))
    kernels = [*narrowed.values()]
    by_kernel = {target.kernel.name: each for target in targets if (each := accepting.get(target.id)) is not None}
    untried = {
        name: f"it refuses the small numbers that stand for those of the problem: {' and '.join(each.refused)}"
        for name, each in by_kernel.items() if each.usual == "refuses" and problem.module is not None
    }  # fmt: skip
    refuses = (
        {}
        if problem.module is not None
        else {name: said for name, each in by_kernel.items() if (said := _refused(each, problem))}
    )
    return Prepared(found, folder, kernels, _chosen(asked, kernels), accepting, untried, refuses)


def _written(asked: Asked, problem: Problem, found: Derived, solutions: Solutions) -> tuple[Path, tuple[Target, ...]]:
    folder = writable(asked.output) / problem.name
    own = {name: each for name, (_, each) in solutions.items()}
    write_pack(folder, problem, own, found, values=asked.values, untrusted=asked.untrusted)
    kernels = [each for each in load(folder).kernels if each.name in solutions]  # earlier ones are there, too
    return folder, _chosen(asked, kernels)


def _chosen(asked: Asked, kernels: Sequence[Kernel]) -> tuple[Target, ...]:
    """The targets that are asked for. A device that is not here is no news, unless there is no other."""
    targets = select_targets(kernels, patterns=asked.targets)
    return tuple(each for each in targets if asked.targets or each.unavailable() is None) or targets


def _accepting(targets: Sequence[Target], found: Derived, asked: Asked) -> Mapping[str, Accepts]:
    def workers(target: Target) -> AbstractContextManager[Pool]:
        return new_workers([target], asked.case_limit)

    def contract(dtype: str) -> Contract:
        return contract_of(found, "torch", (dtype,), strict=asked.values == ANY)

    there = [target for target in targets if target.unavailable() is None]
    each = {target.id: accepts(workers, target, contract, multiples=True) for target in there}
    return {name: beside for name, beside in each.items() if beside is not None}


def _common_rank(some: Sequence[Accepts]) -> int | None:
    """The number of dimensions that all take, the nearest to two; None where nobody refuses any, or none is taken."""
    if not any("refuses" in each.ranks.values() for each in some):
        return None
    taken = [{*each.taken_ranks} for each in some if each.ranks]
    return min({*taken[0]}.intersection(*taken), key=lambda rank: abs(rank - 2), default=None)


def _narrowed(kernel: Kernel, beside: Accepts | None) -> Kernel:
    """The kernel, given only what it does not refuse."""
    if beside is None or not (beside.multiple_of or beside.max):
        return kernel
    return replace(
        kernel, capabilities=replace(kernel.capabilities, multiple_of=beside.multiple_of, max=beside.max)
    )  # fmt: skip


def _refused(beside: Accepts, problem: Problem) -> str:
    for sizes in problem.examples:
        for dim, size in sizes.items():
            if size % beside.multiple_of.get(dim, 1) or size > beside.max.get(dim, size):
                return f"it refuses {dim} = {size}, which comes with the problem: {' and '.join(beside.refused)}"
    return ""
