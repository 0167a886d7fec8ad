"""What a call did, and the bytes that report it."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.core.base.case import Case
from fuzz.core.base.outcome import Change
from fuzz.core.transport import records
from fuzz.core.transport.python.memory import Touched

_WORDS_LIMIT = 1500
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Answer:
    """What a call did, ready to be sent. `unwritten` has, for each output, a mask of elements that hold the poison."""

    status: int
    outputs: Mapping[str, bytes]
    damages: tuple[bytes, ...]
    unwritten: Mapping[str, Any]
    words: str = ""
    touched: Touched | None = None

    @property
    def clean(self) -> bool:
        return self.status == records.RAN and not self.damages

    @property
    def doubtful(self) -> bool:
        """Whether some output elements hold the poison. The kernel may have returned that value by chance, so a second
        run with another poison decides."""
        return self.clean and any(held.any() for held in self.unwritten.values())


NO_MEMORY = Answer(records.NO_MEMORY, {}, (), {})
_NOTHING = Touched(-1, records.UNKNOWN_BYTE, -1, 0)


def failed(error: Exception, *, own: bool) -> Answer:
    """Return the answer for a case in which an exception was raised outside the call. It is an internal error, unless
    the kernel's `own` code was running then: a class of an array that it returned, for example, or a signal handler."""
    if own:
        return Answer(records.RAISED, {}, (), {}, f"after the call: {said(error)}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == _FOLDER]
    where = f" ({Path(frames[-1].filename).name} line {frames[-1].lineno})" if frames else ""
    return Answer(records.OURS, {}, (), {}, f"the worker failed: {said(error)}{where}")


def said(error: Exception) -> str:
    """Return the type and the message of an error, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:_WORDS_LIMIT]}"


def is_of_device(error: Exception) -> bool:
    """Whether the error tells that this process has lost its GPU."""
    return type(error).__name__ == "AcceleratorError" or "CUDA" in str(error)


def respond(position: int, case: Case, first: Answer, second: Answer | None, changes: Sequence[Change] = ()) -> bytes:
    """Return the response to a case: the answer of its first run, unless the second run shows more."""
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
    touched = answer.touched or _NOTHING
    number = signal.SIGSEGV if answer.touched is not None else 0
    return records.RESPONSE.pack(
        records.RESPONSE_MAGIC, position, len(payload), answer.status, touched.access, number, touched.index,
        touched.element, touched.byte, len(answer.damages), len(missed), code, len(changed), 0,
    ) + payload  # fmt: skip
