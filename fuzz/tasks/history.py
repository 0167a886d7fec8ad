"""How the tensors of a test were made: torch's operations in their order, by which a value can be made again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from fuzz.references.parameters import with_names
from fuzz.references.tracing import intercepted, tensors_in

_PART = 8
"""A history that keeps this part of a device's memory, an eighth, records no more. Chosen."""
_MOVES = frozenset((
    "_to_copy", "clone", "copy_", "cat", "stack", "empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like",
    "full", "arange", "fill_",
))  # fmt: skip
"""Operations that calculate nothing, besides views."""
_PREPARES = _MOVES | {"mul", "add", "sub", "div", "neg", "abs", "clamp", "round"}
"""Operations by which tests make inputs."""


class UnknownHistoryError(Exception):
    """The error of a value that cannot be made again, with the reason."""


class ConstantValueError(UnknownHistoryError):
    """The error of a value that no input decides about, as in a test that probabilities sum up to one."""


@dataclass(frozen=True)
class Slot:
    """Stands for a tensor in a step."""

    number: int


@dataclass(frozen=True)
class TakenStep:
    """One operation. Tensors among its arguments and results are slots."""

    function: Any
    args: Any
    kwargs: Any
    found: Any
    read: frozenset[int]
    """The memory of its arguments, and `touched` that which it returns or writes to."""
    touched: frozenset[int]


@dataclass(frozen=True)
class ValueOrigin:
    """A value as a function of tensors that no operation made, or only one that draws at random."""

    reference: Callable[..., Any]
    inputs: Mapping[str, Any]
    operations: Sequence[Any]
    """The operations of torch in the function, without views."""
    steps_round: bool
    """Whether it rounds between several operations in 16 bits."""


