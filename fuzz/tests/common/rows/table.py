"""The entries of the table, and the marks that make a function one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Check = Callable[[Any, int], object]
"""Checks a kernel with a seed."""


@dataclass(frozen=True)
class Tried:
    """A kernel with its check."""

    kernel: Callable[..., Any]
    check: Check
    bug: str
    """What is wrong, as its author says it; '' for a right kernel."""
    drawn: bool
    """Whether the check draws its inputs by a seed."""

    @property
    def row(self) -> str:
        """Return the kind of operation, which is the name of the module."""
        return self.kernel.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        """Return the name by which the table tells it, such as 'places/lost_duplicates'."""
        return f"{self.row}/{self.kernel.__name__}"


TRIED: list[Tried] = []
"""All entries of the modules that were imported."""


def right(check: Check, *, drawn: bool = True) -> Callable[[Kernel], Kernel]:
    """Return a decorator that notes a right kernel."""
    return wrong("", check, drawn=drawn)


def wrong(bug: str, check: Check, *, drawn: bool = True) -> Callable[[Kernel], Kernel]:
    """Return a decorator that notes a kernel with a bug."""

    def noted(kernel: Kernel) -> Kernel:
        TRIED.append(Tried(kernel, check, bug, drawn))
        return kernel

    return noted
