"""The judgement of torch's own results for samples of an entry: by a formula, or else by a replay."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

import numpy as np

from fuzz.core.base.errors import error_line
from fuzz.quality.opinfo.entries import CPU, Sample, arrays_of, entries, has_floats, samples_of
from fuzz.references.replay.oracle import compared
from fuzz.references.rerun import replayed, ways_of
from fuzz.references.tracing import intercepted, tensors_in
from fuzz.tasks.bound import ReadTask
from fuzz.tasks.check.results import CheckError
from oracles.dtypes import COMPUTED, DOUBLE, FORMATS, NARROW
from oracles.formula.contract import INPUT

FORWARD, GRADIENT = "forward", "gradient"
FORMULA, REPLAY = "formula", "replay"
RIGHT, WRONG, OPEN = "right", "wrong", "not judged"
_LIMIT_S = 120.0
"""The most seconds for one entry."""
_EACH_STEP_ROUNDS = {"compute": INPUT, "wider": True}
"""The contract of several operations of torch one after the other, which return results in the dtype of the inputs."""


@dataclass(frozen=True)
class Override:
    """A tolerance of torch's tests for an entry, beside the errors that right kernels may have in a sample."""

    test: str
    atol: float
    rtol: float
    wider: float
    """The median, over elements, of the tolerance by the largest error of a right kernel."""
    tight: float
    """The share of elements for which a right kernel may be off by more than the tolerance."""


@dataclass(frozen=True)
class EntryAnswer:
    """What was found out about one call of an entry."""

    entry: str
    way: str
    """`FORWARD` or `GRADIENT`."""
    dtype: str
    sample: int = 0
    floats: bool = False
    """Whether some output is of floats."""
    by: str = ""
    """What judged it: `FORMULA`, `REPLAY` or ""."""
    result: str = OPEN
    said: str = ""
    """What is wrong, or why nothing is judged."""
    unread: str = ""
    """Why no formula is read."""
    overrides: tuple[Override, ...] = ()
    device: str = CPU

    @property
    def place(self) -> str:
        """The way, the dtype, and a device that is not the processor, such as "forward:bf16"."""
        return ":".join([self.way, self.dtype, *([] if self.device == CPU else [self.device])])


