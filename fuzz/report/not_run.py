"""Why targets did not run: a line for each reason, since a missing QEMU would otherwise be said two dozen times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def not_run_lines(reasons: Mapping[str, str]) -> list[str]:
    """Such as 'NOT_RUN c-neon@qemu:gcc-O0 and 13 more: gcc is not installed', from the reason of each target."""
    by_reason: dict[str, list[str]] = {}
    for target, reason in reasons.items():
        by_reason.setdefault(reason, []).append(target)
    return [f"NOT_RUN {and_more(targets)}: {reason}" for reason, targets in by_reason.items()]


def and_more(names: Sequence[str]) -> str:
    """The first of them, and how many there are besides."""
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]
