"""Messages between this process and the oracle's: JSON, and the bytes of tensors and masks behind it.

Nothing of ours is pickled, and JSON alone would take tensors apart into numbers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz.judge.values import Bits, Form, Query, Values
from oracles.numerics import Numerics
from oracles.truth import OutputCheck

_HEAD = struct.Struct("<Q")
"""The number of bytes of the JSON comes first."""


@dataclass(frozen=True)
class CaseQueries:
    """What is asked about one case, in a message that asks about a batch."""

    values: Values
    queries: Sequence[Query]


def encode_queries(cases: Sequence[CaseQueries], contracts: Sequence[Numerics]) -> bytes:
    """`contracts`: all that are asked about; both sides know them in this order."""
    places = {numerics: place for place, numerics in enumerate(contracts)}
    head, tail = [], list[bytes]()
    for case in cases:
        values, distinct = case.values, dict[Bits, int]()
        queries = [(places[numerics], distinct.setdefault(bits, len(distinct))) for numerics, bits in case.queries]
        head.append({
            "op": values.op,
            "params": dict(values.params),
            "inputs": [(name, form.dtype, form.shape, len(bits)) for name, (form, bits) in values.inputs.items()],
            "outputs": [(name, form.dtype, form.shape) for name, form in values.outputs.items()],
            "structured": values.structured,
            "digest": values.digest,
            "received": [[len(each) for each in bits] for bits in distinct],
            "queries": queries,
        })  # fmt: skip
        tail += [bits for _, bits in values.inputs.values()]
        tail += [each for bits in distinct for each in bits]
    return _joined(head, tail)


def decode_queries(message: bytes, contracts: Sequence[Numerics]) -> list[CaseQueries]:
    """The inverse of `encode_queries`."""
    head, tail = _parted(message)
    cases = []
    for each in head:
        inputs = {name: (Form(dtype, tuple(shape)), tail.take(size)) for name, dtype, shape, size in each["inputs"]}
        outputs = {name: Form(dtype, tuple(shape)) for name, dtype, shape in each["outputs"]}
        values = Values(each["op"], each["params"], inputs, outputs, each["structured"], each["digest"])
        received = [tuple(tail.take(size) for size in sizes) for sizes in each["received"]]
        cases.append(CaseQueries(values, [(contracts[place], received[index]) for place, index in each["queries"]]))
    return cases


def encode_answers(answers: Sequence[Sequence[OutputCheck]]) -> bytes:
    """For each case the decisive output of each query, in that order."""
    tail = [np.packbits(check.mask).tobytes() for checks in answers for check in checks if check.mask is not None]
    return _joined([[_fields(check) for check in checks] for checks in answers], tail)


def decode_answers(message: bytes) -> list[list[OutputCheck]]:
    """The inverse of `encode_answers`."""
    head, tail = _parted(message)
    return [[_check(fields, tail) for fields in checks] for checks in head]


class _Tail:
    """The bytes behind the JSON, taken from the front."""

    def __init__(self, rest: memoryview) -> None:
        self._rest = rest

    def take(self, size: int) -> bytes:
        taken, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return taken


def _joined(head: object, tail: Sequence[bytes]) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(len(text)), text, *tail))


def _parted(message: bytes) -> tuple[Any, _Tail]:
    (size,) = _HEAD.unpack_from(message)
    end = _HEAD.size + size
    return json.loads(message[_HEAD.size : end]), _Tail(memoryview(message)[end:])


def _fields(check: OutputCheck) -> tuple[object, ...]:
    mask = None if check.mask is None else check.mask.shape
    return (
        check.output, check.result, check.worst_index, check.worst_ratio, check.failing, check.proven, check.escalated,
        check.blunt, mask,
    )  # fmt: skip


def _check(fields: Sequence[Any], tail: _Tail) -> OutputCheck:
    output, result, index, ratio, failing, proven, escalated, blunt, shape = fields
    mask = None
    if shape is not None:
        size = int(np.prod(shape))
        packed = np.frombuffer(tail.take((size + 7) // 8), np.uint8)
        mask = np.unpackbits(packed, count=size).astype(bool).reshape(shape)
    place = None if index is None else tuple(index)
    return OutputCheck(output, result, place, ratio, failing, proven, escalated, blunt, mask)
