"""How a check ends that does not pass."""

from __future__ import annotations

from typing import Any


class CheckFailed(AssertionError):  # noqa: N818 (named as test suites name it)
    """The kernel failed, or nothing could be judged. The message is the whole report."""

    __module__ = "fuzz"


class CheckError(Exception):
    """A check that cannot be made as it was asked for. The message says what to do."""

    __module__ = "fuzz"


class NotRunWarning(UserWarning):
    """A target of a check that passed did not run here."""

    __module__ = "fuzz"


def told(info: Any) -> bool:
    """Whether pytest hides our frames: their message says everything. Those of an internal error are shown."""
    return isinstance(info.value, (CheckFailed, CheckError))
