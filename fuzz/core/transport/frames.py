"""The protocol between engine and workers, as bytes. Its records are in `records`. A request is a header and the cases;
the bytes of a case do not depend on the target. A worker answers each case with one response, in order. When it starts,
it sends a hello, which attests its target."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from fuzz.core.base.capability import MAX_RANK
from fuzz.core.base.case import Case, Layout, Output, Tensor
from fuzz.core.base.errors import InternalError
from fuzz.core.base.fill import fill_of
from fuzz.core.base.outcome import CHANGES, Change, Damage, Fault, Outcome, Status, Unwritten
from fuzz.core.base.text import printable
from fuzz.core.transport.records import (
    AUDIT_LAST,
    CASE,
    DAMAGE,
    DTYPES,
    FAULT,
    FILLED,
    FRAME,
    GUARDS,
    INTEGER,
    KF_REJECTED,
    KINDS,
    LEFT_OUT,
    LOAD_MAGIC,
    MISREAD,
    MISUSED,
    NAME_BYTES,
    NO_ALIAS,
    NO_MEMORY,
    NOT_BUILT,
    OP_BYTES,
    OURS,
    PLACES,
    RAISED,
    RAN,
    REAL,
    REJECTED,
    REPORTED,
    REQUEST_MAGIC,
    RESPONSE,
    RESPONSE_MAGIC,
    SECOND_RUN,
    UNKNOWN_BYTE,
    UNWRITTEN,
    WRONG_DTYPE,
    WRONG_SHAPE,
    tensor_struct,
)
from oracles.dtypes import ITEMSIZE
from oracles.operand import AXIS, OUTER
from oracles.ops import OPS

_SIGNALS = {4: "SIGILL", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}
_ACCESS = (None, "read", "write")
_GUARDS = {guard: code for code, guard in enumerate(GUARDS)}
_TENSORS = [tensor_struct(rank) for rank in range(MAX_RANK + 1)]
_SAID = {
    REJECTED: Status.REJECTED,
    RAISED: Status.RAISED,
    WRONG_SHAPE: Status.WRONG_SHAPE,
    WRONG_DTYPE: Status.WRONG_DTYPE,
    NOT_BUILT: Status.NOT_RUN,
    OURS: Status.OURS,
    MISUSED: Status.MISUSED,
    REPORTED: Status.REPORTED,
    LEFT_OUT: Status.LEFT_OUT,
}
"""The statuses that come with an explanation in words, by their codes in the protocol."""
MISREADS = (
    "the emulator reads lanes that a masked load leaves out (attested at start): only hardware can judge such a case"
)
_SAID_BYTES = 4 << 20
"""The largest number of bytes of an answer besides its outputs: of the damages and unwritten outputs it lists."""
NO_MEMORY_DETAIL = "the worker has not enough memory for this case"


class FrameError(InternalError):
    """A case that the protocol cannot carry. It is an internal error."""


class AnswerError(Exception):
    """Bytes that are not an answer came in place of one: a kernel wrote to the worker's descriptors, or over its
    memory. The answers `before` are valid."""

    def __init__(self, why: str, before: Sequence[Response] = ()) -> None:
        super().__init__(why)
        self.before = before


class CountError(AnswerError):
    """An answer whose outputs have more or fewer elements than they should."""


class Response(NamedTuple):
    """One answer: the fields of its header, and the payload after it. `position` is the case's index in its frame."""

    position: int
    status: int
    access: int
    signal: int
    tensor: int
    element: int
    byte: int
    damages: int
    unwrittens: int
    code: int
    changes: int
    payload: bytes


Answers = list[tuple[bytes, dict[str, bytes]]]
"""The payloads of answers to one case, each with the outputs decoded from it."""


def encode_case(case: Case, second_run: bool = False) -> bytes:
    """Return the bytes of one case. With `second_run`, the worker runs it twice even if every output was written."""
    inputs = list(case.inputs)
    parts = [_param(name, value) for name, value in case.params.items()]
    for name, tensor in case.tensors.items():
        parts.append(_tensor(name, tensor, NO_ALIAS if tensor.alias is None else inputs.index(tensor.alias)))
    for source in case.inputs.values():
        parts.append(source.bits)
        parts.append(bytes(-len(source.bits) % 8))
    body = b"".join(parts)
    counts = (len(case.params), len(inputs), len(case.outputs))
    flags = (SECOND_RUN if second_run else 0) + FILLED * fill_of(case)
    return CASE.pack(CASE.size + len(body), flags, *counts, _name(case.op, OP_BYTES)) + body


def encode_frame(cases: Sequence[bytes], limit_s: int, audits: int = AUDIT_LAST) -> bytes:
    """Return a request with these encoded cases. A worker that hangs for `limit_s` seconds in one case ends itself."""
    return b"".join([FRAME.pack(REQUEST_MAGIC, len(cases), sum(map(len, cases)), limit_s, audits), *cases])


