"""The judgement of a shipped library's function by `fuzz.check`."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stderr
from functools import partial

from hypothesis import settings

from fuzz.core.base.capability import Capabilities
from fuzz.core.base.errors import error_line
from fuzz.quality.asking import all_asked
from fuzz.quality.shipped.rows import ABSENT, ShippedAnswer, ShippedOp, shipped_ops
from fuzz.tasks.check.check import check
from fuzz.tasks.check.results import CheckError, CheckFailed
from fuzz.tasks.comparison import FORMULA, OPEN, REPLAY, RIGHT, WRONG

_PROFILE = "shipped"
_LIMIT_S = 1800.0
"""The most seconds for one row."""


def all_answers(keys: Sequence[str], jobs: int, cases: int, seed: int) -> Iterator[ShippedAnswer]:
    """Yield the answers about some rows, as they are found."""
    for each in all_asked(keys, partial(_answers_of, cases=cases, seed=seed), jobs, _LIMIT_S):
        yield from each.found or [ShippedAnswer(each.name, OPEN, each.ended)]


def _answers_of(key: str, cases: int, seed: int) -> Iterator[ShippedAnswer]:
    yield answer(shipped_ops()[key], cases, seed)


def answer(op: ShippedOp, cases: int, seed: int) -> ShippedAnswer:
    """Judge one row. What `fuzz.check` keeps of a failure goes into a folder that does not stay."""
    try:
        kernel, reference = op.functions()
    except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: torchvision's, without its own library
        return ShippedAnswer(op.key, ABSENT, error_line(error))
    settings.register_profile(_PROFILE, database=None)  # what failed the last time is not looked up
    settings.load_profile(_PROFILE)
    os.environ.setdefault("KERNELFUZZ_EXPLAIN_S", "0.5")  # a table has no room for explanations
    given, by = {"arrays": "numpy", "max_cases": cases, **op.options}, REPLAY if "oracle" in op.options else FORMULA
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stderr(io.StringIO()):
        try:
            check(
                kernel, reference=reference, shapes=op.shapes, capabilities=Capabilities(**op.capabilities),
                name=re.sub(r"\W+", "_", op.name), seed=seed, **given,
            )  # fmt: skip
        except CheckFailed as failed:
            wrong, text = bool(failed.failures), str(failed)
            return ShippedAnswer(op.key, WRONG if wrong else OPEN, _said(text), by if wrong else "", text)
        except CheckError as error:
            return ShippedAnswer(op.key, OPEN, str(error))
    return ShippedAnswer(op.key, RIGHT, by=by)


_HEAD = r"^FAIL +\S+ +"
_REST = r" (this case )?(passes at|fails (alike|at)|that is, with|in all failing cases|again: |next: ).*"


def _said(text: str) -> str:
    """Return what the report of a failure says first: what is wrong, and with which inputs."""
    return re.sub(_REST, "", re.sub(_HEAD, "", " ".join(text.split())))[:300]
