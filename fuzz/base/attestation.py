"""What a worker says it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fuzz.base.errors import InternalError


class AttestationError(InternalError):
    """A worker that is not what its target asked for: nothing it computes may be judged. An internal error."""


class Unavailable(Exception):  # noqa: N818 (a state of the machine, not a mistake)
    """A worker that finds, once started, that its target cannot run here. The message says why."""


@dataclass(frozen=True)
class Attestation:
    """What a worker observed about itself when it started; each language adds its own facts."""

    digest: str
    """of the code that it runs."""

    @property
    def words(self) -> str:
        """One line for people."""
        raise NotImplementedError

    @property
    def not_given(self) -> Mapping[str, str]:
        """dtypes that this worker's surroundings get wrong, whatever the kernel does, and how that was seen."""
        return {}


@dataclass(frozen=True)
class NotRun:
    """A target without a worker."""

    reason: str