def encode_load(spec: str) -> bytes:
    """Return a request to run another kernel from now on. The worker answers it with the hello of that kernel."""
    data = spec.encode()
    return FRAME.pack(LOAD_MAGIC, 0, len(data), 0, 0) + data


def longest_answer(case: Case) -> int:
    """Return the largest number of bytes that can follow the header of an answer to a case."""
    return _SAID_BYTES + sum(each.layout.size * ITEMSIZE[each.dtype] for each in case.outputs.values())


def unbounded(position: int) -> int:
    """Return the largest number of bytes of any answer."""
    return 1 << 32


def decode_responses(
    data: bytes | bytearray, first: int = 0, count: int = 1 << 32, longest: Callable[[int], int] = unbounded
) -> tuple[list[Response], int]:
    """Return the complete responses in `data`, and the number of bytes that they take. Raise AnswerError if the bytes
    are no responses, if positions do not count up from `first` to the last of `count` cases, or if a response claims to
    be longer than `longest` allows."""
    found: list[Response] = []
    at = 0
    with memoryview(data) as view:
        while at + RESPONSE.size <= len(view) and first + len(found) < count:
            magic, position, size, *fields, _ = RESPONSE.unpack_from(view, at)
            if magic != RESPONSE_MAGIC:
                raise AnswerError(f"an answer starts with {magic:08x}", found)
            if position != first + len(found):
                raise AnswerError(f"answer {position} came in place of {first + len(found)}", found)
            start, end = at + RESPONSE.size, at + RESPONSE.size + size
            if end > len(view):
                if size > longest(position):
                    raise AnswerError(f"answer {position} is to have {size} bytes", found)
                break
            found.append(Response(*(position, *fields, bytes(view[start:end]))))
            at = end
    rest = bytes(data[at : at + 4])
    if first + len(found) < count and rest != RESPONSE_MAGIC.to_bytes(4, "little")[: len(rest)]:
        raise AnswerError(f"an answer starts with {rest!r}", found)  # else the rest of this answer would be waited for
    if first + len(found) == count and at < len(data):
        raise AnswerError("more came after the last answer", found[:-1])
    return found, at


def outcome_of(response: Response, case: Case, target: str, known: Answers | None = None) -> Outcome:
    """Return the outcome that a response reports for `case`. Outputs that equal those of another target in `known` are
    the same object. Raise AnswerError if the response cannot be an answer to the case."""
    try:
        if response.status == RAN and not (response.damages or response.unwrittens or response.changes):
            return Outcome(target, Status.RAN, _shared(response, case, [] if known is None else known))
        return _outcome(response, case, target)
    except (LookupError, ArithmeticError, ValueError, struct.error) as error:
        raise AnswerError(f"an answer does not fit its case: {error}") from error


def _outcome(response: Response, case: Case, target: str) -> Outcome:
    outputs, at = _outputs(response, case) if response.status == RAN else ({}, 0)
    if response.status == NO_MEMORY:
        return Outcome(target, Status.NOT_RUN, detail=NO_MEMORY_DETAIL)
    damage = _damages(response, case, at)
    if response.status == MISREAD and not damage:
        return Outcome(target, Status.NOT_RUN, detail=MISREADS)
    if response.status == MISREAD:  # the kernel itself had done this damage by then
        return Outcome(target, Status.FAULT, damage=damage)
    if response.status == FAULT:
        return Outcome(target, Status.FAULT, fault=_fault(response, case), damage=damage)
    end = at + response.damages * DAMAGE.size
    changes = _changes(response)
    if response.status in _SAID:
        words = response.payload[end : len(response.payload) - response.changes]
        said = words.decode(errors="replace") or _refused(response.code)
        return Outcome(target, _SAID[response.status], damage=damage, changes=changes, detail=said)
    if response.status != RAN:
        raise AnswerError(f"an answer has the status {response.status}")
    unwritten = _unwrittens(response, case, end)
    return Outcome(target, Status.RAN, outputs, damage=damage, unwritten=unwritten, changes=changes)


@lru_cache(maxsize=1024)
def _name(text: str, room: int = NAME_BYTES) -> bytes:
    raw = text.encode()
    if len(raw) >= room:
        raise FrameError(f"the name {text!r} has more than {room - 1} bytes")
    return raw


def _param(name: str, value: float | int) -> bytes:
    if isinstance(value, int):
        return INTEGER.pack(_name(name), 0, 0, value)
    return REAL.pack(_name(name), 1, 0, value)


def _tensor(name: str, tensor: Tensor | Output, alias: int) -> bytes:
    layout: Layout = tensor.layout
    rank = len(layout.shape)
    if rank > MAX_RANK:
        raise FrameError(f"{name}: rank {rank} is more than {MAX_RANK}")
    head = (_name(name), DTYPES[tensor.dtype], rank, _GUARDS[layout.guard], alias, 0, layout.offset)
    return _TENSORS[rank].pack(*head, layout.size * ITEMSIZE[tensor.dtype], *layout.shape, *layout.strides)


