"""A snippet: a failing case in a few lines of Markdown that say all by themselves, to paste into an issue."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator

from fuzz.adapters.export import hex_words
from fuzz.base.case import Case, Tensor, contiguous
from fuzz.base.errors import UsageError
from fuzz.report.brief import brief_of
from fuzz.report.words import nested, what_is_wrong
from fuzz.triage.explanation import Explanation, Memory
from oracles.declared import AXIS
from oracles.dtypes import ITEMSIZE
from oracles.rounding import NATIVE

_WIDTH = 200
"""Columns of a line: a page breaks it."""
_LISTED = 12
"""The most elements that are listed one by one. Chosen, not measured."""
_MOST = 2000
"""The most characters of a tensor that is packed: nobody pastes more. Chosen, not measured."""


def snippet(told: Explanation, case: Case) -> str:
    """Return what is wrong, the inputs bit for bit as Python that needs NumPy alone, what came of them and what must
    come, and what becomes of them with one thing changed. Raises UsageError for inputs that are too large."""
    said = brief_of(told, _WIDTH)
    given = ", ".join([*case.inputs, *(name for name in case.params if name != AXIS)])
    lines = [
        f"**{told.kernel}: {what_is_wrong(told)}** ({said.where})",
        "```python",
        "import numpy as np",
        *_packing(case),
        *(_line(name, tensor, told.case.inputs.get(name)) for name, tensor in case.inputs.items()),
        *(f"{name} = {_number(value)}" for name, value in case.params.items() if name != AXIS),
        f"# {told.kernel}({given}): {said.outcome}",
        "```",
        *([said.evidence] if said.evidence else []),
        f"kernelfuzz {told.kernelfuzz}, op {told.op}, {told.target}, case {case.digest[:12]}",
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def _packing(case: Case) -> Iterator[str]:
    if any(_is_packed(tensor) for tensor in case.inputs.values()):
        yield "import base64, zlib"


def _is_packed(tensor: Tensor) -> bool:
    return len({*hex_words(tensor)}) > 1 and tensor.layout.size > _LISTED


def _line(name: str, tensor: Tensor, seen: Memory | None) -> str:
    """Return an assignment of the tensor, contiguous, with its values in words where they are few, and how it lay; of a
    dtype that NumPy has not, of its bits."""
    size, shape, words = ITEMSIZE[tensor.dtype], tensor.layout.shape, hex_words(tensor)
    if _is_packed(tensor):
        packed = base64.b85encode(zlib.compress(tensor.bits, 9)).decode()
        if len(packed) > _MOST:
            raise UsageError(
                f"--snippet: {name} is too large to paste: send the case file, which kernelfuzz repro runs"
            )
        made = f"np.frombuffer(zlib.decompress(base64.b85decode({packed!r})), '<u{size}').copy()"
    elif len({*words}) == 1 and tensor.layout.size > 1:
        made = f"np.full({tensor.layout.size}, 0x{words[0]}, '<u{size}')"
    else:
        made = f"np.array([{', '.join(f'0x{word}' for word in words)}], '<u{size}')"
    known = NATIVE.get(tensor.dtype)
    made += f".view('{known.str}')" if known is not None else ""
    remarks = [tensor.dtype if known is not None else f"the bits of {tensor.dtype}"]
    if seen is not None and 0 < len(seen.values) <= _LISTED:
        remarks.insert(0, nested(seen))
    if tensor.layout.strides != contiguous(shape).strides:
        remarks.append(f"with strides {[*tensor.layout.strides]}")
    if tensor.alias is not None:
        remarks.append(f"the same memory as {tensor.alias}")
    return f"{name} = {made}.reshape({shape})  # {', '.join(remarks)}"
