"""How a worker process ended, and the last words on its stderr."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from fuzz.core.transport import records

_RAISED = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception)(?:$|: .*)", re.MULTILINE)
"""The line of an error, as Python and JavaScript print it."""
_RAISED_AT = re.compile(r'^ *File "([^"]+)", line (\d+)|^(/\S+):(\d+)$', re.MULTILINE)
"""The line of a trace that says where the error was raised."""


@dataclass(frozen=True)
class Ending:
    """The reason why a worker stopped answering."""

    hung: bool
    code: int
    """The exit code, or minus the number of the signal, as in subprocess."""
    said: str
    """The end of the text that the worker wrote to stderr."""
    ended: str = ""
    """The reason why the engine ended the worker, if it neither ended by itself nor hung."""
    unplaced: bool = False
    """Whether answers were lost with the worker. Then any case of the frame that has no answer may be to blame."""
    early: bool = False
    """Whether the worker was ended after less time than a case may take, so that a hang is still to be confirmed."""
    cut: str = ""
    """The name of the other machine if the connection to it ended. The kernel is then not to blame."""

    @property
    def from_outside(self) -> bool:
        """Whether the worker was ended by a signal from others: an operator, or the system when memory runs out."""
        return not self.hung and not self.ended and self.code in (-signal.SIGKILL, -signal.SIGTERM)

    @property
    def refuses_frame(self) -> bool:
        """Whether the worker could not read the frame that it was sent."""
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
        """The error in an interpreter's trace, such as 'worker.py:3: SyntaxError: invalid syntax'; '' if none."""
        errors, places = _RAISED.findall(self.said), _RAISED_AT.findall(self.said)
        if not errors or not places:
            return ""
        return f"{':'.join(word for word in places[-1] if word)}: {errors[-1]}"

    @property
    def trace(self) -> str:
        """All lines of the interpreter's trace but the error itself; '' if there is no trace."""
        raised = self.raised
        return "\n".join(line for line in self.said.splitlines() if not raised.endswith(line)) if raised else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most signals for real-time programs have no name
        return f"signal {number}"


class EndedError(Exception):
    """A worker process died or hung."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending))
        self.ending = ending
