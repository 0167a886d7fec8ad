"""A pytest plugin: the exact value, rounded once, is right of every reference that a test reads, whoever reads it.

After each test the references that it read first are tried, at night all of them and in the gate some: one that is
accused fails the test, though what is wrong is how the oracle reads it. See `fuzz.quality.calibrate.verb`.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import wraps
from typing import Any
from zlib import crc32

import pytest

from fuzz.references.derive import Derived
from oracles.dtypes import DOUBLE, NARROW, SINGLE
from oracles.op import Op
from oracles.tests.common.judged import known
from oracles.tests.common.whole import WHOLE

_DTYPES = (SINGLE.name, DOUBLE.name, *NARROW)
_CONTRACTS = 3
"""The contracts of `accused`, each of which meets each dtype."""
_ONE_IN = 1 if WHOLE else 30
"""A reference of this many is tried, of some 700 that the gate reads: each takes 0.03 to 0.9 CPU seconds."""
_MOST_PLACES = 1 << 12 if WHOLE else 1 << 9
"""Problems of more are left out: one reference of 3,840 places takes 6 CPU seconds."""

_read: dict[str, Op] = {}
"""The ops of references that were read since the last test, by their text."""
_seen = set[str]()


def pytest_configure() -> None:
    made = Derived.__init__

    @wraps(made)
    def noting(self: Derived, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        if self.module not in _seen and crc32(self.module.encode()) % _ONE_IN == 0:
            _read[self.module] = self.op

    Derived.__init__ = noting  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    from fuzz.quality.calibrate.verb import accused

    _seen.update(_read)
    while _read:
        text, op = _read.popitem()
        with known(op):
            found = [*map(str, accused(op, _DTYPES, _CONTRACTS * len(_DTYPES), 1, _MOST_PLACES))]
        if found:
            pytest.fail("\n".join((*found, "of a reference that this test read:", text)), pytrace=False)
