"""The worker's side of the protocol: it reads frames into cases, and writes answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from fuzz.core.base.capability import MAX_RANK
from fuzz.core.base.case import Case, CaseError, Layout, Output, Tensor
from fuzz.core.transport import records
from fuzz.core.transport.journal import Writer

_FRAME_LIMIT = 1 << 31
_DTYPES = {code: name for name, code in records.DTYPES.items()}


@dataclass(frozen=True)
class Request:
    """A frame: its cases, each with whether to run it twice; the longest time of a case in seconds; and whether to run
    the cases one by one."""

    cases: tuple[tuple[Case, bool], ...]
    limit_s: int
    one_by_one: bool


def broken_frame(reason: str) -> NoReturn:
    """End the worker, since it was sent something that is not a frame of its op."""
    print(f"kernelfuzz worker: {reason}", file=sys.stderr, flush=True)
    os._exit(records.BROKEN_FRAME_EXIT)


class Channel:
    """The protocol, on descriptors other than stdin and stdout, so that a kernel that prints does not corrupt it."""

    def __init__(self, journal: int | None) -> None:
        self._journal = None if journal is None else Writer(journal)
        self._requests, self._responses = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os.close(nothing)

    def hello(self, text: str) -> None:
        data = text.encode()
        self.write(records.HELLO.pack(records.HELLO_MAGIC, len(data)) + data)

    def begin(self, count: int) -> None:
        """Record that `count` cases of the frame are begun."""
        if self._journal is not None:
            self._journal.begin(count)

    def answer(self, data: bytes, done: int) -> None:
        """Add an answer, after which `done` cases of the frame are done. It may be sent later."""
        if self._journal is None:
            self.write(data)
        elif not self._journal.add(data, done):
            self._journal.send(self.write, done, data)

    def flush(self, done: int) -> None:
        """Send the answers that are waiting."""
        if self._journal is not None:
            self._journal.send(self.write, done)

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._responses, rest) :]
        except BrokenPipeError:
            os._exit(0)  # the parent is gone

    def requests(self) -> Iterator[Request | str]:
        """Yield frames until the parent closes the stream, or the text of a spec to run another kernel from now on."""
        while head := self._read(records.FRAME.size, may_end=True):
            magic, count, size, limit_s, audits = records.FRAME.unpack(head)
            if magic not in (records.REQUEST_MAGIC, records.LOAD_MAGIC):
                broken_frame(f"broken frame: magic {magic:08x}")
            if size > _FRAME_LIMIT:
                broken_frame(f"broken frame: {size} bytes")
            if magic == records.LOAD_MAGIC:
                yield self._read(size).decode()
                continue
            yield Request(_cases(self._read(size), count), limit_s, audits == records.AUDIT_EACH)

    def _read(self, size: int, may_end: bool = False) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = os.read(self._requests, size - len(data))
            if not more and may_end and not data:
                return b""
            if not more:
                broken_frame(f"broken frame: the stream ended {size - len(data)} bytes early")
            data += more
        return bytes(data)


def _cases(data: bytes, count: int) -> tuple[tuple[Case, bool], ...]:
    found = []
    at = 0
    for number in range(count):
        if len(data) - at < records.CASE.size:
            broken_frame(f"broken frame: case {number} is cut off")
        size, flags, *counts, op = records.CASE.unpack_from(data, at)
        if size < records.CASE.size or size > len(data) - at:
            broken_frame(f"broken frame: case {number} claims {size} bytes")
        try:
            case = _case(data[at + records.CASE.size : at + size], _text(op), *counts)
        except (CaseError, IndexError, KeyError, ValueError) as error:
            broken_frame(f"broken frame: case {number}: {error!r}")
        found.append((case, bool(flags & records.SECOND_RUN)))
        at += size
    if at != len(data):
        broken_frame(f"broken frame: {len(data) - at} bytes after the last case")
    return tuple(found)


def _case(data: bytes, op: str, params: int, inputs: int, outputs: int) -> Case:
    at = 0
    values: dict[str, float | int] = {}
    for _ in range(params):
        name, kind, *_ = records.INTEGER.unpack_from(data, at)
        record = records.REAL if kind else records.INTEGER
        values[_text(name)] = record.unpack_from(data, at)[3]
        at += record.size
    tensors = [records.TENSOR.unpack_from(data, at + k * records.TENSOR.size) for k in range(inputs + outputs)]
    at += (inputs + outputs) * records.TENSOR.size
    names = [_text(tensor[0]) for tensor in tensors]
    given = {}
    aliases = [None if tensor[4] == records.NO_ALIAS else names[tensor[4]] for tensor in tensors]
    for name, tensor, alias in zip(names[:inputs], tensors, aliases, strict=False):
        size = tensor[7]
        given[name] = Tensor(_DTYPES[tensor[1]], _layout(tensor), data[at : at + size], alias)
        at += (size + 7) // 8 * 8
    wanted = {
        name: Output(_DTYPES[tensor[1]], _layout(tensor), alias)
        for name, tensor, alias in zip(names[inputs:], tensors[inputs:], aliases[inputs:], strict=True)
    }
    return Case(op, values, given, wanted)


def _layout(tensor: tuple[int, ...]) -> Layout:
    rank, guard, offset = tensor[2], tensor[3], tensor[6]
    shape, strides = tensor[8 : 8 + rank], tensor[8 + MAX_RANK : 8 + MAX_RANK + rank]
    return Layout(tuple(shape), tuple(strides), records.GUARDS[guard], offset)


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode()
