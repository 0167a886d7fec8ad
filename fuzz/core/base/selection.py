"""Choosing targets by name, with globs and keyword expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from fuzz.core.base.errors import UsageError

Matcher = Callable[[str], bool]


_SHORT = re.compile(r"^(\w+)@")
_PLACE = re.compile(r"^(c\b.*@\w+)$")
"""A pattern for a C target without its compiler and options, such as 'c-sve@qemu'."""


_DEVICE = re.compile(r"@(interpret|cpu|cuda)$")
"""The end of a pattern of a kernel in Python, without a configuration."""


class SelectionError(UsageError):
    """A selection that cannot be read, or that selects nothing."""


def globs(patterns: Iterable[str]) -> tuple[str, ...]:
    """Split comma-separated globs. Names of targets contain commas too, so a comma separates only before another '@'.
    'triton@interpret' is short for 'triton-*@interpret', and so for every kind; 'c-sve@qemu' for 'c-sve@qemu:*'."""
    parts = (part for pattern in patterns for part in re.split(r",(?=[^,]*@)", pattern) if part)
    return tuple(_SHORT.sub(r"\1-*@", _PLACE.sub(r"\1:*", part)) for part in parts)


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether `name` matches one of the globs. 'triton-*@cuda' is short for each of a kernel's configurations, too."""
    return any(
        fnmatchcase(name, pattern) or (_DEVICE.search(pattern) is not None and fnmatchcase(name, f"{pattern}:*"))
        for pattern in patterns
    )


def keyword(expression: str) -> Matcher:
    """Return a matcher for an expression such as 'avx and not O0'. Words are substrings of the name, combined by `and`,
    `or`, `not` and parentheses. Raise SelectionError for an expression that cannot be read."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression)
    matcher, rest = _either(tokens, expression)
    if rest:
        raise SelectionError(f"-k {expression!r}: cannot read {rest[0]!r} there")
    return matcher


def _either(tokens: list[str], whole: str) -> tuple[Matcher, list[str]]:
    left, tokens = _both(tokens, whole)
    while tokens and tokens[0] == "or":
        right, tokens = _both(tokens[1:], whole)
        left = _combine(any, left, right)
    return left, tokens


def _both(tokens: list[str], whole: str) -> tuple[Matcher, list[str]]:
    left, tokens = _single(tokens, whole)
    while tokens and tokens[0] == "and":
        right, tokens = _single(tokens[1:], whole)
        left = _combine(all, left, right)
    return left, tokens


def _single(tokens: list[str], whole: str) -> tuple[Matcher, list[str]]:
    if not tokens or tokens[0] in ("and", "or", ")"):
        raise SelectionError(f"-k {whole!r}: a word is missing {f'before {tokens[0]!r}' if tokens else 'at the end'}")
    first, rest = tokens[0], tokens[1:]
    if first == "not":
        inner, rest = _single(rest, whole)
        return (lambda name: not inner(name)), rest
    if first == "(":
        inner, rest = _either(rest, whole)
        if not rest or rest[0] != ")":
            raise SelectionError(f"-k {whole!r}: a closing parenthesis is missing")
        return inner, rest[1:]
    return (lambda name: first in name), rest


def _combine(how: Callable[[Iterable[bool]], bool], left: Matcher, right: Matcher) -> Matcher:
    return lambda name: how(part(name) for part in (left, right))
