"""Work that is spread over processes: all of it is done, a process that dies is told, and the end is prompt."""

from __future__ import annotations

import os
import time
from contextlib import closing
from itertools import count
from multiprocessing import active_children

import pytest

from fuzz.campaign.parallel import spread


def test_every_item_is_done_once_by_processes_of_their_own() -> None:
    factor = 3  # a forked process is given what no message could carry
    found = dict(spread(lambda item: (item * factor, os.getpid()), range(40), 2, "fork"))
    assert {item: result and result[0] for item, result in found.items()} == {item: 3 * item for item in range(40)}
    assert os.getpid() not in {result and result[1] for result in found.values()}
    assert not active_children()


def test_an_error_is_raised_where_the_items_are_asked_for() -> None:
    with pytest.raises(ZeroDivisionError), closing(spread(lambda item: 1 // item, [1, 0, 1], 1, "fork")) as found:
        list(found)
    assert not active_children()


def test_a_process_that_dies_is_told_and_nothing_further_begins() -> None:
    begun = count()
    found = list(spread(lambda item: item if item < 3 else os._exit(9), begun, 2, "fork"))
    assert {result for _, result in found if result is not None} == {0, 1, 2}
    assert {item for item, result in found if result is None} >= {3}
    assert next(begun) <= 6


def test_what_still_runs_at_the_end_is_not_waited_for() -> None:
    started = time.monotonic()
    assert list(spread(lambda item: time.sleep(600), range(4), 2, "fork", lambda: True)) == []
    for _ in spread(lambda item: time.sleep(item), (0, 600), 2, "fork"):
        break
    assert time.monotonic() - started < 600
    assert not active_children()
