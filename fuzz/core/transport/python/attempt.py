"""Calls of the kernel, each in fresh memory. A call is launched, collected, and repeated if a doubt is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from fuzz.core.base.case import CACHE_LINE, THREADS, Case, Output
from fuzz.core.base.fill import refilled
from fuzz.core.base.probe import probe_of, without_probe
from fuzz.core.transport import records
from fuzz.core.transport.python.answer import NO_MEMORY, Answer, failed, is_of_device, said
from fuzz.core.transport.python.arrays import Arrays, UnreadableArrayError
from fuzz.core.transport.python.kernel import Raised, Way
from fuzz.core.transport.python.memory import CallMemory, FreshMemory
from fuzz.core.transport.python.slab import OUTPUT_POISONS, Slab, poisoned, slabs, too_large
from fuzz.core.transport.python.unset import filled_memory, is_filled, unset_in
from oracles.dtypes import DTYPES, ITEMSIZE

if TYPE_CHECKING:
    from fuzz.core.transport.python.probing import Placed

_T = TypeVar("_T")

_BLOTS, _MOST_BLOTTED = 8, 1 << 24
"""The number of pieces of memory of an output's size that are overwritten after a call, and the size in bytes from
which that is not done."""
_SEEN_FROM, _SEEN = 1 << 18, 64
"""The size in bytes from which memory is sampled before it is overwritten, since writing takes longer beyond a cache,
and the number of sampled bytes. The steps between samples are odd, because the lowest byte of many floats is 0."""


class Callee(Protocol):
    """A kernel in its worker, or a function of a test suite."""

    @property
    def returns(self) -> Collection[str]:
        """The outputs for which the callee has no parameter, so that it returns them. A case may lack some of them."""
        ...

    def takes(self, name: str) -> bool: ...

    def is_own(self, error: BaseException) -> bool:
        """Whether the callee's own code was at work when the error was raised."""
        ...

    def call(self, tensors: Mapping[str, Any], params: Mapping[str, float | int], way: Way | None = None) -> Any: ...


