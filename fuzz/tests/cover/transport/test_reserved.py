"""Bytes of a GPU of which windows alone have memory: which pages a driver is asked for, and what it is given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fuzz.core.transport.python.reserved import ReservedBytes, whole_pages

_PAGE, _START = 1 << 21, 1 << 40


class NotingDriver:
    """Hands out addresses as a driver does, and notes what is mapped."""

    def __init__(self, fails_at: int = -1) -> None:
        self.mapped, self.reserved, self.handles = dict[int, int](), dict[int, int](), 0
        self.accessible, self._fails_at = set[int](), fails_at

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *args: self._called(name, *args)

    def _called(self, name: str, *args: Any) -> int:
        if name == "cuMemGetAllocationGranularity":
            args[0]._obj.value = _PAGE
        elif name == "cuMemAddressReserve":
            args[0]._obj.value, self.reserved[_START] = _START, args[1].value
        elif name == "cuMemCreate":
            if len(self.mapped) == self._fails_at:
                return 2
            self.handles += 1
        elif name == "cuMemMap":
            self.mapped[args[0].value] = args[1].value
        elif name == "cuMemRelease":
            self.handles -= 1
        elif name == "cuMemSetAccess":
            self.accessible.add(args[0].value)
        elif name == "cuMemUnmap":
            assert self.mapped.pop(args[0].value) == args[1].value
        elif name == "cuMemAddressFree":
            assert not self.mapped, "it is unmapped before"
            assert self.reserved.pop(args[0].value) == args[1].value
        return 0


def test_pages_are_whole_and_each_is_taken_once() -> None:
    windows = [slice(0, 1), slice(5, 12), slice(19, 21), slice(25, 30), slice(60, 61)]
    assert [*whole_pages(windows, 10)] == [(0, 30), (60, 70)]
    assert [*whole_pages([slice(0, 1), slice(40, 41)], 10)] == [(0, 10), (40, 50)]


def test_only_pages_of_windows_have_memory_and_all_is_given_back() -> None:
    driver, size = NotingDriver(), (8 << 30) + 4096
    bytes_ = ReservedBytes(size, [slice(100, 200), slice(4 << 30, (4 << 30) + 9), slice(size - 9, size)], 0, driver)
    before = -(-size // _PAGE) * _PAGE
    assert bytes_.start == _START + before
    assert driver.reserved == {_START: 3 * before}, "as much before and behind is nobody else's"
    places = [bytes_.start, bytes_.start + (4 << 30), bytes_.start + (8 << 30)]
    assert driver.mapped == dict.fromkeys(places, _PAGE)
    assert (driver.accessible, driver.handles) == ({*places}, 0)
    assert bytes_.__cuda_array_interface__["data"] == (bytes_.start, False)
    del bytes_
    assert driver.mapped == driver.reserved == {}


def test_where_there_is_no_memory_nothing_stays_mapped() -> None:
    driver = NotingDriver(fails_at=1)
    with pytest.raises(MemoryError, match="cuMemCreate returned 2"):
        ReservedBytes(8 << 30, [slice(0, 9), slice(4 << 30, 5 << 30)], 0, driver)
    assert driver.mapped == driver.reserved == {}