@dataclass
class History:
    """The operations of torch in the context `recording`."""

    is_paused: bool = False
    _steps: list[TakenStep] = field(default_factory=list)
    _slots: Any = None
    """The slot of each tensor, by weak reference: autograd copies a gradient if anybody else holds it."""
    _stored: dict[Slot, int] = field(default_factory=dict)
    """The memory of each tensor when it got its slot."""
    _given: dict[Slot, Any] = field(default_factory=dict)
    """Copies of the tensors that no step makes, as they were when they were first used."""
    _memory: dict[int, Any] = field(default_factory=dict)
    """The memory of all tensors, which is kept so that no other tensor gets it."""
    _numbers: Iterator[int] = field(default_factory=count)
    _bytes: Counter[str] = field(default_factory=Counter)
    """The memory that is kept, by kind of device."""
    _most: dict[str, int] = field(default_factory=dict)
    _mode: Any = None
    """The context `recording`."""

    def recording(self) -> AbstractContextManager[Any]:
        """Return the context that records."""
        from torch.utils.weak import WeakTensorKeyDictionary

        self._slots = WeakTensorKeyDictionary()
        self._mode = intercepted(self._record)
        found: AbstractContextManager[Any] = self._mode
        return found

    def provenance(self, value: Any) -> ValueOrigin:
        """Return how a tensor was made. Raises UnknownHistoryError if no operation made it, or if making it again
        returns something else, as where a kernel wrote into it."""
        if value not in self._slots or self._slots[value] in self._given:
            raise UnknownHistoryError("its test makes too many tensors" if self._is_full else "torch did not make it")
        last, steps = self._slots[value], self._behind(value, {})
        given = {slot: self._given[slot] for slot in _used(steps) if slot in self._given}
        try:
            made = taken(steps, given)
        except Exception as error:  # torch's own
            raise UnknownHistoryError(f"it cannot be made again: {error}") from error
        if not _is_same(made[last], value):
            raise UnknownHistoryError("operations of torch do not make it again: something else writes to it")
        cut = {slot: made[slot] for slot in prepared(steps, given, made) if slot != last}
        steps, inputs = self._behind(value, cut), {**given, **cut}
        names = {slot: f"x{at}" for at, slot in enumerate(slot for slot in _used(steps) if slot in inputs)}
        if not names:
            raise ConstantValueError("no input decides about it")
        operations = [each.function for each in steps if not each.function.is_view]
        narrow = [
            step for step in steps if _rounds(step) and any(_is_narrow(made[each]) for each in _slots_in(step.found))
        ]
        # Attention multiplies probabilities that it rounds to 16 bits: no other product of matrices is as fast.
        several = len(narrow) > 1 or any("attention" in str(each.function) for each in narrow)
        named = {name: inputs[slot] for slot, name in names.items()}
        return ValueOrigin(_reference(names, steps, last), named, operations, several)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing in this context. The mode that records is left, since each operation in it costs more, unless
        a test has entered another one within."""
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        before, self.is_paused = self.is_paused, True
        is_left = self._mode is not None and _get_current_dispatch_mode() is self._mode
        if is_left:
            self._mode.__exit__(None, None, None)
        try:
            yield
        finally:
            self.is_paused = before
            if is_left:
                self._mode.__enter__()

    def _record(self, function: Any, args: Any, kwargs: Any) -> Any:
        import torch

        if self.is_paused or self._is_full:
            return function(*args, **kwargs)
        for each in tensors_in((args, kwargs)):
            # A module that moves to a GPU has the same parameters with other memory, and no operation says so.
            if each not in self._slots or each.untyped_storage()._cdata != self._stored[self._slots[each]]:
                self._give(each)
        name = function._schema.name.partition("::")[2]
        is_filled = name.endswith("_like") or name.startswith("new_")  # no value of its argument matters
        read = frozenset[int]() if is_filled else self._kept((args, kwargs))
        own, named = _hollow((args, kwargs)) if is_filled else self._as_slots((args, kwargs))
        found = function(*args, **kwargs)
        changed = (found, args, kwargs) if function._schema.is_mutable else (found,)
        # Inputs are made in steps, too: room for a parameter, which is not torch's yet, is filled.
        is_input = all(self._slots[each] in self._given for each in tensors_in((args, kwargs)))
        if (is_input and function._schema.is_mutable) or torch.Tag.nondeterministic_seeded in function.tags:
            for each in tensors_in(changed):
                self._give(each)
        else:
            self._steps.append(TakenStep(function, own, named, self._as_slots(found), read, self._kept(changed)))
        return found

    def _give(self, tensor: Any) -> None:
        slot = self._new_slot(tensor)
        self._given[slot] = tensor.detach().clone()
        self._bytes[tensor.device.type] += tensor.nbytes

    @property
    def _is_full(self) -> bool:
        return any(amount > self._most_on(kind) for kind, amount in self._bytes.items())

    def _most_on(self, kind: str) -> int:
        if kind not in self._most:
            import torch

            whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            self._most[kind] = int(torch.cuda.mem_get_info()[1] if kind == "cuda" else whole) // _PART
        return self._most[kind]

    def _new_slot(self, tensor: Any) -> Slot:
        slot = self._slots[tensor] = Slot(next(self._numbers))
        self._stored[slot] = tensor.untyped_storage()._cdata
        return slot

    def _kept(self, value: Any) -> frozenset[int]:
        storages = [each.untyped_storage() for each in tensors_in(value)]
        for each in storages:
            if each._cdata not in self._memory:
                self._memory[each._cdata] = each
                self._bytes[each.device.type] += each.nbytes()
        return frozenset(each._cdata for each in storages)

    def _as_slots(self, value: Any) -> Any:
        """Return a value with slots in place of tensors, new ones for tensors that have none."""
        import torch
        from torch.utils._pytree import tree_map_only

        def slot(tensor: Any) -> Slot:
            return self._slots[tensor] if tensor in self._slots else self._new_slot(tensor)

        return tree_map_only(torch.Tensor, slot, value)

    def _behind(self, value: Any, cut: Container[Slot]) -> Sequence[TakenStep]:
        """Return the steps on which a value depends by the memory that they read and write, in order, without those
        that make tensors in `cut`."""
        wanted, used, found = {*self._kept(value)}, {self._slots[value]}, list[TakenStep]()
        for step in reversed(self._steps):
            made = {*_slots_in(step.found)}
            is_used = step.function._schema.is_mutable or made & used  # else it made room for an input
            if step.touched & wanted and is_used and not any(slot in cut for slot in made):
                found.append(step)
                wanted |= step.read
                used |= {*_slots_in((step.args, step.kwargs))}
        return found[::-1]


def taken(steps: Sequence[TakenStep], given: Mapping[Slot, Any], device: Any = None) -> Mapping[Slot, Any]:
    """Take the steps with copies of the given tensors, on their devices or on another one, and return all tensors.
    Raises what an operation raises."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map_only

    values = {slot: each.clone() for slot, each in given.items()}
    for step in steps:
        args, kwargs = tree_map_only(Slot, values.__getitem__, (step.args, step.kwargs))
        if device is not None:
            args, kwargs = tree_map_only(torch.device, lambda _: device, (args, kwargs))
            args, kwargs = tree_map_only(torch.Tensor, lambda each: each.to(device), (args, kwargs))
        found = zip(tree_leaves(step.found), tree_leaves(step.function(*args, **kwargs)), strict=True)
        values.update({slot: each for slot, each in found if isinstance(slot, Slot)})
    return values


