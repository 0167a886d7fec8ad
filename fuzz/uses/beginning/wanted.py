"""Which function of a file is meant, and as which op."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from fuzz.base.errors import UsageError
from oracles.op import Op
from oracles.ops import OPS

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Wanted:
    """What is known of a function before its file is read."""

    op: Op | None = None
    """What it computes; without one its name says it."""
    name: str = ""
    """Its name; without one it is the first whose name is that of an op, and that can be called."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """What its arguments are, as `--argument` says."""
    constants: Mapping[str, float] = field(default_factory=dict)
    """The numbers that a reference has, and a kernel may have parameters for."""

    def meant(self, function: str) -> Op:
        """The op that a function of that name is meant as. Raises UsageError."""
        found = self.op or _named(function)
        if found is None:
            raise UsageError(
                f"{function}: its name says no op that there is: name one with --op, see kernelfuzz list ops, or a "
                "Python function that computes the same: --op FILE.py:FUNCTION"
            )
        return found

    def chosen(self, names: Collection[str], where: str, call: Callable[[str], _Found]) -> _Found:
        """What `call` returns of the function that is meant. Raises UsageError, which says what to type."""
        if not names:
            raise UsageError(f"{where}: there is no function in it")
        if self.name and self.name not in names:
            raise UsageError(f"{where}: it has no function {self.name!r}: it has {', '.join(names)}")
        tried = [self.name] if self.name else [each for each in names if self._says(each)] or [*names]
        likely = len(tried) < len(names) or self._says(tried[0])
        if not likely and self.op is None and len(names) > 1:
            raise UsageError(
                f"{where}: no function of it has the name of an op: {', '.join(names)}: name one and its op:"
                f" --from {where}:{tried[0]} --op OP, see kernelfuzz list ops"
            )
        found, wrong = dict[str, _Found](), dict[str, UsageError]()
        for name in tried:
            try:
                found[name] = call(name)
            except UsageError as error:
                wrong[name] = error
        if len(found) > 1 and not likely:
            raise UsageError(f"{where}: it has {', '.join(found)}: name one, --from {where}:{tried[0]}")
        if not found:
            first = next(iter(wrong))
            others = f"; another function of it is named by --from {where}:{tried[1]}" if len(tried) > 1 else ""
            raise UsageError(f"{where}: {wrong[first]}{others}")
        return next(iter(found.values()))

    def _says(self, function: str) -> bool:
        named = _named(function)
        return named is not None and (self.op is None or named.name == self.op.name)


def _named(function: str) -> Op | None:
    """The op with the longest name that the function's has in it."""
    plain = function.lower().replace("_", "")
    found = sorted((each for each in OPS if each.replace("_", "") in plain), key=len)
    return OPS[found[-1]] if found else None