class Attempt:
    """One call for a case whose tensors are staged. It is launched after the tensors were sent. On a GPU the call is
    only queued when `launch` returns."""

    def __init__(self, case: Case, kernel: Callee, arrays: Arrays, memory: CallMemory, again: bool) -> None:
        self._case = case
        self._kernel = kernel
        self._arrays = arrays
        self._memory = memory
        self._again, self._poison = again, OUTPUT_POISONS[again]
        self._asks = refilled(case) if again else case
        self._is_on_gpu = memory.on_device
        self._slabs = self._image(case)
        for slab in self._own():
            memory.stage(slab)

    def launch(self) -> None:
        """Call the kernel, unless its framework lacks a dtype of the case."""
        self._returned: Any
        lacking = {tensor.dtype for tensor in self._case.tensors.values()} - {*self._arrays.dtypes}
        if lacking:
            words = f"{self._arrays.library.__name__} has no {DTYPES[min(lacking)].spelling}"
            self._returned = Raised(rejected=False, words=words, built=False)
            return
        self._given = self._views(self._slabs)
        params = {name: value for name, value in without_probe(self._case.params).items() if name != THREADS}
        placed = self._placed(params) if self._is_on_gpu or probe_of(self._case) else None
        with self._arrays.threads(self._case.params.get(THREADS)):
            self._memory.watch()
            if self._is_on_gpu and self._memory.margin:  # a tool checks each of 15 million stores
                from fuzz.core.transport.python.shared_memory import fill_shared_memory

                fill_shared_memory(self._asks)
            with filled_memory(self._asks):
                self._returned = self._kernel.call(self._given, params, None) if placed is None else placed.called()
            # Else the next call could overwrite memory that the kernel keeps and returns again.
            if self._is_on_gpu and placed is not None:
                self._returned = placed.apart(self._returned)

    def _placed(self, params: Mapping[str, float | int]) -> Placed:
        """Return the case as it lies in memory, for a call by a probe or on a GPU."""
        from fuzz.core.transport.python.probing import Placed

        return Placed(
            self._case, self._slabs, self._given, self._arrays,
            lambda tensors, way: self._kernel.call(tensors, params, way), self._image, self._elsewhere,
            self._memory.keep,
            [name for name in self._case.outputs if not self._kernel.takes(name)],
            self._is_on_gpu,
        )  # fmt: skip

    def _views(self, placed: Mapping[str, Slab]) -> Mapping[str, Any]:
        """Return the arrays that are passed to the kernel, by name."""
        names = [name for name in self._case.tensors if name in self._case.inputs or self._kernel.takes(name)]
        return {name: self._arrays.view(placed[name]) for name in names}

    def _image(self, case: Case) -> Mapping[str, Slab]:
        return slabs(case, self._memory.margin, self._poison, self._memory.guarded)

    def _elsewhere(self, case: Case) -> Mapping[str, Any]:
        memory = FreshMemory(CACHE_LINE) if self._memory.guarded else self._memory
        found = slabs(case, memory.margin, self._poison, guarded=False)
        for slab in {slab.index: slab for slab in found.values()}.values():
            memory.place(slab)
        return self._views(found)

    def collect(self) -> Answer:
        """Return what the kernel left behind. On a GPU, call this only after everything queued is done."""
        answer = self._left()
        self._returned = None
        # Checked last, since reading a returned view may touch memory beyond a tensor's end too.
        touched = self._memory.touched(list(self._own()))
        return answer if touched is None else Answer(records.FAULT, {}, answer.damages, {}, touched=touched)

    def _left(self) -> Answer:
        memory = {slab.index: slab.after() for slab in self._own()}
        rejected = isinstance(self._returned, Raised) and self._returned.rejected
        damages = tuple(record for slab in self._own() for record in _damages(slab, memory[slab.index], rejected))
        if isinstance(self._returned, Raised):
            status = records.REJECTED if self._returned.rejected else records.RAISED
            status = status if self._returned.built else records.NOT_BUILT
            status = records.MISUSED if self._returned.misused else status
            status = records.LEFT_OUT if self._returned.left_out else status
            return Answer(status, {}, damages, {}, self._returned.words)
        returned = [name for name in self._case.outputs if not self._kernel.takes(name)]
        if words := self._returned_twice() or self._returned_others(returned):
            return Answer(records.MISUSED, {}, damages, {}, words)
        outputs: dict[str, bytes] = {}
        unwritten: dict[str, Any] = {}
        for name, output in self._case.outputs.items():
            if name in returned:
                found = self._returned_tensor(name, returned)
                wrong = self._misfit(name, output, found)
                if wrong is not None:
                    return Answer(wrong[0], {}, damages, {}, wrong[1])
                try:
                    kept = self._memory.kept_bytes(found)
                    outputs[name] = self._arrays.bits(found) if kept is None else kept
                except UnreadableArrayError as error:
                    return Answer(records.RAISED, {}, damages, {}, f"the {name} that it returned: {error}")
                except Exception as error:
                    if isinstance(error, self._arrays.no_memory) or self._arrays.is_plain(found):
                        raise
                    words = f"the {name} that it returned, a {type(found).__name__}, cannot be read: {said(error)}"
                    return Answer(records.RAISED, {}, damages, {}, words)
                if (self._again or is_filled(self._case)) and output.alias is None and ITEMSIZE[output.dtype] > 1:
                    unwritten[name] = unset_in(self._asks, outputs[name], ITEMSIZE[output.dtype])
                continue
            slab = self._slabs[name]
            elements = slab.elements(memory[slab.index])
            outputs[name] = elements.tobytes()
            if output.alias is None:
                unwritten[name] = elements.reshape(-1) == poisoned(slab.poison, slab.itemsize)
        return Answer(records.RAN, outputs, damages, unwritten)

    def returned_sizes(self) -> Iterator[int]:
        """Yield the size in bytes of each output that the kernel returns."""
        for name, output in self._case.outputs.items():
            if not self._kernel.takes(name):
                yield output.layout.size * ITEMSIZE[output.dtype]

    def _own(self) -> Iterator[Slab]:
        """Yield every slab once."""
        return iter({slab.index: slab for slab in self._slabs.values()}.values())

    def _returned_twice(self) -> str:
        """Return an error message if the kernel returned a tensor for an output that has a parameter, else ''.
        Returning the output itself is usual. With another tensor, nobody can tell which of the two is the result."""
        written = [name for name in self._case.outputs if self._kernel.takes(name)]
        if isinstance(self._returned, dict):
            beside = [(name, [self._returned[name]]) for name in written if name in self._returned]
        elif written and not self._kernel.returns:
            several = isinstance(self._returned, (tuple, list))
            beside = [(written[0], list(self._returned) if several else [self._returned])]
        else:
            beside = []
        for name, returned in beside:
            found = [each for each in returned if self._arrays.owns(each)]
            own = [self._given[other] for other in written]
            if found and not any(self._arrays.same_place(*pair) for pair in product(found, own)):
                return f"it takes {name} and also returned a tensor for it: return nothing, or drop the parameter"
        return ""

    def _returned_others(self, expected: Sequence[str]) -> str:
        """Return an error message if the kernel did not return one tensor for each of several outputs, else ''."""
        found = self._returned
        if len(expected) < 2 or (isinstance(found, dict) and {*expected} <= {*found}):
            return ""
        what = f"one {type(found).__name__}"
        if isinstance(found, (tuple, list, dict)):
            what = f"a {type(found).__name__} of {len(found)}{f', {[*found]}' if isinstance(found, dict) else ''}"
        names = ", ".join(expected)
        return f"it returned {what}: return ({names}), or a dict with these names, or have parameters to write them to"

    def _returned_tensor(self, name: str, expected: list[str]) -> Any:
        if isinstance(self._returned, dict):
            return self._returned.get(name)
        return self._returned if expected == [name] else None

    def _misfit(self, name: str, output: Output, found: Any) -> tuple[int, str] | None:
        if not self._arrays.owns(found):
            what = type(self._returned).__name__
            if isinstance(self._returned, np.ndarray):
                what += ' (if it is written with NumPy: framework="numpy" in a pack, arrays="numpy" in fuzz.check)'
            return (
                records.RAISED,
                f"the kernel has no parameter {name!r} and returned no {self._arrays.noun} for it, but {what}",
            )
        if tuple(found.shape) != output.layout.shape:
            said = f"the shape of {name} is {list(found.shape)}, must be {list(output.layout.shape)}"
            return records.WRONG_SHAPE, said
        expected = self._arrays.dtypes[output.dtype]
        if found.dtype != expected:
            own, must = (str(each).removeprefix("torch.") for each in (found.dtype, expected))
            return records.WRONG_DTYPE, f"the dtype of {name} is {own}, must be {must}"
        return None


