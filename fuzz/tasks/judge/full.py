"""Judging at the full size of a task if a whole replay would take too long. A solution runs once with all of the
inputs. Some rows of its outputs are compared with a replay of the reference on those rows alone."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.campaign.search.runner import free_memory
from fuzz.campaign.search.stopping import SessionLimits
from fuzz.core.base.case import STORAGE_LIMIT, Case
from fuzz.core.base.errors import UsageError
from fuzz.core.base.outcome import Status
from fuzz.core.base.text import printable
from fuzz.core.laws.registry import Entry
from fuzz.core.transport.python.halves import is_complex
from fuzz.references.dims import UnreadableError
from fuzz.references.gpu import has_gpu
from fuzz.references.guard import first_difference
from fuzz.references.replay.oracle import Replay, arrays_of, case_of
from fuzz.references.rerun import Replayed, ways_of
from fuzz.references.units import floats_as
from fuzz.report import console
from fuzz.tasks.judge.asked import Asked
from fuzz.tasks.judge.bugs import replay_bug
from fuzz.tasks.judge.own import array_of, beside, drawn_of, shapes_of
from fuzz.tasks.judge.replay import replay_of
from fuzz.tasks.judge.ruling import FullSize, SolutionRuling, worst_of
from fuzz.tasks.readers.kernelbench import batch_of, executed_model, model_text, of_module
from fuzz.tasks.readers.solution import Solutions
from fuzz.tasks.readers.source import TaskError
from fuzz.tasks.readers.statement import Statement
from fuzz.tasks.replay import ReplayResults, run_replay

_FILE = "full_size_"
_BYTES = 32
"""The bytes that each element takes at most, here and in a worker: about eight floats of 32 bits are in memory."""


@dataclass(frozen=True)
class SizeLimits:
    """Limits on the size of a task, and on the part of its outputs that is compared."""

    elements: int = 1 << 28
    """The most elements of all inputs, weights and outputs, which a worker takes about 20 s to receive and return."""
    compared: int = 1 << 20
    """The most elements of the largest tensor, counting only replayed rows. Such a replay takes some seconds."""
    row: int = 1 << 22
    """The most elements of a row. If a row has more than `compared`, the last row alone is replayed, since twenty
    outputs of it are in memory at once."""
    seconds: float = 20.0
    """The most seconds that the solution may take, and the same for the replay."""

    @staticmethod
    def here() -> SizeLimits:
        """Return the limits of this machine: a GPU replays 64 times as much."""
        return SizeLimits(compared=1 << 26, row=1 << 28) if has_gpu() else SizeLimits()


_TIMED = 1 << 20
"""The elements of a call of the reference that is timed on the processor, where solutions may run."""


@dataclass(frozen=True)
class _Task:
    """A task at full size, and the rows of it that are compared."""

    problem: Statement
    """The problem with a few rows only."""
    arrays: Mapping[str, NDArray[Any]]
    """All inputs and weights, with all of their rows."""
    cut: frozenset[str]
    """The names of the inputs that have a row for each row of the batch."""
    count: int
    ahead: bool = False
    """Whether the first rows are compared: a row depends on its index or on earlier rows, as in a triangle."""
    rows: Sequence[int] = ()
    seconds: float = 0.0
    """The estimated seconds of a call of the reference with all rows."""

    def at(self, rows: Sequence[int]) -> Mapping[str, NDArray[Any]]:
        """Return the inputs and weights cut to these rows, with floats as float64."""
        cut = {name: each[list(rows)] if name in self.cut else each for name, each in self.arrays.items()}
        return floats_as(np.float64, cut)


def at_full_size(
    asked: Asked, problem: Statement, solutions: Solutions, rulings: Sequence[SolutionRuling], seed: int,
    limits: SizeLimits | None = None,
) -> tuple[SolutionRuling, ...]:  # fmt: skip
    """Return the rulings with a verdict at the full size of the task for solutions that are not wrong already and whose
    shapes were made smaller or not tried. A solution that is wrong at full size is wrong."""
    left = {
        kernel: solutions[kernel] for kernel, each in zip(solutions, rulings, strict=True)
        if each.verdict in ("right", "undecided") and problem.module is not None and _was_smaller(problem, each)
    }  # fmt: skip
    if not left:
        return tuple(rulings)
    limits = limits or SizeLimits.here()
    try:
        found = _judged(asked, _task(asked.against, seed, limits), left, seed, limits)
    except (UsageError, UnreadableError) as error:
        found = dict.fromkeys(left, _untried(printable(str(error))))
    return tuple(_with_full(each, found.get(kernel)) for kernel, each in zip(solutions, rulings, strict=True))


def _was_smaller(problem: Statement, ruling: SolutionRuling) -> bool:
    own = ruling.own_shapes
    return bool(problem.changed) if own is None else bool(own.changed) or own.verdict == "did not run"


def _with_full(ruling: SolutionRuling, full: FullSize | None) -> SolutionRuling:
    if full is None or full.verdict != "wrong":
        return replace(ruling, full_size=full)
    bugs, reason = (*ruling.bugs, *full.bugs), "it fails at the full size of the task"
    return replace(ruling, full_size=full, verdict="wrong", reason=reason, bugs=bugs)


def _untried(reason: str) -> FullSize:
    return FullSize({}, "did not run", 0, 0, "", reason)


def _task(against: str, seed: int, limits: SizeLimits) -> _Task:
    """Draw the inputs and weights of a seed, and choose the rows to compare. Raises TaskError if the tensors are too
    large, or if the reference cannot be calculated for some rows alone."""
    import torch

    path = Path(against.partition(":")[0])
    text = model_text(path)
    module = executed_model(path, text)
    given_shapes, own_shapes = shapes_of(module)
    _check_sizes([*given_shapes, *own_shapes], limits)
    count = batch_of(text) or next((shape[0] for shape in given_shapes if shape), 0)
    torch.manual_seed(seed)
    try:
        given = [*module.get_inputs()]
    except (Exception, SystemExit) as error:  # whatever get_inputs raises
        raise TaskError(f"get_inputs raises {type(error).__name__}: {error}") from error
    having = [at for at, each in enumerate(given) if hasattr(each, "shape") and tuple(each.shape[:1]) == (count,)]
    if count < 2 or not having:
        raise TaskError("no input has a batch of several rows")
    refusal: Exception | None = None
    cuts = dict.fromkeys((tuple(having), tuple(having[:1])))  # a matrix may be as long as a batch by chance
    for ahead, cut in product((False, True), cuts):
        try:
            return _with_rows(replace(_cut(path, module, given, cut, count, seed), ahead=ahead), seed, limits)
        except TaskError:
            raise
        except (Exception, SystemExit) as error:  # whatever the reference raises
            if refusal is None or isinstance(error, _TogetherError):  # errors of cuts that do not fit tell nothing
                refusal = error if isinstance(error, Exception) else RuntimeError(str(error))
    told = f"{type(refusal).__name__}: {refusal}".splitlines()[0]
    raise TaskError(told.removeprefix(f"{_TogetherError.__name__}: "))


class _TogetherError(Exception):
    """Raised if a row of the reference's output depends on other rows."""


