"""The position of a session in its night."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time in UTC, without a zone, as the tables hold it."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


@dataclass
class Position:
    """Where in a night we are: the slice that is running, and when it and the session began."""

    night: int
    session: int
    earlier_s: float
    """The seconds of the night that earlier sessions have used."""
    began: float
    slice: int = 0
    slice_began: float = 0.0
    triage_s: float = 0.0
    """The seconds of this session that were spent on shrinking and explaining."""
    earlier_triage_s: float = 0.0
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """What tells this session from others that were taken for ended, and have its shards under another token."""
    epoch: int | None = None
    """The number of the slice in its night; None before there is one."""
    saved: int = 0
    """The number of batches of the session that are known to be saved."""

    @property
    def used_s(self) -> float:
        """The seconds of this session."""
        return time.monotonic() - self.began

    @property
    def slice_s(self) -> float:
        """The seconds of the slice."""
        return time.monotonic() - self.slice_began

    @property
    def minute(self) -> int:
        """The minutes that the night has taken, earlier sittings included."""
        return int((self.earlier_s + self.used_s) // 60)
