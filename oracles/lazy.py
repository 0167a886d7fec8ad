"""Values that are computed or read when they are first asked for. `functools.cached_property` takes a lock up to Python
3.11, which costs ten times as much as most properties here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, Generic, TypeVar, overload

_Owner = TypeVar("_Owner")
_Value = TypeVar("_Value")


class lazy(Generic[_Owner, _Value]):  # noqa: N801 - used as a decorator, as property is
    """A property that is computed when it is first read. Its value is kept in the object's `__dict__`, where Python
    finds it afterwards."""

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


class ReadWhenAsked(MutableMapping[str, _Value]):
    """A mapping of names to records, in the order of the names. Each record is read when it is first asked for."""

    def __init__(self, names: Iterable[str], read: Callable[[str], _Value]) -> None:
        self._names, self._read = dict.fromkeys(names), read
        self.known: dict[str, _Value] = {}
        """The records that were read or set so far."""

    def __getitem__(self, name: str) -> _Value:
        if name not in self.known:
            if name not in self._names:
                raise KeyError(name)
            self.known[name] = self._read(name)
        return self.known[name]

    def __setitem__(self, name: str, record: _Value) -> None:
        self._names[name] = None
        self.known[name] = record

    def __delitem__(self, name: str) -> None:
        del self._names[name]
        self.known.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