def _cut(path: Path, module: ModuleType, given: Sequence[Any], cut: Sequence[int], count: int, seed: int) -> _Task:
    """Return the task whose inputs at `cut` have rows, with the problem of the first and the last row alone."""
    ends = [each[[0, count - 1]] if at in cut else each for at, each in enumerate(given)]
    small, whole = ModuleType(module.__name__), ModuleType(module.__name__)
    vars(small).update({**vars(module), "get_inputs": lambda: ends})
    vars(whole).update({**vars(module), "get_inputs": lambda: given})
    problem = of_module(path, small)[0]
    assert problem.module is not None
    own = problem.module
    arrays = {name: array_of(each) for name, each in drawn_of(whole, own, seed).items()}
    names = frozenset(own.inputs[at] for at in cut)
    return _Task(replace(problem, fixed={**problem.fixed, **problem.examples[0]}), arrays, names, count)


def _check_sizes(shapes: Sequence[tuple[int, ...]], limits: SizeLimits) -> None:
    largest, total = max(shapes, key=math.prod, default=()), sum(map(math.prod, shapes))
    shape = "x".join(map(str, largest))
    if math.prod(largest) * 4 > STORAGE_LIMIT:
        raise TaskError(f"a tensor is {shape}, and a worker holds at most {STORAGE_LIMIT >> 20} MiB")
    if total > limits.elements:
        raise TaskError(f"its tensors have {total:,} elements, and more than {limits.elements:,} take too long")
    if total * _BYTES > free_memory() // 4:
        raise TaskError(f"its tensors have {total:,} elements, for which too little memory is available")