def prepared(steps: Sequence[TakenStep], given: Collection[Slot], made: Mapping[Slot, Any]) -> Iterator[Slot]:
    """Yield those of the `made` tensors that a kernel is given in place of what they are made from: numbers of a
    narrower dtype, for which one tensor was scaled or arranged at most, and integers. A kernel cannot know what they
    were rounded from."""
    dtypes = {slot: each.dtype for slot, each in made.items()}
    origin: dict[Slot, frozenset[Slot]] = {slot: frozenset({slot}) for slot in given}
    for step in steps:
        name, read = step.function._schema.name.partition("::")[2], [*_slots_in((step.args, step.kwargs))]
        is_plain = (step.function.is_view or name in _PREPARES) and all(each in origin for each in read)
        whole = frozenset[Slot]().union(*(origin[each] for each in read)) if is_plain else frozenset()
        for slot in _slots_in(step.found):
            if is_plain:
                origin[slot] = whole
            if name == "_to_copy" and dtypes[read[0]].is_floating_point and _is_cut(dtypes, slot, read[0], whole):
                yield slot
                origin[slot] = frozenset({slot})


def _is_cut(dtypes: Mapping[Slot, Any], slot: Slot, before: Slot, sources: Collection[Slot]) -> bool:
    if not dtypes[slot].is_floating_point:
        return True
    wide = dtypes[before].itemsize
    return dtypes[slot].itemsize < wide and len(sources) == 1 and all(dtypes[each].itemsize == wide for each in sources)


def _hollow(value: Any) -> Any:
    """Return a value with tensors of the same shapes in place of its tensors, without their memory."""
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, lambda each: each.new_empty(()).expand(each.shape), value)


def _rounds(step: TakenStep) -> bool:
    return not step.function.is_view and step.function._schema.name.partition("::")[2] not in _MOVES


def _is_narrow(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() and tensor.itemsize <= 2)


def _used(steps: Sequence[TakenStep]) -> Sequence[Slot]:
    """Return the slots of arguments, in the order of their first use."""
    return [*dict.fromkeys(slot for step in steps for slot in _slots_in((step.args, step.kwargs)))]


def _slots_in(value: Any) -> Iterator[Slot]:
    from torch.utils._pytree import tree_leaves

    return (each for each in tree_leaves(value) if isinstance(each, Slot))


def _reference(names: Mapping[Slot, str], steps: Sequence[TakenStep], last: Slot) -> Callable[..., Any]:
    """Return the function of the named tensors that takes these steps and returns the last tensor."""

    def expected(**given: Any) -> Any:
        device = next(iter(given.values())).device
        return taken(steps, {slot: given[name] for slot, name in names.items()}, device)[last]

    return with_names(expected, [*names.values()], expected.__name__)


def _is_same(one: Any, other: Any) -> bool:
    import torch

    alike = (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)
    return alike and bool(torch.allclose(one.detach(), other.detach(), rtol=1e-3, atol=0.0, equal_nan=True))
