"""The request to a judge: the options of the command, here or for a server. Imports little, as every client needs
it."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fuzz.core.base import __version__
from fuzz.core.base.errors import UsageError

QUICK_REPLAYS, FULL_REPLAYS = 48, 600
"""The numbers of cases for a quick and for a full verdict if the reference is run in place of a formula. Each such case
takes twenty runs of the reference."""


@dataclass(frozen=True)
class Asked:
    """The options of `kernelfuzz judge`."""

    solutions: tuple[str, ...]
    against: str
    shapes: str | None
    values: str
    seed: int | None
    cases: int
    replays: int
    """The most cases if the reference is run in place of a formula: twenty runs of the reference for each."""
    output: Path
    untrusted: bool
    targets: tuple[str, ...]
    case_limit: float | None
    explain_s: float | None
    """The seconds for explaining each bug. If None, bugs are shown as found, with what changes the failure."""
    own: bool = False
    """Whether to judge at the shapes that come with the task only."""
    any_values: bool = False
    """Whether inputs may lack properties, such as being triangular, that all inputs of the task have."""
    max_time: float | None = None
    """The seconds after which the ruling is printed, on whatever was judged until then; None for no limit."""

    @property
    def replay_s(self) -> float:
        """The processor seconds that all cases together may take if the reference is run in place of a formula."""
        return 60.0 * max(1.0, self.replays / QUICK_REPLAYS)


@dataclass(frozen=True)
class JudgeRequest:
    """A request to a server: the command's options, the form of the answer, and everything else that may affect it."""

    asked: Asked
    json: bool
    verbose: bool
    folder: str = field(default_factory=os.getcwd)
    """The folder that relative names of files start from."""
    environment: Mapping[str, str] = field(default_factory=lambda: _written(os.environ))
    version: str = __version__
    began: float = field(default_factory=time.monotonic)
    """The time when the request's time limit begins, by the monotonic clock, which all processes of a machine share."""

    def encoded(self) -> bytes:
        """Return the request as JSON."""
        return json.dumps(asdict(self), default=str).encode()


def decoded(message: bytes) -> JudgeRequest:
    """Return the request in a message. Raises UsageError for an unreadable message or a client of another version."""
    import msgspec

    try:
        found = msgspec.json.decode(message, type=JudgeRequest, dec_hook=lambda kind, value: kind(value))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"the server cannot read the request: {error}") from error
    if found.version != __version__:
        raise UsageError(f"the server is of version {__version__}, and the request of {found.version}")
    return found


def _written(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables whose names and values are text; those with bytes that cannot be decoded are left out."""
    return {name: value for name, value in environment.items() if not re.search("[\ud800-\udfff]", name + value)}