def _with_rows(task: _Task, seed: int, limits: SizeLimits) -> _Task:
    """Return the task with the rows to compare: the first, the last and random ones; if `ahead`, the first ones. Raises
    TaskError."""
    ends, ways = (0, 1 if task.ahead else task.count - 1), ways_of(task.problem.reference)
    outputs = ways.single(task.at(ends))
    if any(map(is_complex, (*task.arrays.values(), *outputs))):
        raise TaskError("it has complex numbers, which are judged at drawn sizes alone")
    if any(each.shape[:1] != (2,) for each in outputs):
        raise _TogetherError("its rows hang together: an output has no row for each")
    made = [(task.count, *each.shape[1:]) for each in outputs]
    _check_sizes([*(each.shape for each in task.arrays.values()), *made], limits)
    shapes = [*made, *(task.arrays[name].shape for name in task.cut)]
    row = max(1, *(math.prod(shape[1:]) for shape in shapes))
    if row > limits.row:
        raise TaskError(f"one of its rows has {row:,} elements, and more than {limits.row:,} take too long")
    most = min(task.count, max(limits.compared // row, 1))
    middle = random.Random(seed).sample(range(1, task.count - 1), max(most - 2, 0))
    rows = _rows(task, most, middle)
    timed = rows[: max(_TIMED // row, 1)]
    began = time.process_time()
    ways.single(task.at(timed))
    took = (time.process_time() - began) / len(timed)
    seconds = ways.seconds(task.at(ends)) / 2
    few = min(most, int(limits.seconds / seconds))
    if not few:
        raise TaskError(f"a replay of one of its rows takes too long: {seconds:.0f} s")
    _check_apart(task, rows if most > 1 else ends)
    return replace(task, rows=_rows(task, few, middle), seconds=took * task.count)


def _rows(task: _Task, count: int, middle: Sequence[int]) -> list[int]:
    """Return that many rows: the last, the first, then some of `middle`; or only the first ones if `ahead`."""
    if task.ahead:
        return [*range(count)]
    return [*range(min(count - 1, 1)), *sorted(middle[: max(count - 2, 0)]), task.count - 1]


def _check_apart(task: _Task, rows: Sequence[int]) -> None:
    """Raise _TogetherError if the reference returns other values for some of the rows alone or in another order. If
    only the first rows are compared, try those alone."""
    exact, last = ways_of(task.problem.reference).values, len(rows) - 1
    whole = exact(task.at(rows))
    orders = ([last, 0], [*range(last - 1, int(last > 2), -1)]) if last > 1 else ([1], [0])
    for order in ([*range(last)], [0]) if task.ahead else orders:
        parts = exact(task.at([rows[at] for at in order]))
        for part, each in zip(parts, whole, strict=True):
            wanted = each[order] if each.shape[:1] == (len(rows),) else each
            is_alike = part.shape == wanted.shape and part.shape[:1] == (len(order),)
            if not is_alike or first_difference(part.astype(np.float64), wanted.astype(np.float64)) is not None:
                raise _TogetherError("its rows hang together: the reference has other values for them apart")


@dataclass
class _FullReplay(Replay):
    """A replay that judges one case at full size, by the rows that were replayed in advance."""

    case: Case = field(kw_only=True)
    wanted: Sequence[Replayed] = field(kw_only=True)

    def entries(self, *_: object) -> Iterator[list[Entry]]:
        yield [Entry(self.case)]

    def replays(self, case: Case) -> Sequence[Replayed]:
        return self.wanted


def _judged(asked: Asked, task: _Task, solutions: Solutions, seed: int, limits: SizeLimits) -> Mapping[str, FullSize]:
    """Run the solutions, and return each kernel's result at full size. Raises TaskError."""
    some = task.at(task.rows)
    files = {name: (words, beside(each, _FILE)) for name, (words, each) in solutions.items()}
    made = replay_of(asked, replace(task.problem, own=lambda _: some), files)
    if task.seconds > limits.seconds and all(each.name.site != "cuda" for each in made.targets):
        raise TaskError(f"a call takes about {task.seconds:.0f} s")
    meant, drawn = made.meant, next(made.meant.cases(seed))
    outputs = meant.outputs(drawn)
    wanted = meant.replays(arrays_of(case_of(drawn, outputs, made.op, seed, 1)))
    if wanted is None:
        raise TaskError("the reference raises where it is replayed")
    whole = {name: ((task.count, *shape[1:]), dtype) for name, (shape, dtype) in outputs.items()}
    case = case_of(replace(drawn, arrays=task.arrays), whole, made.op, seed, 1)
    limit = min(asked.case_limit or limits.seconds, limits.seconds)
    found = dict[str, list[FullSize]]()
    for each in made.targets:  # one after the other, since each holds all of the tensors in memory
        replay = _FullReplay(meant, made.op, [drawn.recipes], rows=task.rows, case=case, wanted=wanted)
        ran = run_replay(replay, [each], seed, SessionLimits(), made.folder, case_limit=limit, screen=console.silent())
        found.setdefault(each.kernel.name, []).append(_said(ran, task))
    return {
        name: next(each for each in said if each.verdict == worst_of(one.verdict for one in said))
        for name, said in found.items()
    }


def _said(results: ReplayResults, task: _Task) -> FullSize:
    """Return the result of a run. A solution that runs out of memory or time counts as not tried, not as wrong."""
    assert task.problem.module is not None
    assert isinstance(results.replay, _FullReplay)
    shapes = {name: each.shape for name, each in task.arrays.items() if name in task.problem.module.inputs}
    elements = sum(each.layout.size for each in results.replay.case.outputs.values())
    [line] = results.tally.targets.values()
    for bucket in results.book.buckets.values():
        outcome = bucket.judgement.outcome
        lacks_memory = bucket.judgement.raised and "memory" in bucket.judgement.reason.lower()
        if outcome is not None and (lacks_memory or outcome.status in (Status.DIED, Status.HUNG)):
            return _untried(printable(outcome.detail) or outcome.status.value)
        [failure] = results.failures(bucket.kernel)
        bugs = (replay_bug(bucket.kernel, failure, 1, {}, None),)
        return FullSize(shapes, "wrong", failure.found.judged, elements, failure.words, "", bugs)
    if not line.judged:
        return _untried(printable(line.not_run_reason) or "it is not given cases as large")
    if line.gave_up:
        return FullSize(shapes, "undecided", 0, elements, "", "no element of the rows that were compared is decided")
    return FullSize(shapes, "right", results.replay.elements, elements, "", "")
