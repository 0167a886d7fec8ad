"""The demonstration: a kernel with a bug, an ordinary test that it passes, and the failure that a search finds."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings

from fuzz.core.base.capability import Capabilities
from fuzz.core.base.errors import InternalError
from fuzz.explain.explanation import Explanation
from fuzz.findings import casefile
from fuzz.report.brief import Commands, brief
from fuzz.tasks.check.check import CheckFailed, check
from fuzz.tasks.check.request import Arrays
from fuzz.tasks.check.setup import GIVEN

BLOCK = 4


# Written as by somebody who knows NumPy, with a mistake. Users are shown its source, so this comment is outside.
def softmax(x: Any) -> Any:
    n = x.shape[-1]
    below = x - x.max(-1, keepdims=True)
    padding = [(0, 0)] * (x.ndim - 1) + [(0, -n % BLOCK)]
    e = np.exp(np.pad(below, padding))  # should be padded with -inf
    return (e / e.sum(-1, keepdims=True))[..., :n]


SHAPE = (64, 1024)
"""The usual shape of tests, whose rows fill whole blocks."""
_SEED = 1
_CASES = 20
_ABLE = Capabilities(empty=False, max={"n": 64})
"""The capabilities of the demonstrated kernel. Short rows show the mistake as well as long ones, and take less time."""


@dataclass(frozen=True)
class OrdinaryTest:
    """The result of a test with normal values at the usual shape."""

    close: bool
    largest: float
    """The largest absolute difference from the result in float64."""


def ordinary_test() -> OrdinaryTest:
    """Compare the kernel with a correct softmax, as most tests do, and return the result."""
    x = np.random.default_rng(_SEED).standard_normal(SHAPE, dtype=np.float32)
    got = softmax(x)
    e = np.exp(x.astype(np.float64))
    right = e / e.sum(-1, keepdims=True)
    return OrdinaryTest(np.allclose(got, right), float(np.abs(got - right).max()))


def found(explain_s: float) -> Explanation:
    """Return the explained finding of a search. Raises InternalError if there is none, since the kernel has a bug."""
    told = found_by_check(softmax, "softmax", _ABLE, explain_s, _SEED, "numpy", _CASES)
    if not told:
        raise InternalError("the planted bug was not found")
    return replace(told[0], option="--explain-time")


def planted_lines() -> Iterator[str]:
    """Yield the lines that show the kernel and the result of an ordinary test."""
    yield f"A softmax in NumPy. It works in blocks of {BLOCK}, and pads the last one wrongly:"
    yield ""
    source = inspect.getsource(softmax).replace(": Any", "").replace(" -> Any", "")
    yield from (f"    {line}".rstrip() for line in source.splitlines())
    yield ""
    test, (rows, n) = ordinary_test(), SHAPE
    verdict = "passes" if test.close else "fails"
    yield f"1. The usual test, numpy.allclose on normal values of {rows} x {n}: it {verdict}."
    yield f"   The largest difference is {test.largest:.1g}: {n} is a multiple of {BLOCK}."
    yield ""


def told_text(told: Explanation, width: int) -> str:
    """Return the first lines of the failure's report. They name no commands, since no case file is kept."""
    return brief(told, Commands(), width)


def next_lines(seconds: float) -> Iterator[str]:
    """Yield the lines about the time, the meaning of the lines above, and what to type next."""
    yield ""
    yield f"   n is the length of a row. Found and explained in {seconds:.0f} s."
    yield ""
    yield "Next, try a kernel of yours (--kind is c, c++, cuda, triton, torch, numpy, ...):"
    yield "    kernelfuzz init mine --kind numpy --from YOUR_FILE.py"
    yield "    kernelfuzz run --pack mine --max-time 1m"
    yield "Without --from, init writes a right softmax, which you change into your kernel."
    yield "What the words of a report mean: kernelfuzz explain"


_PROFILE = "kernelfuzz aside"


def found_by_check(
    kernel: Callable[..., Any],
    op: str,
    able: Capabilities,
    explain_s: float,
    seed: int,
    arrays: Arrays = "torch",
    max_cases: int | None = None,
) -> list[Explanation]:
    """Return the findings of `fuzz.check` for a plain function, explained for `explain_s` seconds, if there are any."""
    with _aside(op, kernel.__name__, explain_s) as folder:
        with suppress(CheckFailed):
            check(kernel, op=op, capabilities=able, seed=seed, arrays=arrays, max_cases=max_cases)
        kept = [casefile.load(path)[1] for path in sorted(folder.glob("*.json"))]
    return [each.explanation for each in kept if each is not None and each.explanation is not None]


@contextmanager
def _aside(op: str, name: str, explain_s: float) -> Iterator[Path]:
    """Yield a temporary folder for the findings of a check. Inside, no database of earlier failures is used."""
    options, undeclared, profile = GIVEN.options, GIVEN.undeclared, settings.get_current_profile_name()
    # Otherwise a case that failed the last time would run first, and the search would be left out.
    settings.register_profile(_PROFILE, database=None)
    with tempfile.TemporaryDirectory() as folder:
        settings.load_profile(_PROFILE)
        GIVEN.options = replace(options, output=Path(folder), explain_s=explain_s)
        GIVEN.undeclared = {op: {name: {}}}  # as if reported already: the kernel is not the user's
        try:
            yield Path(folder)
        finally:
            GIVEN.options, GIVEN.undeclared = options, undeclared
            settings.load_profile(profile)