def all_answers(
    names: Sequence[str], dtypes: Sequence[str], samples: int, jobs: int, device: str = CPU
) -> Iterator[tuple[str, Sequence[EntryAnswer]]]:
    """Yield the answers about each entry. A process of its own finds them, since torch may crash; it is killed at the
    limit, and what it found until then counts."""
    import torch

    known, context = entries(), get_context("fork")
    torch.set_num_threads(1)  # a forked process has no others
    waiting, running = [*reversed(names)], dict[Any, tuple[str, Any, float, list[EntryAnswer]]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            ours, theirs = context.Pipe(duplex=False)
            name = waiting.pop()
            process = context.Process(target=_send, args=(theirs, known[name], dtypes, samples, device), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of threads at a fork, and of torch in the process
                process.start()
            theirs.close()
            running[ours] = name, process, monotonic() + _LIMIT_S, []
        for ours in list[Any](wait([*running], 0.2)):
            name, process, until, found = running[ours]
            try:
                found.append(ours.recv())
            except EOFError:
                process.join()
                del running[ours]
                if process.exitcode:
                    why = "takes too long" if monotonic() > until else f"its process ended with {process.exitcode}"
                    found.append(EntryAnswer(name, FORWARD, "", said=why))
                yield name, found
        for _, process, until, _ in running.values():
            if monotonic() > until:
                process.kill()


def _send(to: Connection, entry: Any, dtypes: Sequence[str], samples: int, device: str) -> None:
    for each in answers(entry, dtypes, samples, device):
        to.send(each)


def answers(entry: Any, dtypes: Sequence[str] = COMPUTED, samples: int = 2, device: str = CPU) -> Iterator[EntryAnswer]:
    """Yield the answers about an entry: forward for some samples, and the gradient for the first that has one."""
    import torch

    # These are documented not to be as exact as their dtype.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    read = dict[tuple[str, str], ReadTask | str]()
    for dtype in dtypes:
        if getattr(torch, FORMATS[dtype].spelling) not in entry.supported_dtypes(device):
            continue
        answer, has_gradient = EntryAnswer(entry.formatted_name, FORWARD, dtype, device=device), False
        try:
            some = samples_of(entry, dtype, samples, device)
        except Exception as error:  # the entry's own, as all below
            yield replace(answer, said=f"has no samples: {error_line(error)}")
            continue
        if not some:
            yield replace(answer, said="has no small samples")
        for sample in some:
            answer = replace(answer, way=FORWARD, sample=sample.number)
            try:
                returned = sample.returned()
                yield _judged(answer, sample, returned, read)
                gradient = None if has_gradient else sample.gradient(returned)
                if gradient is not None:
                    has_gradient, answer = True, replace(answer, way=GRADIENT)
                    yield _judged(answer, gradient, gradient.returned(), read)
            except Exception as error:
                yield replace(answer, said=f"raises {error_line(error)}")


def _judged(
    answer: EntryAnswer, sample: Sample, returned: Any, read: dict[tuple[str, str], ReadTask | str]
) -> EntryAnswer:
    import torch

    answer = replace(answer, floats=has_floats([returned]))
    tensors = [*tensors_in([returned, *sample.tensors.values()])]
    if not sample.tensors:
        return replace(answer, said="takes no tensor")
    if any(each.is_complex() for each in tensors):
        return replace(answer, said="is of complex numbers")
    if any(each.layout is not torch.strided for each in tensors):
        return replace(answer, said="is of sparse tensors")
    key = sample.kind, answer.way
    if key not in read:
        try:
            read[key] = ReadTask.of(sample.reference, sample.tensors)
        except (CheckError, RecursionError) as error:
            read[key] = str(error)
    task, operations = read[key], _operations(sample)
    # Attention multiplies probabilities that it rounds to 16 bits: no other product of matrices is as fast.
    is_attention = any("attention" in each._schema.name for each in operations)
    several = answer.dtype in NARROW and (len(operations) > 1 or is_attention)
    if isinstance(task, ReadTask):
        try:
            own = ReadTask.of_read(task.derived, sample.tensors, _EACH_STEP_ROUNDS if several else None)
            return _by_formula(answer, own, sample, returned)
        except CheckError as error:
            task = str(error)
    answer = replace(answer, unread=task)
    if any(torch.Tag.nondeterministic_seeded in each.tags for each in operations):
        return replace(answer, said="draws at random")
    if operations and all("empty" in each._schema.name for each in operations):
        return replace(answer, said="returns memory as it was")
    if answer.dtype == DOUBLE.name:
        return replace(answer, said="a replay in float64 would compare it with itself")
    if several:
        return replace(answer, said="rounds between several operations in 16 bits, and is not read")
    return _by_replay(answer, sample, returned)


def _by_formula(answer: EntryAnswer, task: ReadTask, sample: Sample, returned: Any) -> EntryAnswer:
    found = task.judged(returned)
    wrong = "; ".join(each.said for each in found if each.result in ("numeric", "nonfinite"))
    late = "; ".join(each.said for each in found if each.result == "gave_up")
    result = WRONG if wrong else OPEN if late else RIGHT
    is_one = answer.way == FORWARD and len(found) == 1 and task.contract.compute != INPUT  # else wide for other reasons
    overrides = tuple(_overrides(answer, task, sample)) if is_one else ()
    return replace(answer, by=FORMULA, result=result, said=wrong or late, overrides=overrides)


def _overrides(answer: EntryAnswer, task: ReadTask, sample: Sample) -> Iterator[Override]:
    """Yield the tolerances of torch's tests for the dtype of an answer, on its device."""
    import torch

    dtype, said = getattr(torch, FORMATS[answer.dtype].spelling), dict[str, tuple[float, float]]()
    for each in sample.entry.decorators:
        if getattr(each, "device_type", "") in (None, sample.device):
            for given in [one.d[dtype] for one in each.decorators if dtype in getattr(one, "d", ())]:
                pair = (given, 0.0) if isinstance(given, float) else (float(given.atol), float(given.rtol))
                said[f"{each.cls_name}.{each.test_name}"] = pair
    if not said:
        return
    bound = task.bound()
    exact, low, high = arrays_of((bound.exact, bound.low, bound.high))
    with np.errstate(all="ignore"):
        for test, (atol, rtol) in said.items():
            by = (atol + rtol * np.abs(exact)) / np.maximum(high - exact, exact - low)
            if (by := by[np.isfinite(by)]).size:
                yield Override(test, atol, rtol, float(np.median(by)), float((by < 1.0).mean()))


def _by_replay(answer: EntryAnswer, sample: Sample, returned: Any) -> EntryAnswer:
    try:
        replays = replayed(ways_of(sample.reference), sample.arrays)
    except Exception as error:  # torch's own, about float64
        return replace(answer, said=f"is not replayed: {error_line(error)}")
    found = compared(replays, arrays_of(tensors_in(returned)), answer.dtype)
    if found.wrong:
        return replace(answer, by=REPLAY, result=WRONG, said=" ".join(found.wrong.split()))
    return replace(answer, by=REPLAY, result=RIGHT) if found.judged else replace(answer, said="nothing is decided")


def _operations(sample: Sample) -> Sequence[Any]:
    """Return the operations of torch of which a sample's call consists, without views."""
    found = list[Any]()

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        found.extend([] if function.is_view else [function])
        return function(*args, **kwargs)

    with intercepted(noted):
        sample.run()
    return found[len(sample.tensors) :]  # after those that copy the tensors
