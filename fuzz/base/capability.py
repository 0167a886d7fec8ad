"""Which cases a kernel is given: those that its declared capabilities cover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from fuzz.base.case import ITEMSIZE, THREADS, Case, Layout, Output, Tensor, contiguous
from fuzz.base.kernel import Capabilities, Kernel
from fuzz.base.op import OPS, Role

MAX_RANK = 6
"""of a tensor that a kernel is given; KF_MAX_RANK in kernelfuzz.h."""
_TAKERS: dict[int, tuple[Kernel, Capability]] = {}
"""by the kernel's identity: to hash a kernel takes longer than to make this. The kernel is kept, so that its identity
is never another's."""


@dataclass(frozen=True)
class Capability:
    """What kernels of one op and one declaration take: all that generation needs to know of them."""

    op: str
    able: Capabilities
    backwards: bool = True
    """strides may be negative, and one input may be another's memory, or an output overlap it, and storages be sparse;
    torch has none of it."""
    threads: bool = False
    """it can be told how many threads to use: torch can."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Kept: it is asked for with every case, and capabilities have many fields.
        return hash((self.op, self.able, self.backwards, self.threads))

    def refusal(self, case: Case) -> str | None:
        """Why `case` is outside the capabilities, in plain words, or None when it is within."""
        foreign, invalid = self._answer(case)
        return foreign or invalid

    def _answer(self, case: Case) -> tuple[str | None, str | None]:
        """What `foreign` and `_invalid` say. A search, a pool and a judge ask the same of every case."""
        if self not in case.answers:
            foreign = self.foreign(case)
            case.answers[self] = foreign, None if foreign is not None else self._invalid(case)
        return case.answers[self]

    def foreign(self, case: Case) -> str | None:
        """Why `case` cannot even be tried: it says what the kernel has no way to hear of, and so cannot reject."""
        if case.op != self.op:
            return f"op {case.op}"
        there = {*case.inputs, *case.outputs}
        optional = {operand.name for operand in OPS[self.op].operands if operand.optional}
        for name in sorted(there & optional - {*self.able.takes, *self.able.needs}):
            return f"{name} is not taken"
        for name in self.able.needs:
            if name not in there:
                return f"{name} is missing"
        if case.params.get("offset", 0.0) and not self.able.offset:
            return f"offset {case.params['offset']}"
        if THREADS in case.params and not self.threads:
            return f"{case.params[THREADS]} threads"
        if not self.backwards and not case.apart:
            return "tensors that share memory"
        if not self.backwards and case.reaches_far:
            return "a tensor larger than memory"
        for name, tensor in _tensors(case):
            if len(tensor.layout.shape) > MAX_RANK:
                return f"{name}: rank {len(tensor.layout.shape)}"
            if not self.backwards and any(stride < 0 for stride in tensor.layout.strides):
                return f"{name}: strides {tensor.layout.strides}"
        return None

    def gets(self, case: Case) -> bool:
        """True when `case` is to be run: within the capabilities, or invalid input that is promised to be rejected.

        Empty tensors are never invalid: a kernel that returns at once does no harm.
        """
        foreign, invalid = self._answer(case)
        if foreign is not None:
            return False
        if invalid is None:
            return True
        return self.able.outside == "rejects" and all(tensor.layout.size > 0 for _, tensor in _tensors(case))

    def _invalid(self, case: Case) -> str | None:
        for output, source, relation in case.meetings():
            if (output, source) not in (self.able.aliases if relation == "same" else self.able.overlap):
                return f"{output} {'in the memory of' if relation == 'same' else 'overlapping'} {source}"
        x = case.inputs["x"]
        for name, tensor in _tensors(case):
            reason = self._dtype_refusal(case, name, tensor.dtype) or self._layout_refusal(name, tensor)
            if reason is not None:
                return f"{name}: {reason}"
        rank = len(x.layout.shape)
        axis = int(case.params.get("axis", -1)) % max(rank, 1)
        if self.able.axis == "last" and axis != rank - 1:
            return "x: axis is not the last"
        n = x.layout.shape[axis] if rank else 1
        if self.able.max_n is not None and n > self.able.max_n:
            return f"n = {n}, more than {self.able.max_n}"
        return f"n = {n}, no multiple of {self.able.multiple_of}" if n % self.able.multiple_of else None

    def _dtype_refusal(self, case: Case, name: str, dtype: str) -> str | None:
        x = case.inputs["x"].dtype
        weight = case.inputs["weight"].dtype if "weight" in case.inputs else None
        allowed = self.able.dtypes if name == "x" else self.able.dtypes_of(name, x, weight)
        return None if dtype in allowed else f"dtype {dtype}"

    def _layout_refusal(self, name: str, tensor: Tensor | Output) -> str | None:
        layout, able = tensor.layout, self.able
        role = _role(self.op, name)
        if role == "columns" and len(layout.shape) > 1 and not able.weight_rows:
            return f"rank {len(layout.shape)}"
        if not _strides_fit(able, layout, role):
            return f"strides {layout.strides}"
        if role == "grid" and able.alignment > 1 and not _rows_aligned(layout, ITEMSIZE[tensor.dtype], able.alignment):
            return f"rows not aligned to {able.alignment} bytes"
        return None


def capability_of(kernel: Kernel) -> Capability:
    """What a kernel takes."""
    known = _TAKERS.get(id(kernel))
    if known is None:
        known = kernel, Capability(kernel.op, kernel.capabilities, kernel.shares_memory, kernel.takes_threads)
        _TAKERS[id(kernel)] = known
    return known[1]


def capabilities_of(kernels: Iterable[Kernel], op: str) -> tuple[Capability, ...]:
    """What kernels of `op` take, equal ones once, in the order of the kernels."""
    return tuple(dict.fromkeys(capability_of(kernel) for kernel in kernels if kernel.op == op))


def is_given(kernel: Kernel, case: Case) -> bool:
    """True when `case` is to be run: within the capabilities, or invalid input that the kernel promises to reject."""
    return capability_of(kernel).gets(case)


def accepts(kernel: Kernel, case: Case) -> bool:
    """True when `case` is within the kernel's capabilities."""
    return refusal(kernel, case) is None