class CaseRunner:
    """Runs groups of cases. The caller handles the exception of a lost device. If calls are only queued, as on a GPU,
    `finish` waits for those of a group. `end` then ends processes that the calls left running. `reported` returns the
    report of a watching tool on the latest calls."""

    def __init__(
        self,
        kernel: Callee,
        arrays: Arrays,
        memory: CallMemory,
        finish: Callable[[], None] | None = None,
        reported: Callable[[], str] = lambda: "",
        end: Callable[[], None] = lambda: None,
    ) -> None:
        self._kernel, self._arrays, self._memory, self._finish = kernel, arrays, memory, finish
        self._reported, self._end = reported, end

    def answers(
        self, cases: Sequence[tuple[Case, bool]], most_s: float = math.inf
    ) -> list[tuple[Case, Answer, Answer | None]]:
        """Return each case with the answer of its first run and, if there was a second run, that answer too. If calls
        are only queued, later cases are left out once memory is full or queueing took `most_s` seconds, as it does when
        programs are compiled."""
        first = self._run([case for case, _ in cases], again=False, most_s=most_s)
        cases = cases[: len(first)]
        twice = [
            number
            for number, ((_, forced), answer) in enumerate(zip(cases, first, strict=True))
            if answer.doubtful or (forced and answer.clean)
        ]
        second = dict(zip(twice, self._run([cases[number][0] for number in twice], again=True), strict=True))
        return [(case, first[number], second.get(number)) for number, (case, _) in enumerate(cases)]

    def _run(self, cases: Sequence[Case], again: bool, most_s: float = math.inf) -> list[Answer]:
        if self._finish is None:  # memory may hold only one call's tensors at a time
            return [answer for case in cases for answer in self._together([case], again, most_s)]
        return self._together(cases, again, most_s)

    def _together(self, cases: Sequence[Case], again: bool, most_s: float) -> list[Answer]:
        """Return the answers for the first cases, as many as fit into memory and are launched in time."""
        attempts, until = list[Attempt | Answer](), time.monotonic() + most_s
        for case in cases:
            attempts.append(self._staged(case, again))
            if self._memory.is_full:
                break
        try:
            self._memory.send()
        except self._arrays.no_memory:
            return [NO_MEMORY] * len(attempts)
        launched = list[Attempt | Answer]()
        for attempt in attempts:
            launched.append(self._launched(attempt))
            if time.monotonic() >= until:
                break
        if launched and self._finish is not None:
            self._finish()
        self._end()
        self._memory.fetch()
        answers = [self._collected(attempt) for attempt in launched]
        if report := self._reported():
            answers[-1] = Answer(records.REPORTED, {}, (), {}, report)
        self._blot(launched, answers)
        return answers

    def _staged(self, case: Case, again: bool) -> Attempt | Answer:
        if too_large(case, self._memory.guarded):
            return NO_MEMORY
        return self._guarded(lambda: Attempt(case, self._kernel, self._arrays, self._memory, again))

    def _launched(self, attempt: Attempt | Answer) -> Attempt | Answer:
        if isinstance(attempt, Answer):
            return attempt

        def launched() -> Attempt:
            attempt.launch()
            return attempt

        return self._guarded(launched)

    def _collected(self, attempt: Attempt | Answer) -> Answer:
        return attempt if isinstance(attempt, Answer) else self._guarded(attempt.collect)

    def _blot(self, attempts: Sequence[Attempt | Answer], answers: Sequence[Answer]) -> None:
        """Overwrite memory that held returned outputs. Otherwise an allocator could give it, unchanged, to the next
        call, which could return it as its own result."""
        library, place = self._arrays.library, {} if self._finish is None else {"device": "cuda"}
        found = [each for each in attempts if isinstance(each, Attempt)]
        for size in sorted({size for each in found for size in each.returned_sizes()}):
            if 0 < size < _MOST_BLOTTED:
                clean = _clean(size, answers) if size >= _SEEN_FROM and not place else frozenset()
                with suppress(*self._arrays.no_memory):
                    pieces = [library.empty((size,), dtype=library.uint8, **place) for _ in range(_BLOTS)]
                    for piece in pieces if place else map(np.asarray, pieces):  # torch would need 2 threads
                        if not clean or frozenset(piece[:: size // _SEEN | 1].tolist()) not in clean:
                            piece[:] = 255
                    del pieces

    def _guarded(self, step: Callable[[], _T]) -> _T | Answer:
        """Return the result of a step, or the answer that says why it failed. Exceptions of the kernel itself are
        caught in its call. The exception of a lost device is left to the caller."""
        try:
            return step()
        except self._arrays.no_memory:
            return NO_MEMORY
        except Exception as error:
            if self._finish is not None and is_of_device(error):
                raise
            return failed(error, own=self._kernel.is_own(error))


def _clean(size: int, answers: Sequence[Answer]) -> Collection[Collection[int]]:
    """Return the sets of bytes that samples of memory of this size may have if the memory holds no result. It then was
    overwritten, or is new and so all zeros. Zeros are left out if some result looks like zeros too."""
    returned = [found for each in answers for found in each.outputs.values() if len(found) == size]
    zeros = any(not any(found[:: size // _SEEN | 1]) for found in returned)
    return {frozenset({255})} if zeros else {frozenset({255}), frozenset({0})}


def _damages(slab: Slab, after: Any, rejected: bool) -> Iterator[bytes]:
    """Yield one record for each kind and place of damage."""
    changed = slab.changes(after, rejected)
    if not len(changed):
        return
    end = slab.start + slab.size
    before, behind = changed[changed < slab.start], changed[changed >= end]
    if len(before):
        # The start of the changed element nearest to the storage.
        byte = (int(before[-1]) - slab.start) // slab.itemsize * slab.itemsize
        yield _record(slab, "gap", "before", byte, len(before))
    if len(behind):
        yield _record(slab, "gap", "after", int(behind[0]) - end, len(behind))
    inside = changed[(changed >= slab.start) & (changed < end)]
    owned = slab.owns(inside)
    for kind, places in (("gap", inside[~owned]), ("output" if slab.writable else "input", inside[owned])):
        if len(places):
            yield _record(slab, kind, "inside", int(places[0]) - slab.start, len(places))


def _record(slab: Slab, kind: str, place: str, byte: int, count: int) -> bytes:
    nearest = slab.nearest(byte + slab.size if place == "after" else byte)
    kinds, places = records.KINDS.index(kind), records.PLACES.index(place)
    return records.DAMAGE.pack(slab.index, kinds, places, nearest, byte, count)
