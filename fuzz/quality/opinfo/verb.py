"""`python3 -m fuzz.quality opinfo`: every operation of torch's own list, OpInfo, which its own tests go through, judged
on torch's own samples: by a formula, or else by a replay."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import typer
from rich.progress import track

from fuzz.cli import options
from fuzz.cli.exits import Exit
from fuzz.core.base.errors import UsageError, error_line
from fuzz.quality.asking import all_asked
from fuzz.references.backward import backward
from fuzz.references.parameters import with_names
from fuzz.references.tracing import intercepted, tensors_in
from fuzz.report import console
from fuzz.report.console import PlainTable, print_tables
from fuzz.report.records import write_record
from fuzz.tasks.bound import ReadTask
from fuzz.tasks.comparison import FORMULA, OPEN, REPLAY, RIGHT, WRONG, JudgedCall, effect, reading_of
from oracles.dtypes import COMPUTED, FORMATS, NARROW
from oracles.formula.contract import INPUT

CPU = "cpu"
_SEED = 1
_MOST_ELEMENTS = 1 << 12
"""The most elements of the tensors of a sample, since larger ones take long and show nothing that small ones do not."""


def entries() -> Mapping[str, Any]:
    """Return the entries by name. Raises UsageError where a package that torch's tests need is missing."""
    try:
        with patch("torch.backends.disable_global_flags"):  # else no flag can be set any more in this process
            from torch.testing._internal.common_methods_invocations import op_db
    except ModuleNotFoundError as error:
        raise UsageError(f"torch's list of operations needs {error.name}: pip install {error.name}") from error

    return {each.formatted_name: each for each in op_db}


@dataclass(frozen=True)
class Sample:
    """A call of an entry's operation, as a function of the tensors among its arguments."""

    entry: Any
    number: int
    reference: Callable[..., Any]
    tensors: Mapping[str, Any]
    other: str
    """All arguments that are no tensors, as text."""
    device: str = CPU
    """Where the operation runs; the tensors are on the processor."""

    @property
    def kind(self) -> str:
        """The shapes and all other arguments as text, without the dtype of floats."""
        shapes = [(each.is_floating_point() or str(each.dtype), *each.shape) for each in self.tensors.values()]
        return f"{shapes} {self.other}"

    def returned(self) -> Any:
        """Return what the operation returns, on the processor."""
        import torch
        from torch.utils._pytree import tree_map_only

        return tree_map_only(torch.Tensor, lambda each: each.to(CPU), self.run())

    def run(self) -> Any:
        """Return what the operation returns for copies of the tensors on the device."""
        return self.reference(**{name: each.to(self.device, copy=True) for name, each in self.tensors.items()})

    def gradient(self, returned: Any) -> Sample | None:
        """Return the gradient of the operation for a random gradient of its output; None if it has no such gradient, or
        several outputs."""
        import torch

        differs = self.entry.supports_autograd and isinstance(returned, torch.Tensor) and has_floats([returned])
        if not differs or not has_floats(self.tensors.values()):
            return None
        gradients = backward(self.reference)
        [name] = {*inspect.signature(gradients).parameters} - {*self.tensors}
        dy = torch.randn(returned.shape, generator=torch.Generator().manual_seed(_SEED)).to(returned.dtype)
        return replace(self, reference=gradients, tensors={**self.tensors, name: dy})


def samples_of(entry: Any, dtype: str, count: int, device: str = CPU) -> Sequence[Sample]:
    """Return some of the entry's own samples in this dtype: the first, the last, and others at equal distances. They
    are the same for each device. Raises what the entry raises."""
    import torch

    torch.manual_seed(_SEED)
    found = [*_small(entry, entry.sample_inputs(CPU, getattr(torch, FORMATS[dtype].spelling)))]
    places = sorted({round(at * (len(found) - 1) / max(count - 1, 1)) for at in range(count)}) if found else []
    return [replace(found[at], device=device) for at in places]


def has_floats(values: Iterable[Any]) -> bool:
    """Whether a tensor of real floats is among these values."""
    return any(each.is_floating_point() for each in tensors_in([*values]))


def _small(entry: Any, inputs: Iterable[Any]) -> Iterator[Sample]:
    import torch
    from torch.utils._pytree import tree_flatten

    for number, each in enumerate(inputs):
        leaves, shape = tree_flatten(([each.input, *each.args], each.kwargs))
        which = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = {f"x{at}": leaves[place].detach().resolve_conj().resolve_neg() for at, place in enumerate(which)}
        sizes = [one.numel() for one in tensors.values()]
        if all(sizes) and sum(sizes) <= _MOST_ELEMENTS:
            others = [None if at in which else leaf for at, leaf in enumerate(leaves)]
            reference = _reference(entry, dict(zip(tensors, which, strict=True)), others, shape)
            yield Sample(entry, number, reference, tensors, f"{others} {shape}")


def _reference(entry: Any, places: Mapping[str, int], others: Sequence[Any], shape: Any) -> Callable[..., Any]:
    """Return an operation as a function of the tensors alone, which take their `places` among its other arguments."""
    from torch.utils._pytree import tree_unflatten

    def called(**given: Any) -> Any:
        leaves = [*others]
        for name, each in given.items():
            leaves[places[name]] = each
        args, kwargs = tree_unflatten(leaves, shape)
        return entry.op(*args, **kwargs)

    return with_names(called, [*places], entry.formatted_name)


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


_SHOWN = 8
"""The number of entries that are named of each reason."""


