"""Calls of the kernel, each on fresh memory: launched, collected, and made again where the first leaves a doubt."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fuzz.base.case import THREADS, Case, Output
from fuzz.base.outcome import Change
from fuzz.transport import records
from fuzz.transport.python.kernel import Raised
from fuzz.transport.python.slab import OUTPUT_POISONS, Slab, poisoned, slabs, too_large


@dataclass(frozen=True)
class Answer:
    """What a call did, ready to be sent; `unwritten` has, for each output, which elements still hold the poison."""

    status: int
    outputs: Mapping[str, bytes]
    damages: tuple[bytes, ...]
    unwritten: Mapping[str, Any]
    words: str = ""

    @property
    def clean(self) -> bool:
        return self.status == records.RAN and not self.damages

    @property
    def doubtful(self) -> bool:
        """Poison that survived may be a result that looks like it. Another run with another poison decides."""
        return self.clean and any(held.any() for held in self.unwritten.values())


class Callee(Protocol):
    """What is called: a kernel in its worker, or a function of a test suite."""

    @property
    def returns(self) -> Collection[str]:
        """The outputs, some of which a case may not have, that it has no parameters for."""
        ...

    def takes(self, name: str) -> bool: ...

    def call(self, tensors: Mapping[str, Any], params: Mapping[str, float | int]) -> Any: ...


class Attempt:
    """A case in memory. On a GPU the call is only queued when `launch` returns."""

    def __init__(self, case: Case, kernel: Callee, torch: Any, device: str, margin: int, again: bool) -> None:
        self._case = case
        self._kernel = kernel
        self._torch = torch
        self._slabs = slabs(case, margin, OUTPUT_POISONS[again])
        for slab in self._own():
            slab.place(torch, device)

    def launch(self) -> None:
        """Call the kernel."""
        dtypes = torch_dtypes(self._torch)
        self._given = tensors = {
            name: self._slabs[name].view(self._torch, dtypes[tensor.dtype])
            for name, tensor in self._case.tensors.items()
            if name in self._case.inputs or self._kernel.takes(name)
        }
        params = {name: value for name, value in self._case.params.items() if name != THREADS}
        with _with_threads(self._torch, self._case.params.get(THREADS)):
            self._returned = self._kernel.call(tensors, params)

    def collect(self) -> Answer:
        """What the kernel left behind. On a GPU only after everything queued is done."""
        memory = {slab.index: slab.after() for slab in self._own()}
        rejected = isinstance(self._returned, Raised) and self._returned.rejected
        damages = tuple(record for slab in self._own() for record in _damages(slab, memory[slab.index], rejected))
        if isinstance(self._returned, Raised):
            status = records.REJECTED if self._returned.rejected else records.RAISED
            return Answer(status, {}, damages, {}, self._returned.words)
        if (words := self._returned_twice()) is not None:
            return Answer(records.RAISED, {}, damages, {}, words)
        outputs: dict[str, bytes] = {}
        unwritten: dict[str, Any] = {}
        returned = [name for name in self._case.outputs if not self._kernel.takes(name)]
        for name, output in self._case.outputs.items():
            if name in returned:
                found = self._returned_tensor(name, returned)
                wrong = self._misfit(name, output, found)
                if wrong is not None:
                    return Answer(wrong[0], {}, damages, {}, wrong[1])
                outputs[name] = bits_of(self._torch, found)
                continue
            slab = self._slabs[name]
            elements = slab.elements(memory[slab.index])
            outputs[name] = elements.tobytes()
            if output.alias is None:
                unwritten[name] = elements.reshape(-1) == poisoned(slab.poison, slab.itemsize)
        return Answer(records.RAN, outputs, damages, unwritten)

    def _own(self) -> Iterator[Slab]:
        """Every slab once."""
        return iter({slab.index: slab for slab in self._slabs.values()}.values())

    def _returned_twice(self) -> str | None:
        """What is wrong where it returned a tensor for an output that it has a parameter for. To return the output
        itself is usual; of another tensor nobody can tell which of the two is the result."""
        written = [name for name in self._case.outputs if self._kernel.takes(name)]
        if isinstance(self._returned, dict):
            beside = [(name, [self._returned[name]]) for name in written if name in self._returned]
        elif written and not self._kernel.returns:
            several = isinstance(self._returned, (tuple, list))
            beside = [(written[0], list(self._returned) if several else [self._returned])]
        else:
            beside = []
        for name, returned in beside:
            tensors = [each for each in returned if isinstance(each, self._torch.Tensor)]
            if tensors and not any(_same_place(each, self._given[other]) for each in tensors for other in written):
                return f"it takes {name} and also returned a tensor for it: return nothing, or drop the parameter"
        return None

    def _returned_tensor(self, name: str, expected: list[str]) -> Any:
        if isinstance(self._returned, dict):
            return self._returned.get(name)
        return self._returned if expected == [name] else None

    def _misfit(self, name: str, output: Output, found: Any) -> tuple[int, str] | None:
        if not isinstance(found, self._torch.Tensor):
            what = type(self._returned).__name__
            return records.RAISED, f"it has no parameter {name!r} and returned no tensor for it, but {what}"
        if tuple(found.shape) != output.layout.shape:
            return records.WRONG_SHAPE, f"{name} has the shape {list(found.shape)}, not {list(output.layout.shape)}"
        if found.dtype != torch_dtypes(self._torch)[output.dtype]:
            return records.WRONG_DTYPE, f"{name} has the dtype {str(found.dtype).removeprefix('torch.')}, " + (
                f"not {output.dtype}"
            )
        return None


class Runs:
    """Runs groups of cases. What a lost device raises is for the caller to deal with."""

    def __init__(self, kernel: Callee, torch: Any, device: str, margin: int) -> None:
        self._kernel, self._torch, self._device, self._margin = kernel, torch, device, margin

    def answers(self, cases: Sequence[tuple[Case, bool]]) -> list[tuple[Case, Answer, Answer | None]]:
        """Each case with the answer of its first run and, where there was one, of its second. A case may ask
        for two."""
        first = self._run([case for case, _ in cases], again=False)
        twice = [
            number
            for number, ((_, forced), answer) in enumerate(zip(cases, first, strict=True))
            if answer.doubtful or (forced and answer.clean)
        ]
        second = dict(zip(twice, self._run([cases[number][0] for number in twice], again=True), strict=True))
        return [(case, first[number], second.get(number)) for number, (case, _) in enumerate(cases)]

    def _run(self, cases: Sequence[Case], again: bool) -> list[Answer]:
        attempts = [self._launched(case, again) for case in cases]
        if cases and self._device == "cuda":
            self._torch.cuda.synchronize()
        return [_NO_MEMORY if attempt is None else attempt.collect() for attempt in attempts]

    def _launched(self, case: Case, again: bool) -> Attempt | None:
        if too_large(case):
            return None
        try:
            attempt = Attempt(case, self._kernel, self._torch, self._device, self._margin, again)
            attempt.launch()
        except (MemoryError, self._torch.OutOfMemoryError):
            return None
        return attempt


_NO_MEMORY = Answer(records.NO_MEMORY, {}, (), {})


@contextmanager
def _with_threads(torch: Any, wanted: float | int | None) -> Iterator[None]:
    """Torch with so many threads; without a wish with as many as it has."""
    before = torch.get_num_threads()
    if wanted is not None:
        torch.set_num_threads(int(wanted))
    try:
        yield
    finally:
        if wanted is not None:
            torch.set_num_threads(before)


def torch_dtypes(torch: Any) -> Mapping[str, Any]:
    """By the names of `fuzz.base.case`."""
    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}


def _same_place(one: Any, other: Any) -> bool:
    """Whether they are one tensor, perhaps seen in two ways."""
    try:
        return bool(one.numel() == 0 or one.data_ptr() == other.data_ptr())
    except RuntimeError:  # a tensor without memory of its own
        return False


def bits_of(torch: Any, tensor: Any) -> bytes:
    """The elements of a tensor in C order."""
    data: bytes = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return data


def respond(position: int, case: Case, first: Answer, second: Answer | None, changes: Sequence[Change] = ()) -> bytes:
    """The response to a case: that of its first run, unless the second one shows more."""
    answer = second if second is not None and not second.clean else first
    names = list(case.tensors)
    missed = []
    if answer is first:
        for name, held in first.unwritten.items():
            still = held if second is None else held & second.unwritten[name]
            places = np.flatnonzero(still)
            if len(places):
                missed.append(records.UNWRITTEN.pack(names.index(name), int(places[0]), len(places)))
    changed = "\n".join(map(str, changes)).encode()
    payload = b"".join([*answer.outputs.values(), *answer.damages, *missed, answer.words.encode(), changed])
    code = records.KF_REJECTED if answer.status == records.REJECTED else 0
    return records.RESPONSE.pack(
        records.RESPONSE_MAGIC, position, len(payload), answer.status, 0, 0, -1, -1, records.UNKNOWN_BYTE,
        len(answer.damages), len(missed), code, len(changed), 0,
    ) + payload  # fmt: skip


def _damages(slab: Slab, after: Any, rejected: bool) -> Iterator[bytes]:
    """One record per kind and place of damage."""
    changed = slab.changes(after, rejected)
    if not changed.any():
        return
    end = slab.start + slab.size
    before = np.flatnonzero(changed[: slab.start])
    if len(before):
        # The start of the changed element nearest to the storage.
        byte = (int(before[-1]) - slab.start) // slab.itemsize * slab.itemsize
        yield _record(slab, "gap", "before", byte, len(before))
    behind = np.flatnonzero(changed[end:])
    if len(behind):
        yield _record(slab, "gap", "after", int(behind[0]), len(behind))
    owned = slab.owned()
    element = "output" if slab.writable else "input"
    for kind, inside in (("gap", changed & ~owned), (element, changed & owned)):
        places = np.flatnonzero(inside[slab.start : end])
        if len(places):
            yield _record(slab, kind, "inside", int(places[0]), len(places))


def _record(slab: Slab, kind: str, place: str, byte: int, count: int) -> bytes:
    nearest = slab.nearest(byte + slab.size if place == "after" else byte)
    kinds, places = records.KINDS.index(kind), records.PLACES.index(place)
    return records.DAMAGE.pack(slab.index, kinds, places, nearest, byte, count)