def refusal(kernel: Kernel, case: Case) -> str | None:
    """Why `case` is outside the kernel's capabilities, in plain words, or None when it is within."""
    return capability_of(kernel).refusal(case)


def _tensors(case: Case) -> Iterator[tuple[str, Tensor | Output]]:
    yield from case.inputs.items()
    yield from case.outputs.items()


@lru_cache(maxsize=256)
def _role(op: str, name: str) -> Role:
    return OPS[op].operand(name).role


def _strides_fit(able: Capabilities, layout: Layout, role: Role) -> bool:
    if able.strides == "any" or layout.size == 0:
        return True
    steps = [(extent, stride) for extent, stride in zip(layout.shape, layout.strides, strict=True) if extent != 1]
    # A tensor without rows of its own has no pitch that a kernel could be told.
    if able.strides == "contiguous" or role != "grid":
        dense = contiguous(layout.shape).strides
        wanted = [stride for extent, stride in zip(layout.shape, dense, strict=True) if extent != 1]
        return [stride for _, stride in steps] == wanted
    if layout.shape and layout.shape[-1] != 1 and steps.pop()[1] != 1:
        return False
    if able.strides == "rows":
        return True
    # Outer axes must collapse into one axis of rows with one pitch.
    return all(outer[1] == inner[0] * inner[1] for outer, inner in pairwise(steps))


def _rows_aligned(layout: Layout, itemsize: int, alignment: int) -> bool:
    outer = zip(layout.shape[:-1], layout.strides[:-1], strict=True)
    pitches = [stride * itemsize for extent, stride in outer if extent > 1]
    return layout.alignment(itemsize) % alignment == 0 and all(pitch % alignment == 0 for pitch in pitches)
