"""The judgement of torch's own results for samples of an entry: by a formula, or else by a replay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fuzz.core.base.errors import error_line
from fuzz.quality.asking import all_asked
from fuzz.quality.opinfo.entries import CPU, Sample, entries, has_floats, samples_of
from fuzz.references.tracing import intercepted, tensors_in
from fuzz.tasks.bound import ReadTask
from fuzz.tasks.comparison import OPEN, JudgedCall, effect, reading_of
from oracles.dtypes import COMPUTED, FORMATS, NARROW
from oracles.formula.contract import INPUT

FORWARD, GRADIENT = "forward", "gradient"
_LIMIT_S = 120.0
"""The most seconds for one entry."""


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
    """Yield the answers about each entry. Processes of their own find them, since torch may crash; one is killed at the
    limit, and what it found until then counts."""
    entries()  # for the processes that are forked
    answer = partial(_answers_of, dtypes=dtypes, samples=samples, device=device)
    for each in all_asked(names, answer, jobs, _LIMIT_S, spawns=device != CPU):  # a forked process cannot use CUDA
        ended = [EntryAnswer(each.name, FORWARD, "", said=each.ended)] if each.ended else []
        yield each.name, [*each.found, *ended]


def _answers_of(name: str, dtypes: Sequence[str], samples: int, device: str) -> Iterator[EntryAnswer]:
    import torch

    yield from answers(entries()[name], dtypes, samples, device)
    if device != CPU and torch.cuda.is_available():
        torch.cuda.synchronize()  # after an error on the GPU, no other entry is judged in this process


def answers(entry: Any, dtypes: Sequence[str] = COMPUTED, samples: int = 2, device: str = CPU) -> Iterator[EntryAnswer]:
    """Yield the answers about an entry: forward for some samples, and the gradient for the first that has one."""
    import torch

    if device != CPU:  # what these allow is documented not to be as exact as the dtype
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
        read[key] = reading_of(sample.reference, sample.tensors)
    operations = _operations(sample)
    # Attention multiplies probabilities that it rounds to 16 bits: no other product of matrices is as fast.
    is_attention = any("attention" in each._schema.name for each in operations)
    several = answer.dtype in NARROW and (len(operations) > 1 or is_attention)
    found = JudgedCall.of(
        sample.reference, sample.tensors, returned, operations, answer.dtype, steps_round=several, read=read[key]
    )
    task = found.task
    is_one = answer.way == FORWARD and task is not None and len(task.derived.op.outputs) == 1
    is_wide = task is None or task.contract.compute == INPUT  # for other reasons than the operation
    overrides = tuple(_overrides(answer, task, sample)) if task is not None and is_one and not is_wide else ()
    return replace(answer, by=found.by, result=found.result, said=found.said, unread=found.unread, overrides=overrides)


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
    for test, (atol, rtol) in said.items():
        wider, tight = effect(task, atol, rtol)
        if not math.isnan(wider):
            yield Override(test, atol, rtol, wider, tight)


def _operations(sample: Sample) -> Sequence[Any]:
    """Return the operations of torch of which a sample's call consists, without views."""
    found = list[Any]()

    def noted(function: Any, args: Any, kwargs: Any) -> Any:
        found.extend([] if function.is_view else [function])
        return function(*args, **kwargs)

    with intercepted(noted):
        sample.run()
    return found[len(sample.tensors) :]  # after those that copy the tensors