@dataclass(frozen=True)
class OpinfoOptions:
    """The options of `python3 -m fuzz.quality opinfo`."""

    entry: Annotated[str, typer.Option("--entry", help="Only these entries (a glob).")] = "*"
    dtype: Annotated[tuple[str, ...], typer.Option("--dtype", help=f"{', '.join(COMPUTED)}. Repeatable.")] = ()
    device: Annotated[str, typer.Option("--device", help="Where torch calculates: cpu or cuda.")] = CPU
    samples: Annotated[int, typer.Option("--samples", min=1, help="Samples of each entry and dtype.")] = 2
    markdown: options.Markdown = False
    json: options.Json = None
    jobs: options.Processes = 1


def opinfo(options: OpinfoOptions) -> Exit:
    """Judge torch's results for the samples of its own tests; exit code 1 for a deviation that is not known.

    For example: python3 -m fuzz.quality opinfo --entry 'nn_functional_*' --dtype bf16
    """
    if unknown := [each for each in options.dtype if each not in COMPUTED]:
        raise UsageError(f"--dtype {unknown[0]}: known: {', '.join(COMPUTED)}")
    if options.device not in (CPU, "cuda"):
        raise UsageError(f"--device {options.device}: known: {CPU}, cuda")
    if options.device != CPU and not import_module("torch").cuda.is_available():
        raise UsageError(f"--device {options.device}: torch finds no GPU here")
    names = [name for name in entries() if fnmatchcase(name, options.entry)]
    if not names:
        raise UsageError(f"--entry {options.entry}: no such entry")
    jobs, dtypes = options.jobs or len(os.sched_getaffinity(0)), options.dtype or COMPUTED
    asked = all_answers(names, dtypes, options.samples, jobs, options.device)
    found = [each for _, some in track(asked, "Judging", len(names), console=console.progress()) for each in some]
    print_tables(shares(found), deviations(found), reasons(found), tolerances(found), markdown=options.markdown)
    facts = {"device": options.device, "samples": options.samples}
    write_record(options.json, {**facts, "answers": [asdict(each) for each in found]})
    return Exit.FINDINGS if new_deviations(found) else Exit.OK


def known() -> Mapping[str, str]:
    """Return the deviations that were read by hand, such as "addbmm forward:bf16", with what torch does there that it
    does not say."""
    lines = Path(__file__).with_name("known.txt").read_text("utf-8").splitlines()
    parts = [line.partition(": ") for line in lines if line[:1] != "#"]
    return {f"{name} {place}": why for head, _, why in parts for name, *some in [head.split()] for place in some}


def new_deviations(found: Sequence[EntryAnswer]) -> Sequence[EntryAnswer]:
    """Return the answers about wrong results that nobody has read yet."""
    return [each for each in found if each.result == WRONG and f"{each.entry} {each.place}" not in known()]


def shares(found: Sequence[EntryAnswer]) -> PlainTable:
    """Return the counts of entries with outputs of floats, by way and dtype."""

    rows = list[tuple[str, ...]]()
    for way, dtype in ((way, dtype) for way in (FORWARD, GRADIENT) for dtype in ("", *COMPUTED)):
        own = [each for each in found if each.way == way and each.floats and dtype in ("", each.dtype)]
        read, replayed, right, wrong = (
            {each.entry for each in own if word in (each.by, each.result)} for word in (FORMULA, REPLAY, RIGHT, WRONG)
        )
        every = {each.entry for each in own}
        counts = every, read, replayed - read, every - read - replayed, right - wrong, wrong
        rows.append((way, dtype or "any", *(f"{len(each):,}" for each in counts)))
    return PlainTable(("", "dtype", "entries", "read", "replayed", "neither", "right", "wrong"), rows)


def deviations(found: Sequence[EntryAnswer]) -> PlainTable:
    """Return one row for each entry with wrong results."""
    wrong, reason = defaultdict[str, list[EntryAnswer]](list), known()
    for each in (each for each in found if each.result == WRONG):
        wrong[each.entry].append(each)
    rows = list[tuple[str, ...]]()
    for name, some in wrong.items():
        places = dict.fromkeys(each.place for each in some)
        why = dict.fromkeys(reason.get(f"{name} {place}", "NEW") for place in places)
        rows.append((name, " ".join(places), some[0].by, some[0].said, "; ".join(why)))
    return PlainTable(("deviation", "where", "by", "for example", "reason"), rows)


def reasons(found: Sequence[EntryAnswer]) -> PlainTable:
    """Return the reasons why no formula is read, and why nothing is judged, with their entries."""
    forward = [each for each in found if each.way == FORWARD and (each.floats or not each.dtype)]
    by = {word: {each.entry for each in forward if each.by == word} for word in (FORMULA, REPLAY)}
    why = defaultdict[tuple[str, str], dict[str, None]](dict)
    for each in forward:
        if each.entry not in by[FORMULA]:
            judged = each.entry in by[REPLAY]
            words = each.unread if judged else each.said
            why["replayed" if judged else "not judged", re.sub(_OWN, "", words)[:80]][each.entry] = None
    rows = [(what, word, f"{len(some)}", ", ".join([*some][:_SHOWN])) for (what, word), some in why.items() if word]
    return PlainTable(("", "why", "entries", "such as"), sorted(rows, key=lambda row: (row[0], -int(row[2]))))


_OWN = r"reference \w+ cannot be read: |\(verb\.py line \d+\) ?|\d+"
"""The parts of a reason that differ between entries."""


def tolerances(found: Sequence[EntryAnswer]) -> PlainTable:
    """Return one row for each tolerance of torch's tests, the widest first."""
    rows = {(each.entry, each.dtype, own.test): own for each in found for own in each.overrides}
    ordered = sorted(rows.items(), key=lambda item: -item[1].wider)
    shown = [(*key, f"{own.atol:g}", f"{own.rtol:g}", f"{own.wider:.3g}", f"{own.tight:.0%}") for key, own in ordered]
    return PlainTable(("tolerance of", "dtype", "test", "atol", "rtol", "wider by", "too tight for"), shown)
