"""How a worker process ended, with what it wrote before."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from fuzz.core.transport import records

_RAISED = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception)(?:$|: .*)", re.MULTILINE)
"""An error as Python and JavaScript print it."""
_RAISED_AT = re.compile(r'^ *File "([^"]+)", line (\d+)|^(/\S+):(\d+)$', re.MULTILINE)
"""The line that says where it was raised."""


@dataclass(frozen=True)
class Ending:
    """How a worker stopped answering."""

    hung: bool
    code: int
    """The exit code, or minus the number of the signal, as in subprocess."""
    said: str
    """The end of what it wrote to stderr."""
    ended: str = ""
    """Why we ended it, if it neither ended by itself nor hung."""
    unplaced: bool = False
    """Whether answers were lost with it, so that any case of its frame without an answer may be to blame."""
    early: bool = False
    """Whether it was ended after less time than a case may take: that it hung is still to be confirmed."""
    cut: str = ""
    """The name of another machine, if the connection to it ended; what ran there is not to blame."""

    @property
    def from_outside(self) -> bool:
        """Whether it was ended by a signal that others send: an operator, or the system when memory runs out."""
        return not self.hung and not self.ended and self.code in (-signal.SIGKILL, -signal.SIGTERM)

    @property
    def refuses_frame(self) -> bool:
        """Whether the worker could not read what it was sent."""
        return self.code == records.BROKEN_FRAME_EXIT and "kernelfuzz worker: broken frame" in self.said

    def __str__(self) -> str:
        if self.cut:
            return f"the connection to {self.cut} ended{f': {self.said.splitlines()[-1]}' if self.said else ''}"
        if self.hung:
            return "no answer within the time limit"
        if self.ended:
            return self.ended
        how = f"killed by {_signal(-self.code)}" if self.code < 0 else f"ended with exit code {self.code}"
        return f"{how}{': ' + (self.raised or self.said) if self.said else ''}"

    @property
    def raised(self) -> str:
        """The error in a trace that an interpreter printed, such as 'worker.py:3: SyntaxError: invalid syntax'; '' if
        there is none."""
        errors, places = _RAISED.findall(self.said), _RAISED_AT.findall(self.said)
        if not errors or not places:
            return ""
        return f"{':'.join(word for word in places[-1] if word)}: {errors[-1]}"

    @property
    def trace(self) -> str:
        """The other lines of that trace."""
        raised = self.raised
        return "\n".join(line for line in self.said.splitlines() if not raised.endswith(line)) if raised else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most signals for real-time programs have no name
        return f"signal {number}"


class EndedError(Exception):
    """The process died or hung."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending))
        self.ending = ending
