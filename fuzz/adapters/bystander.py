"""A bystander: a worker whose kernel does nothing, started where another one did not start."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from fuzz.transport.ending import EndedError
from fuzz.transport.process import Process
from fuzz.transport.steps import Steps


@dataclass(frozen=True)
class Bystander:
    """If it does not start either, no kernel is to blame."""

    process: Process
    place: str
    """What starts it, such as 'qemu'."""
    command: Sequence[str]

    def hindrance(self) -> Steps[str]:
        """Why it does not start, in one line; '' where it does. Its process is over then."""
        try:
            yield from self.process.hello()
        except EndedError as error:
            ending, what = error.ending, shlex.join(self.command)
            nothing = f"it is not ready after {self.process.start_limit:g} s" if ending.hung else str(ending)
            first = next(iter(ending.said.splitlines()), "") or nothing
            return f"{self.place} starts no worker: {first} (to see it: {what})"
        finally:
            self.process.close()
        return ""
