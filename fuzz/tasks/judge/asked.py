"""What is asked of a judge: the options of the command, here or as a request to a server. It is light, as whoever asks
imports it."""

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
"""The cases of a quick verdict and of a full one, where the reference itself is run in place of a formula."""


@dataclass(frozen=True)
class Asked:
    """What is to be judged, by what and how."""

    solutions: tuple[str, ...]
    against: str
    shapes: str | None
    values: str
    seed: int | None
    cases: int
    replays: int
    """The cases where the reference itself is run in place of a formula: each takes twenty runs of it."""
    output: Path
    untrusted: bool
    targets: tuple[str, ...]
    case_limit: float | None
    explain_s: float | None
    """The seconds that each bug is explained for; None: it is shown as it was found, with what changes about it."""
    own: bool = False
    """Whether the shapes that come with a task are the only ones."""
    any_values: bool = False
    """Whether inputs may be what those that come with a task never are."""
    max_time: float | None = None
    """The seconds after which there is a ruling, whatever was judged until then."""

    @property
    def replay_s(self) -> float:
        """The seconds of a processor that all replays may take."""
        return 60.0 * max(1.0, self.replays / QUICK_REPLAYS)


@dataclass(frozen=True)
class JudgeRequest:
    """A request to a server: what is asked, how it is answered, and what the answer depends on besides."""

    asked: Asked
    json: bool
    verbose: bool
    folder: str = field(default_factory=os.getcwd)
    """The folder that names of files begin in."""
    environment: Mapping[str, str] = field(default_factory=lambda: _written(os.environ))
    version: str = __version__
    began: float = field(default_factory=time.monotonic)
    """When its time began, by the clock that all processes of a machine share."""

    def encoded(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self), default=str).encode()


def decoded(message: bytes) -> JudgeRequest:
    """Return the request. Raises UsageError for a message that cannot be read, and for another version's."""
    import msgspec

    try:
        found = msgspec.json.decode(message, type=JudgeRequest, dec_hook=lambda kind, value: kind(value))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"the server cannot read the request: {error}") from error
    if found.version != __version__:
        raise UsageError(f"the server is of version {__version__}, and the request of {found.version}")
    return found


def _written(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that are text: no byte of them is one that stands for itself alone."""
    return {name: value for name, value in environment.items() if not re.search("[\ud800-\udfff]", name + value)}
