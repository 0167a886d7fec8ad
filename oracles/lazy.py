"""A property that is computed once. The one in `functools` takes a lock up to Python 3.11, which costs ten times as
much as most properties here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_Owner = TypeVar("_Owner")
_Value = TypeVar("_Value")


class lazy(Generic[_Owner, _Value]):  # noqa: N801 - used as a decorator, as property is
    """Computed when it is first asked for, and kept in the object's own dictionary, where it is found from then on."""

    def __init__(self, compute: Callable[[_Owner], _Value]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type[_Owner], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[_Owner]) -> lazy[_Owner, _Value]: ...
    @overload
    def __get__(self, instance: _Owner, owner: type[_Owner]) -> _Value: ...
    def __get__(self, instance: _Owner | None, owner: type[_Owner]) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