def _outputs(response: Response, case: Case) -> tuple[dict[str, bytes], int]:
    """Return the outputs in a payload, and the offset at which they end. Raise CountError if it has too few bytes."""
    outputs, there = {}, len(response.payload)
    at = 0
    for name, output in case.outputs.items():
        itemsize, count = ITEMSIZE[output.dtype], output.layout.size
        end = at + count * itemsize
        if end > there:
            raise CountError(f"it returned {(there - at) // itemsize} of the {count} numbers of {name}")
        outputs[name] = response.payload[at:end]
        at = end
    return outputs, at


def _shared(response: Response, case: Case, known: Answers) -> dict[str, bytes]:
    """Return the outputs of a call that has nothing else to report. Most targets return the same outputs, which are
    decoded once. Raise CountError if the payload has too few or too many bytes."""
    for payload, outputs in known:
        if payload == response.payload:
            return outputs
    outputs, end = _outputs(response, case)
    if end < len(response.payload):
        raise CountError(f"it returned {len(response.payload) - end} bytes beyond all of {' and '.join(outputs)}")
    known.append((response.payload, outputs))
    return outputs


def _tensor_name(case: Case, index: int) -> str:
    return list(case.tensors)[index]


def _place(case: Case, tensor: int, element: int) -> tuple[int | None, int | None]:
    """Return the row and the column of an element. Both are None if there is no such element; either may be None alone,
    if the tensor has no rows or no columns."""
    if tensor < 0 or element < 0:
        return None, None
    name = _tensor_name(case, tensor)
    op, layout = OPS.get(case.op), case.tensors[name].layout
    if op is not None and not op.has_rows(name):
        of_rows = op.operand(name).axes == (OUTER,)
        return (element, None) if of_rows else (None, element % max(math.prod(layout.shape[-1:]), 1))
    is_turned = op is None or name in op.alike
    return _row_and_column(element, layout.shape, int(case.params.get(AXIS, -1)) if is_turned else -1)


def _row_and_column(element: int, shape: tuple[int, ...], axis: int) -> tuple[int, int | None]:
    """Return the row and the column of an element. Rows are counted over all axes but `axis`, flattened."""
    row, column, weight = 0, None, 1
    for k in reversed(range(len(shape))):
        element, index = divmod(element, shape[k])
        if k == axis % len(shape):
            column = index
        else:
            row += index * weight
            weight *= shape[k]
    return row, column


def _fault(response: Response, case: Case) -> Fault:
    row, column = _place(case, response.tensor, response.element)
    return Fault(
        _SIGNALS.get(response.signal, f"signal {response.signal}"),
        _tensor_name(case, response.tensor) if response.tensor >= 0 else None,
        row,
        response.byte if response.byte != UNKNOWN_BYTE else None,
        _ACCESS[response.access],
        column,
    )


def _damages(response: Response, case: Case, at: int) -> tuple[Damage, ...]:
    found = []
    for k in range(response.damages):
        tensor, kind, place, element, byte, count = DAMAGE.unpack_from(response.payload, at + k * DAMAGE.size)
        row, column = _place(case, tensor, element)
        found.append(Damage(_tensor_name(case, tensor), KINDS[kind], row, byte, PLACES[place], count, column))
    return tuple(found)


def _unwrittens(response: Response, case: Case, at: int) -> tuple[Unwritten, ...]:
    records = (UNWRITTEN.unpack_from(response.payload, at + k * UNWRITTEN.size) for k in range(response.unwrittens))
    found = tuple(Unwritten(_tensor_name(case, output), first, count) for output, first, count in records)
    for each in found:
        if not 0 < each.count <= case.outputs[each.output].layout.size - each.first:
            raise ValueError(f"{each.output} has no {each.count} elements from element {each.first} on")
    return found


def _changes(response: Response) -> tuple[Change, ...]:
    """Return the changes listed at the end of the payload, one on each line. Equal changes are reported once."""
    if not response.changes:
        return ()
    text = response.payload[-response.changes :].decode(errors="replace")
    parted = [line.partition(": ") for line in text.splitlines() if line]
    if response.changes > len(response.payload) or not {kind for kind, _, _ in parted} <= {*CHANGES}:
        raise ValueError("it says what else of the process was changed in no words of ours")
    return tuple(dict.fromkeys(Change(kind, printable(words)) for kind, _, words in parted))


def _refused(code: int) -> str:
    """Return the meaning of a return value other than KF_OK."""
    if code == KF_REJECTED:
        return "the kernel returned KF_REJECTED for an input that its declared capabilities include"
    return f"the kernel returned {code}, which is neither KF_OK nor KF_REJECTED"
